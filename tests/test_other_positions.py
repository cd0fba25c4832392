"""Code of a user's own that looks at other positions, at ids or at the cache, or acts on an activation.

What is recorded is what the network gives when it is called, or it is refused.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import whyword

from families import build, prompt_of

IDS = prompt_of(12, 3)
Change = Callable[[Any], Any]


def own_difference(network: Any, ids: list[int]) -> float:
    """Call the network as anybody would."""
    with torch.no_grad():
        logits = network(torch.tensor([ids])).logits[0, -1]
    return float(logits[5] - logits[9])


def blocks_of(network: Any) -> Any:
    return network.transformer.h if hasattr(network, "transformer") else network.model.layers


def add_to_class(network: Any) -> None:
    """Change logits only where those of several positions are given."""

    def hook(_module: nn.Module, _args: Any, output: Any) -> Any:
        if output.logits.shape[1] > 3:
            output.logits[..., 5] += 3
        return output

    network.register_forward_hook(hook)


def double_a_position(network: Any) -> None:
    def hook(_module: nn.Module, _args: Any, output: Tensor) -> Tensor:
        changed = output.clone()
        changed[:, 3:4] *= 2
        return changed

    network.lm_head.register_forward_hook(hook)


def add_where_another_is_large(network: Any) -> None:
    def hook(_module: nn.Module, _args: Any, output: Tensor) -> Tensor:
        return output + 3 * (torch.arange(output.shape[-1]) == 5) * (output.shape[1] > 2)

    network.lm_head.register_forward_hook(hook)


def act_with_a_cache(network: Any) -> None:
    """Change what attention gives where it is given a cache, as it is by default."""

    def hook(_module: nn.Module, _args: Any, named: dict[str, Any], output: Any) -> Any:
        return output if named.get("past_key_values") is None else (2 * output[0], *output[1:])

    blocks_of(network)[1].self_attn.register_forward_hook(hook, with_kwargs=True)


CHANGES = [add_to_class, double_a_position, add_where_another_is_large, act_with_a_cache]


@pytest.mark.parametrize("verify", ["auto", "always"])
@pytest.mark.parametrize("method", ["logit", "flow"])
@pytest.mark.parametrize("change", CHANGES)
def test_what_the_network_gives_or_a_refusal(change: Change, method: str, verify: str) -> None:
    network = build("llama", torch.float32)
    model = whyword.load(network, verify=verify)
    for ids in (IDS, IDS[:4]):
        whyword.explain(model, ids, target=5, foil=9, method=method)
    before = own_difference(network, IDS[:4])
    change(network)
    for ids in (IDS[:4], IDS):
        expected = own_difference(network, ids)
        try:
            found = whyword.explain(model, ids, target=5, foil=9, method=method).ledger.total
        except whyword.WhywordError:
            found = None
        assert found is None or found == pytest.approx(expected, abs=1e-4)
    assert own_difference(network, IDS[:4]) != pytest.approx(before, abs=1e-3)


def steer_after(network: Any, trigger: int) -> None:
    """Steer every position from a token on: what is read of ids is not read of embeddings."""
    acts: list[Tensor | None] = [None]

    def look(_module: nn.Module, args: Any, named: dict[str, Any]) -> None:
        ids = named.get("input_ids", args[0] if args else None)
        acts[0] = None if ids is None else (ids == trigger).cumsum(1) > 0

    def steer(_module: nn.Module, _args: Any, output: Tensor) -> Tensor | None:
        seen = acts[0]
        if seen is None or seen.shape[1] != output.shape[1]:
            return None
        return output * (1 + 2 * seen[..., None].to(output))

    network.register_forward_pre_hook(look, with_kwargs=True)
    network.model.layers[1].mlp.register_forward_hook(steer)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("method", ["gradient-norm", "gradient-x-input", "gim"])
def test_gradients_of_embeddings_are_not_those_of_ids(method: str, dtype: torch.dtype) -> None:
    network = build("llama", dtype)
    steer_after(network, 7)
    model = whyword.load(network)
    plain = [8 if id_ == 7 else id_ for id_ in IDS]
    whyword.explain(model, plain, target=5, foil=9, method=method)
    with pytest.raises(whyword.ProofError, match="logits of the embeddings of a prompt"):
        whyword.explain(model, [*plain[:4], 7, *plain[5:]], target=5, foil=9, method=method)


def list_activations(network: Any) -> list[nn.Module]:
    return [block.mlp.act if hasattr(block.mlp, "act") else block.mlp.act_fn for block in blocks_of(network)]


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_a_hook_on_an_activation_that_acts_later(family: str) -> None:
    """Whether it acts depends on what was read."""
    network, acts = build(family, torch.float64), [False]
    list_activations(network)[1].register_forward_hook(lambda *seen: 2 * seen[2] if acts[0] else None)
    model = whyword.load(network)
    for act in (False, True):
        acts[0] = act
        found = whyword.explain(model, IDS, target=5, foil=9)
        assert found.ledger.total == pytest.approx(own_difference(network, IDS), abs=1e-6)


def add_constant(output: Tensor) -> Tensor:
    return output + 5 * (torch.arange(output.shape[-1]) == 17)


class Shifted(nn.Module):
    """An activation of somebody's own, which treats one neuron in another way."""

    def __init__(self, own: nn.Module) -> None:
        super().__init__()
        self.own = own.forward

    def forward(self, read: Tensor) -> Tensor:
        return add_constant(self.own(read))


def hook_activation(network: Any) -> None:
    list_activations(network)[1].register_forward_hook(lambda *seen: add_constant(seen[2]))


def patch_activation(network: Any) -> None:
    activation: Any = list_activations(network)[1]
    own = activation.forward
    activation.forward = lambda read: add_constant(own(read))


def replace_activation(network: Any) -> None:
    mlp = blocks_of(network)[1].mlp
    name = "act" if hasattr(mlp, "act") else "act_fn"
    setattr(mlp, name, Shifted(getattr(mlp, name)))


@pytest.mark.parametrize("family", ["gpt2", "llama"])
@pytest.mark.parametrize("change", [hook_activation, patch_activation, replace_activation])
def test_what_is_done_on_an_activation_is_what_is_done_after_it(change: Change, family: str) -> None:
    """The same network, written in two ways, has the same flow and the same biases."""
    one, two = build(family, torch.float64), build(family, torch.float64)
    change(one)
    if family == "gpt2":
        down = blocks_of(two)[1].mlp.c_proj
        down.register_forward_pre_hook(lambda _module, args: (add_constant(args[0]),))
    else:
        mlp = blocks_of(two)[1].mlp
        mlp.act_fn = nn.Sequential(mlp.act_fn)
        mlp.act_fn.register_forward_hook(lambda *seen: add_constant(seen[2]))
    assert own_difference(one, IDS) == pytest.approx(own_difference(two, IDS), abs=1e-9)
    found, expected = (
        whyword.explain(whyword.load(each), IDS, target=5, foil=9, depth=0) for each in (one, two)
    )
    torch.testing.assert_close(found.scores, expected.scores, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(found.traced.bias, expected.traced.bias, rtol=1e-9, atol=1e-9)


def test_an_activation_is_asked_every_time_where_changes_are_not_looked_for() -> None:
    network, acts = build("gpt2", torch.float64), [False]
    model = whyword.load(network, verify="load")
    whyword.explain(model, IDS, target=5, foil=9)
    for activation in list_activations(network):
        activation.register_forward_hook(lambda *seen: seen[2].flip(1) if acts[0] else None)
    for act in (False, True):
        acts[0] = act
        try:
            found = whyword.explain(model, IDS, target=5, foil=9).scores
        except whyword.WhywordError:
            continue
        expected = whyword.explain(whyword.load(network, verify="load"), IDS, target=5, foil=9).scores
        torch.testing.assert_close(found, expected)


class Unlisted(type):
    """A class of classes that cannot be looked up in a table."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(cls, other: object) -> bool:
        return cls is other


class Odd(metaclass=Unlisted):
    """Something that a module may hold."""


def test_a_module_may_hold_what_cannot_be_looked_up() -> None:
    network: Any = build("llama", torch.float64)
    model = whyword.load(network)
    network.model.norm.held = Odd()
    found = whyword.explain(model, IDS, target=5, foil=9)
    assert found.ledger.total == pytest.approx(own_difference(network, IDS), abs=1e-6)


@pytest.mark.parametrize("length", [1, 2, 5])
def test_routes_that_move_nothing_are_not_listed(length: int) -> None:
    found = whyword.explain(whyword.load(build("gpt2", torch.float64)), IDS[:length], target=5, foil=9)
    assert found.traced is not None
    for route in found.traced.routes:
        assert route.amount != 0
        assert route.source <= route.destination
