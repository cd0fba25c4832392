"""What the design promises of the code itself."""

import ast
import importlib
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import jaxtyping
import pytest
import torch

import whyword
from whyword.lazy import MOVED
from whyword.maths.head_sums import prove_heads

import shape_checks

SOURCE = Path(whyword.__file__).parent
ORDER = (
    "errors",
    "lazy",
    "runs",
    "tokens",
    "models",
    "maths",
    "trace",
    "ledger",
    "ask",
    "attribute",
    "document",
    "view",
    "results",
    "pipeline",
    "doctor",
    "data",
    "alignment",
    "inside",
    "sweep",
    "evaluation",
    "corpus",
    "serve",
    "cli",
    "__main__",
)


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def stage(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_stages(path: Path) -> set[str]:
    """Name the stages that a module imports from."""
    found = set()
    depth = len(path.relative_to(SOURCE).parts)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == depth and node.module:
            found.add(node.module.split(".")[0])
    return found


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_go_one_way(path: Path) -> None:
    if path == SOURCE / "__init__.py":
        return
    own = ORDER.index(stage(path))
    for other in imported_stages(path):
        assert ORDER.index(other) < own, f"{stage(path)} imports {other}, which comes later"


def test_a_model_type_is_named_in_the_catalogue_only() -> None:
    for path in modules():
        compared = [
            node
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Compare) and "model_type" in ast.unparse(node)
        ]
        assert not compared or path.name == "catalogue.py", path


def test_hooks_are_in_one_place() -> None:
    with_hooks = {path.name for path in modules() if "register_forward" in path.read_text()}
    assert with_hooks == {"hooks.py", "recorder.py"}


def test_a_name_stands_for_one_module() -> None:
    """Commands are named like what they show; every other module has a name of its own."""
    others = [path for path in modules() if path.parent.name != "commands" and path.stem != "__init__"]
    names = [path.stem.rstrip("s") for path in others]
    assert len(names) == len(set(names)), sorted(name for name in set(names) if names.count(name) > 1)
    assert len(list(SOURCE.glob("*.py"))) <= 8


def test_house_rules() -> None:
    for path in modules():
        text = path.read_text()
        assert ".squeeze(" not in text, path
        assert path.name != "utils.py"
        assert len(text.splitlines()) <= 300, f"{path} is long"


def test_scripts_are_short() -> None:
    """Modules of the page have names of their own, since the server has all of them in one folder."""
    scripts = sorted(SOURCE.rglob("*.js"))
    assert len(scripts) > 20
    assert len({path.name for path in scripts}) == len(scripts)
    for path in scripts:
        assert len(path.read_text().splitlines()) <= 300, f"{path} is long"


def test_the_public_names() -> None:
    assert whyword.__all__ == [
        "Account",
        "Alignment",
        "Comparison",
        "Continuation",
        "Difference",
        "Explanation",
        "FilledPrompt",
        "InputError",
        "Ledger",
        "Model",
        "ModelError",
        "Neurons",
        "Prediction",
        "PromptParts",
        "ProofError",
        "Tokens",
        "Translation",
        "WhywordError",
        "account",
        "align",
        "compare",
        "compare_batch",
        "compare_parts",
        "difference",
        "evaluate",
        "explain",
        "explain_batch",
        "explain_continuation",
        "explain_translation",
        "fill",
        "load",
        "mixing",
        "neurons",
        "open_run",
        "predict",
        "read",
        "run",
        "show_progress",
        "tokenize",
    ]
    assert all(getattr(whyword, name) is not None for name in whyword.__all__)
    assert set(whyword.__all__) <= set(dir(whyword))
    with pytest.raises(AttributeError, match="no attribute 'explian'"):
        _ = whyword.explian  # type: ignore[attr-defined]


@pytest.mark.parametrize(("old", "new"), MOVED.items())
def test_a_module_that_has_moved_says_where_it_is(old: str, new: str) -> None:
    with pytest.raises(ImportError) as caught:
        importlib.import_module(f"whyword.{old}")
    assert str(caught.value) == f"There is no module whyword.{old}.\nIt is now whyword.{new}."
    assert (SOURCE / new.replace(".", "/")).with_suffix(".py").is_file()


def test_importing_is_light() -> None:
    code = "import sys, whyword; print(sorted({'torch', 'transformers', 'numpy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_shapes_are_checked_at_run_time() -> None:
    weights, context = torch.zeros(1, 2, 4, 5), torch.zeros(1, 2, 12)
    prove_heads(["block 1"], weights, torch.zeros(1, 1, 2, 5, 3), context, torch.float32)

    def call_often() -> None:  # a function that was called often is checked now and then
        for _ in range(shape_checks.THEN):
            with suppress(RuntimeError):
                prove_heads(["block 1"], weights, torch.zeros(1, 1, 2, 6, 3), context, torch.float32)

    with pytest.raises(jaxtyping.TypeCheckError, match="values"):
        call_often()
