"""Operations that networks run in unusual ways: flow follows them, or refuses them in two lines."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import whyword
from whyword.models.open import open_model

from families import build

Change = Callable[[Tensor], Tensor]
IDS = [5, 17, 33, 8, 60, 71, 12, 9, 44, 23]


def explain(change: Callable[[Callable[[Tensor], Tensor], Tensor], Tensor]) -> whyword.Explanation:
    """Explain a network whose second MLP is another one."""
    network = build("llama", torch.float64)
    mlp = network.model.layers[1].mlp
    own = mlp.forward
    mlp.forward = lambda stream: change(own, stream)
    return whyword.explain(open_model(network), IDS, target=3, foil=4, method="flow")


def explain_after(change: Change) -> whyword.Explanation:
    return explain(lambda own, stream: change(own(stream)))


def empty_first(given: Tensor) -> Tensor:
    """Make some numbers exactly zero, where the ratio of an activation is its slope."""
    return torch.cat([given[..., :2] * 0, given[..., 2:]], dim=-1)


def bound(given: Tensor, least: float, most: float) -> Tensor:
    """Clamp every component by bounds of its own."""
    width = given.shape[-1]
    least_of_each = torch.full((width,), least, dtype=given.dtype)
    return torch.clamp(given, min=least_of_each, max=torch.full((width,), most, dtype=given.dtype))


@pytest.mark.parametrize(("least", "most"), [(-0.5, 0.5), (0.1, 0.5)])
def test_bounds_that_are_tensors_are_followed(least: float, most: float) -> None:
    """With bounds that are all alike, they are what two numbers are."""
    found = explain_after(lambda given: bound(empty_first(given), least, most))
    expected = explain_after(lambda given: torch.clamp(empty_first(given), least, most))
    torch.testing.assert_close(found.flow, expected.flow)
    torch.testing.assert_close(found.bias, expected.bias)


INPLACE: dict[str, tuple[Change, Change]] = {
    "relu_": (torch.relu_, torch.relu),
    "clamp_": (lambda given: given.clamp_(-0.5, 0.5), lambda given: given.clamp(-0.5, 0.5)),
    "elu_": (nn.functional.elu_, nn.functional.elu),
    "mul_": (lambda given: given.mul_(2), lambda given: given * 2),
    "add_": (lambda given: given.add_(1), lambda given: given + 1),
    **{
        kind.__name__: (kind(inplace=True), kind())
        for kind in (nn.ReLU, nn.SiLU, nn.ELU, nn.Hardtanh, nn.ReLU6, nn.LeakyReLU, nn.Mish)
    },
}


@pytest.mark.parametrize("name", INPLACE)
def test_what_is_changed_in_place_is_followed(name: str) -> None:
    in_place, plain = map(explain_after, INPLACE[name])
    assert in_place.ledger.total == pytest.approx(plain.ledger.total)
    torch.testing.assert_close(in_place.flow, plain.flow)
    torch.testing.assert_close(in_place.bias, plain.bias)


REFUSED: dict[str, tuple[Callable[[Callable[[Tensor], Tensor], Tensor], Tensor], str]] = {
    "a checkpoint": (
        lambda own, stream: checkpoint(own, stream, use_reentrant=False),
        "block 2: flow cannot follow it: CheckpointError",
    ),
    "a checkpoint of the old kind": (
        lambda own, stream: checkpoint(own, stream, use_reentrant=True),
        "block 2: .* which torch does not show",
    ),
    "bounds with more axes": (
        lambda own, stream: torch.clamp(own(stream), max=torch.ones(2, 1, 1, 1).to(stream))[0],
        "block 2: flow has no rule for the operation clamp",
    ),
    "bounds that depend on the prompt": (
        lambda own, stream: torch.clamp(own(stream), min=stream.detach().abs().mean(-1, keepdim=True)),
        "block 2: the operation clamp adds something that depends on the prompt",
    ),
    "an exponent for each component": (
        lambda own, stream: own(stream) ** torch.full((stream.shape[-1],), 2.0).to(stream),
        "block 2: flow has no rule for the operation pow",
    ),
}


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_followed_is_refused_in_two_lines(name: str) -> None:
    change, wrong = REFUSED[name]
    with pytest.raises(whyword.ModelError, match=wrong) as caught:
        explain(change)
    assert len(str(caught.value).splitlines()) == 2


def test_a_stream_that_is_changed_in_place_is_refused_in_two_lines() -> None:
    network = build("llama", torch.float64)
    block = network.model.layers[1]
    own = block.forward

    def forward(stream: Tensor, *args: Any, **options: Any) -> Any:
        return own(stream.mul_(2), *args, **options)

    block.forward = forward
    with pytest.raises(whyword.ModelError, match="flow cannot follow it: RuntimeError: a leaf") as caught:
        whyword.explain(open_model(network), IDS, target=3, foil=4, method="flow")
    assert len(str(caught.value).splitlines()) == 2
