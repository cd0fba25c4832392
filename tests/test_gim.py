"""The method gim is the public package's, on every family, or refused by name."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import gim_package
import whyword
from whyword.attribute import gim
from whyword.models.open import open_model

from families import build, prompt_of

GOLDEN: list[dict[str, Any]] = json.loads((Path(__file__).parent / "golden" / "gim.json").read_text())[
    "cases"
]


def score(family: str, ids: list[int], target: int, foil: int, method: str = "gim", **changes: Any) -> Any:
    model = open_model(build(family, torch.float64, **changes))
    return whyword.explain(model, ids, target=target, foil=foil, method=method).scores.double()


def close(found: Any, expected: Any) -> None:
    expected = torch.as_tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6 * float(expected.abs().max()))


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: f"{case['family']}-{len(case['ids'])}")
def test_scores_are_those_that_the_package_printed(case: dict[str, Any], attention: str) -> None:
    asked = case["family"], case["ids"], case["target"], case["foil"]
    close(score(*asked, attn_implementation=attention), case["scores"])
    assert not torch.allclose(score(*asked, method="gradient-x-input"), torch.tensor(case["scores"]).double())


@pytest.mark.parametrize("case", gim_package.CASES, ids=lambda case: f"{case[0]}-{len(case[1])}")
def test_scores_are_those_of_the_package(case: tuple[str, list[int], int, int]) -> None:
    pytest.importorskip("gim", reason="gim-explain is not installed")
    close(score(*case), gim_package.explain(*case))


def test_without_its_modifications_it_is_gradient_times_input(
    distinct: whyword.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attention that is run step by step, and the way through every operation, lose nothing."""
    monkeypatch.setattr(gim, "TEMPERATURE", 1.0)
    monkeypatch.setattr(gim, "HALF", 1.0)
    kept = {name: rule for name, rule in gim._RULES.items() if "norm" not in name and "pow" not in name}
    monkeypatch.setattr(gim, "_RULES", {**kept, **dict.fromkeys(("rsqrt", "sqrt"), _run)})
    monkeypatch.setattr(
        gim._ModifiedOperations, "norms", property(lambda _: 1, lambda *_: None), raising=False
    )
    found = whyword.compare(distinct, prompt_of(7), target=5, foil=9, methods=["gim", "gradient-x-input"])
    close(found["gim"].scores.double(), found["gradient-x-input"].scores.double())


def _run(_operations: Any, function: Any, args: Any, kwargs: Any) -> Any:
    return function(*args, **kwargs)


@pytest.mark.parametrize(
    ("hidden", "said"),
    [
        ("scaled_dot_product_attention", "sees 0 softmax of its attention, and the model has at least 3"),
        ("layer_norm", "sees 0 norms, and the model has at least 1"),
    ],
)
def test_a_model_whose_parts_are_not_seen_is_refused(
    hidden: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gim, "_RULES", {name: rule for name, rule in gim._RULES.items() if name != hidden})
    with pytest.raises(whyword.ModelError, match=f"the method gim {said}"):
        score("gpt2", prompt_of(5), 5, 9)
