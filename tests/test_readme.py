"""The code blocks of README and docs run as they stand."""

import re
from pathlib import Path

import pytest

from weights import fetch_folder

ROOT = Path(__file__).parents[1]


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", path.read_text(), flags=re.DOTALL)


@pytest.mark.real
def test_the_readme_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("WHYWORD_CACHE", str(fetch_folder().parents[1]))
    first, second = blocks(ROOT / "README.md", "python")
    names: dict[str, object] = {}
    exec(first, names)
    shown = blocks(ROOT / "README.md", "text")[0]
    found = capsys.readouterr().out
    assert re.sub(r"error .*", "", found) == re.sub(r"error .*", "", shown)
    exec(second, names)
    assert len(names["c"]) > 0  # type: ignore[arg-type]


def test_the_description_in_the_docs() -> None:
    import torch

    import whyword

    from families import build

    names: dict[str, object] = {}
    exec(blocks(ROOT / "docs" / "architecture.md", "python")[0], names)
    model = whyword.load(build("gpt2", torch.float32), architecture=names["mine"])
    assert model.architecture is names["mine"]
