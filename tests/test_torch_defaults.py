"""torch's default device and type are the caller's own: whyword's numbers do not depend on them."""

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

import toy_translators
import whyword
from whyword.attribute import METHODS
from whyword.models.testing.shrink import randomise

from families import build, prompt_of

LONG, SHORT = prompt_of(9), prompt_of(6, 3)
GERMAN, ENGLISH = "Die Bank am Fluss ist alt .", "The bank of the river is old ."
DEFAULTS = [("meta", torch.float32), (None, torch.bfloat16)]
FACTORIES = {
    "arange", "as_tensor", "empty", "eye", "full", "linspace", "ones", "rand", "randint", "randn", "randperm",
    "tensor", "tril_indices", "triu_indices", "zeros",
}  # fmt: skip
FLOATING = {"empty", "eye", "linspace", "ones", "rand", "randn", "zeros"}
"""Those whose type is torch's default unless it is named."""


@contextmanager
def defaults(device: str | None, dtype: torch.dtype) -> Iterator[None]:
    torch.set_default_device(device)
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_device(None)
        torch.set_default_dtype(torch.float32)


def explain_prompts(model: whyword.Model) -> list[Any]:
    compared = whyword.compare(model, LONG, target=5, foil=9, methods=list(METHODS))
    continuation = whyword.explain_continuation(model, LONG, SHORT)
    shown = [
        compared,
        whyword.account(compared["alti-logit"]),
        whyword.predict(model, LONG),
        whyword.neurons(model, LONG),
        *whyword.explain_batch(model, [LONG, SHORT], foils=9),
        continuation,
        continuation.sum(),
    ]
    return [each.to_dict() for each in shown]


def explain_pairs(model: whyword.Model) -> list[Any]:
    aligned = [whyword.align(model, GERMAN, ENGLISH, method=method) for method in ("combined", "smoothgrad")]
    return [each.to_dict() for each in (*aligned, whyword.explain_translation(model, GERMAN, ENGLISH))]


@pytest.mark.parametrize(("device", "dtype"), DEFAULTS, ids=str)
def test_explanations_do_not_depend_on_them(device: str | None, dtype: torch.dtype) -> None:
    network = build("llama", torch.float64)
    expected = explain_prompts(whyword.load(network))
    with defaults(device, dtype):
        assert explain_prompts(whyword.load(network)) == expected


@pytest.mark.parametrize(("device", "dtype"), DEFAULTS, ids=str)
def test_alignments_do_not_depend_on_them(device: str | None, dtype: torch.dtype, tmp_path: Path) -> None:
    model = toy_translators.load_tiny(toy_translators.make_mbart(tmp_path), "bart")
    expected = explain_pairs(model)
    with defaults(device, dtype):
        assert explain_pairs(model) == expected


def test_small_networks_do_not_depend_on_them() -> None:
    network = build("gpt2", torch.float32)
    expected = {name: value.clone() for name, value in network.state_dict().items()}
    with defaults("meta", torch.bfloat16):
        randomise(network)
    for name, value in network.state_dict().items():
        assert torch.equal(value, expected[name])


def test_every_new_tensor_has_a_device_and_a_type() -> None:
    package = Path(whyword.__file__).parent
    found = []
    for path in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            name = node.func.attr
            if ast.unparse(node.func) != f"torch.{name}" or name not in FACTORIES:
                continue
            named = {keyword.arg for keyword in node.keywords}
            wanted = {"device", "dtype"} if name in FLOATING else {"device"}
            if not wanted <= named:
                found.append(f"{path.relative_to(package)}, line {node.lineno}: {ast.unparse(node)}")
    assert found == []
