"""Hooks as libraries that steer models have them: prompts are run one by one, and explained as they are."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import checkpoint
from transformers.models.llama import modeling_llama
from transformers.models.llama.modeling_llama import LlamaMLP

import whyword
from test_inside import make_dataset, make_model
from whyword.inside.ablation import ablate
from whyword.runs.fingerprint import fingerprint_network
from whyword.runs.foreign_code import has_foreign_code
from whyword.trace.precision import keep_precision

from families import build, prompt_of

PROMPTS = [prompt_of(length, length) for length in (12, 9, 12, 11, 7)]
Hook = Callable[[nn.Module, Any, Tensor], Tensor | None]


def vector(output: Tensor) -> Tensor:
    return torch.linspace(-1, 1, output.shape[-1]).to(output)


def steer_last(_module: nn.Module, _args: Any, output: Tensor) -> Tensor:
    """Steer the last position, which is padding in a batch."""
    changed = output.clone()
    changed[:, -1] += vector(output)
    return changed


def steer_row(_module: nn.Module, _args: Any, output: Tensor) -> Tensor:
    """Steer one of several, to see both side by side."""
    changed = output.clone()
    changed[1:2] += vector(output)
    return changed


def steer_on_condition(_module: nn.Module, _args: Any, output: Tensor) -> Tensor | None:
    """Steer where what was read meets a condition, as conditional activation steering does."""
    return output + vector(output) if float(output.mean((0, 1)) @ vector(output)) > 0 else None


def drop_beyond_capacity(_module: nn.Module, _args: Any, output: Tensor) -> Tensor:
    """Leave out what is beyond the capacity of an expert."""
    changed = output.clone()
    changed.flatten(0, -2)[14:] = 0
    return changed


HOOKS = (steer_last, steer_row, steer_on_condition, drop_beyond_capacity)


def hook_mlp(network: Any, hook: Hook) -> Any:
    blocks = network.transformer.h if hasattr(network, "transformer") else network.model.layers
    return blocks[1].mlp.register_forward_hook(hook)


def own_difference(network: Any, ids: list[int], mask: list[int] | None = None) -> float:
    with torch.no_grad(), keep_precision(network.dtype):
        given = None if mask is None else torch.tensor([mask])
        logits = network(torch.tensor([ids]), attention_mask=given, use_cache=False).logits[0, -1].double()
    return float(logits[5] - logits[9])


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("family", ["gpt2", "llama", "mixtral"])
@pytest.mark.parametrize("hook", HOOKS)
def test_a_batch_is_what_each_prompt_is_alone(hook: Hook, family: str, dtype: torch.dtype) -> None:
    """Half precision was never compared with runs alone, and content that comes later never was."""
    network = build(family, dtype)
    model = whyword.load(network)
    for prompts in (PROMPTS, PROMPTS[::-1]):
        list(whyword.explain_batch(model, prompts, targets=5, foils=9, method="logit"))
    hook_mlp(network, hook)
    for prompts in (PROMPTS[::-1], PROMPTS):
        found = whyword.explain_batch(model, prompts, targets=5, foils=9, method="logit")
        for prompt, explanation in zip(prompts, found, strict=True):
            expected = own_difference(network, prompt)
            near = 1e-5 if dtype == torch.float64 else 0.05
            assert explanation.ledger.total == pytest.approx(expected, rel=near, abs=near)


@pytest.mark.parametrize("hook", [steer_row, steer_on_condition])
def test_what_is_erased_is_erased_alone(hook: Hook) -> None:
    network, prompt = build("gpt2", torch.float64), PROMPTS[1]
    hook_mlp(network, hook)
    found = whyword.explain(whyword.load(network), prompt, target=5, foil=9, method="erasure-logits")
    for hidden, score in enumerate(found.scores.tolist()):
        mask = [int(place != hidden) for place in range(len(prompt))]
        expected = own_difference(network, prompt) - own_difference(network, prompt, mask)
        assert score == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_positions_are_compared_every_time(dtype: torch.dtype) -> None:
    """The hook acts on the last position only, and only on prompts that come later."""
    network, acts = build("llama", dtype), [False]
    hook_mlp(network, lambda *seen: steer_last(*seen) if acts[0] else None)
    model = whyword.load(network)
    for seed in range(3):
        prompt = prompt_of(10, seed)
        whyword.explain_continuation(model, prompt[:7], prompt[7:], method="logit")
    acts[0] = True
    with pytest.raises(whyword.ProofError, match="position 7 of 9: logits of the recorded run"):
        whyword.explain_continuation(model, prompt[:7], prompt[7:], method="logit")


def test_an_ablation_is_what_each_example_gives_alone() -> None:
    model = make_model()
    plain = ablate(model, [make_dataset()], "3.17").effects[0]
    handle = model.network.model.layers[1].mlp.register_forward_hook(steer_row)
    found = ablate(model, [make_dataset()], "3.17").effects[0]
    handle.remove()
    assert (found.logit, found.measured) == pytest.approx((plain.logit, plain.measured), abs=1e-5)


def test_what_is_foreign() -> None:
    network = build("llama", torch.float32)
    assert not has_foreign_code(network.modules())
    handles = [hook_mlp(network, steer_last), hook_mlp(network, partial(steer_last))]
    for handle in handles:
        assert has_foreign_code(network.modules())
        handle.remove()
    assert not has_foreign_code(network.modules())
    handle = nn.modules.module.register_module_forward_hook(lambda *_: None)
    assert has_foreign_code(network.modules())
    handle.remove()
    own = network.model.norm.forward
    network.model.norm.forward = lambda stream: own(stream)
    assert has_foreign_code(network.modules())
    model = whyword.load(network, verify="load")
    assert not model.runs_alone


ACTS = [False]
"""Whether the code below does anything: it stands for a condition that only later prompts meet."""


def steer_second(output: Tensor) -> Tensor:
    """Steer the second prompt of a batch."""
    return steer_row(nn.Identity(), (), output) if ACTS[0] else output


class OwnModule(nn.Module):
    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner, self.down_proj = inner, inner.down_proj

    def forward(self, read: Tensor) -> Tensor:
        return steer_second(self.inner(read))


class OwnClass(LlamaMLP):
    def forward(self, x: Tensor) -> Tensor:
        return steer_second(super().forward(x))


class OwnWeight(Tensor):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = super().__torch_function__(func, types, args, kwargs or {})  # type: ignore[no-untyped-call]
        return steer_second(found.as_subclass(Tensor)) if func is nn.functional.linear else found


class OwnMode(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        return steer_second(found) if func is nn.functional.silu else found


@contextmanager
def replace_attribute(holder: Any, name: str, around: Callable[..., Any]) -> Iterator[None]:
    own = getattr(holder, name)
    setattr(holder, name, around(own))
    try:
        yield
    finally:
        setattr(holder, name, own)


def after(own: Any) -> Any:
    return lambda *args, **options: steer_second(own(*args, **options))


def after_by_its_name(own: Any) -> Any:
    return wraps(own)(after(own))


def rotate_after(own: Any) -> Any:
    def rotate(query: Tensor, *args: Any, **options: Any) -> Any:
        turned, keys = own(query, *args, **options)
        return steer_second(turned), keys

    return rotate


@contextmanager
def change_mlp(mlp: Any, way: str) -> Iterator[None]:
    if way == "class":
        mlp.__class__ = OwnClass
    elif way == "weight":
        weight = mlp.down_proj.weight.data.as_subclass(OwnWeight)
        mlp.down_proj._parameters["weight"] = nn.Parameter(weight, requires_grad=False)
    elif way == "activation":
        own = mlp.act_fn
        del mlp.act_fn
        mlp.act_fn = after(own)
    yield


WAYS: dict[str, Callable[[Any], Any]] = {
    "a module of one's own": lambda network: replace_attribute(network.model.layers[1], "mlp", OwnModule),
    "a class of one's own": lambda network: change_mlp(network.model.layers[1].mlp, "class"),
    "weights of one's own": lambda network: change_mlp(network.model.layers[1].mlp, "weight"),
    "a function as an activation": lambda network: change_mlp(network.model.layers[1].mlp, "activation"),
    "what calls forward": lambda network: replace_attribute(network.model.layers[1].mlp, "_call_impl", after),
    "a forward with a library's name": lambda network: replace_attribute(
        network.model.layers[1].mlp, "forward", after_by_its_name
    ),
    "a method of a class": lambda _: replace_attribute(LlamaMLP, "forward", after_by_its_name),
    "a function of torch": lambda _: replace_attribute(nn.functional, "silu", after),
    "a function of a modelling file": lambda _: replace_attribute(
        modeling_llama, "apply_rotary_pos_emb", rotate_after
    ),
    "a mode of torch": lambda _: OwnMode(),
}
"""Ways in which code of one's own becomes part of a network, besides hooks."""


@pytest.mark.parametrize("way", WAYS)
def test_code_that_is_no_hook_sees_prompts_alone(way: str) -> None:
    """What it does was compared for the batches before; what it does with later ones nobody knows."""
    network = build("llama", torch.float64)
    model = whyword.load(network)
    try:
        with WAYS[way](network):
            for acts in (False, True):
                ACTS[0] = acts
                found = whyword.explain_batch(model, PROMPTS, targets=5, foils=9, method="logit")
                for prompt, explanation in zip(PROMPTS, found, strict=True):
                    expected = own_difference(network, prompt)
                    assert explanation.ledger.total == pytest.approx(expected, abs=1e-5)
    finally:
        ACTS[0] = False


def test_nothing_of_a_library_is_foreign(family: whyword.Model) -> None:
    assert not family.has_foreign_code


class Steering:
    """A hook that is an object."""

    def __init__(self, strength: float) -> None:
        self.strength, self.direction, self.seen, self.calls = strength, torch.ones(3), [], 0

    def set_strength(self, strength: float) -> None:
        self.strength = strength

    def _note(self, output: Tensor) -> None:
        self.last = output
        self.seen.append(output)

    def __call__(self, _module: nn.Module, _args: Any, output: Tensor) -> Tensor:
        self.calls += 1
        self._note(output)
        return output + self.strength * self.direction

    def act(self, module: nn.Module, args: Any, output: Tensor) -> Tensor:
        return self(module, args, output)


def close_over(strength: Any) -> Hook:
    calls, seen = 0, []

    def hook(_module: nn.Module, _args: Any, output: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        seen.append(output)
        return output + strength

    return hook


def by_block(vectors: dict[int, Tensor]) -> Hook:
    return lambda _module, _args, output: output + vectors[0]


def with_strength(strength: float, _module: nn.Module, _args: Any, output: Tensor) -> Tensor:
    return output * strength


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (close_over(2.0), close_over(3.0)),
        (close_over(torch.ones(3)), close_over(torch.zeros(3))),
        (by_block({0: torch.ones(3)}), by_block({0: torch.zeros(3)})),
        (partial(with_strength, 2.0), partial(with_strength, 3.0)),
        (Steering(2.0), Steering(3.0)),
        (Steering(2.0).act, Steering(3.0).act),
        (lambda *seen, strength=2.0: seen[-1] * strength, lambda *seen, strength=3.0: seen[-1] * strength),
    ],
    ids=["number", "tensor", "dict", "partial", "object", "method", "default"],
)
def test_a_run_is_not_resumed_with_a_hook_that_holds_something_else(one: Any, other: Any) -> None:
    """What a hook has seen is no difference: it may be resumed."""
    network, found = nn.Sequential(nn.Linear(3, 3)), []
    for hook in (one, other):
        handle = network[0].register_forward_hook(hook)
        before = fingerprint_network(network)
        network(torch.ones(1, 3))
        assert fingerprint_network(network) == before
        found.append(before)
        handle.remove()
    assert found[0] != found[1]


def test_a_hook_whose_strength_was_set_anew() -> None:
    network, hook = nn.Sequential(nn.Linear(3, 3)), Steering(2.0)
    network[0].register_forward_hook(hook)
    before = fingerprint_network(network)
    hook.set_strength(3.0)
    assert fingerprint_network(network) != before


STRENGTH = torch.zeros(1)


def steer_later(output: Tensor) -> Tensor:
    """Steer the last position, by a strength that is set later."""
    changed = output.clone()
    changed[:, -1] += STRENGTH * vector(output)
    return changed


def hook_by_accelerate(network: Any) -> None:
    hooks = pytest.importorskip("accelerate.hooks", reason="accelerate is not installed")

    class Steering(hooks.ModelHook):  # type: ignore[misc, name-defined]
        def post_forward(self, module: Any, output: Tensor) -> Tensor:
            return steer_later(output)

    hooks.add_hook_to_module(network.model.layers[1].mlp, Steering())


def hand_to_a_library(network: Any) -> None:
    mlp = network.model.layers[1].mlp
    own = mlp.forward
    mlp.forward = partial(checkpoint, lambda read: steer_later(own(read)), use_reentrant=False)


def hide_behind_the_standard_library(network: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of one's own may be called like a module of Python."""
    (tmp_path / "trace.py").write_text(
        "import torch\n"
        "class Steered(torch.nn.Module):\n"
        "    def __init__(self, own):\n"
        "        super().__init__()\n"
        "        self.own = own\n"
        "    def forward(self, read):\n"
        "        changed = self.own(read).clone()\n"
        "        changed[:, -1] += STRENGTH * torch.linspace(-1, 1, changed.shape[-1]).to(changed)\n"
        "        return changed\n"
    )
    import_module("trace")  # that of Python, which is put back afterwards
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "trace")
    file: Any = import_module("trace")
    file.STRENGTH = STRENGTH
    network.model.layers[1].mlp = file.Steered(network.model.layers[1].mlp)


@pytest.mark.parametrize("way", ["accelerate", "library", "standard library"])
def test_code_behind_a_library_is_still_a_users_own(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network, strength = build("llama", torch.float64), STRENGTH.numpy()
    strength[:] = 0
    if way == "standard library":
        hide_behind_the_standard_library(network, tmp_path, monkeypatch)
    else:
        {"accelerate": hook_by_accelerate, "library": hand_to_a_library}[way](network)
    model = whyword.load(network)
    for value in (0, 1):
        strength[:] = value
        found = whyword.explain_batch(model, PROMPTS, targets=5, foils=9, method="logit")
        for prompt, explanation in zip(PROMPTS, found, strict=True):
            expected = own_difference(network, prompt)
            assert explanation.ledger.total == pytest.approx(expected, rel=1e-5, abs=1e-5)
    assert model.has_foreign_code
