"""The MLPs of the last block run at the explained positions only; what is found is the same."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import whyword
import whyword.trace.hooks as hooks
from whyword.models.model import Model
from whyword.trace.hooks import capture_calls
from whyword.trace.last_rows import find_last_mlps

from families import FAMILIES, build, prompt_of

PROMPTS = [prompt_of(6), prompt_of(9, seed=1), prompt_of(4, seed=2)]


def explain_by(model: Model) -> list[Tensor]:
    """Explain alone, in a batch, and several positions at once, by the methods that need a recorded run."""
    prompt = PROMPTS[1]
    found = []
    for method in ("logit", "alti-logit", "flow"):
        found.append(whyword.explain(model, prompt, target=5, foil=9, method=method))
        found += whyword.explain_batch(model, PROMPTS, targets=5, foils=9, method=method)
    whole = whyword.explain_continuation(model, prompt[:5], prompt[5:], method="flow")
    flow = [each.flow for each in found if each.method == "flow"]
    return [*(each.scores for each in found), *flow, whole.sum().scores, *(each.scores for each in whole)]


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_found_is_the_same(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = whyword.load(build(family, torch.float64))
    if model.encoder_stack is not None:
        pytest.skip("tests of translators explain all positions")
    if not list(find_last_mlps(model)):
        pytest.skip("its last block has no MLP in one module")
    some = explain_by(model)
    monkeypatch.setattr(hooks, "find_last_mlps", lambda _: iter(()))
    torch.testing.assert_close(some, explain_by(model), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("family", "inner"), [("gpt2", "c_fc"), ("llama", "gate_proj")])
@pytest.mark.parametrize("method", ["flow", "logit", "alti-logit"])
def test_only_these_positions_are_read(family: str, inner: str, method: str) -> None:
    model = whyword.load(build(family, torch.float32))
    list(whyword.explain_batch(model, PROMPTS, method=method))  # compared with untouched runs
    last, first = (getattr(model.blocks[place].mlp, inner) for place in (-1, 0))
    with capture_calls(last) as late, capture_calls(first) as early:
        list(whyword.explain_batch(model, PROMPTS, method=method))
    late_rows, early_rows = ({args[0].shape[:2].numel() for args, _ in calls} for calls in (late, early))
    explained, padded = len(PROMPTS), len(PROMPTS) * max(map(len, PROMPTS))
    assert explained in late_rows
    assert padded not in late_rows
    assert explained not in early_rows
    assert padded in early_rows


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_runs_its_last_block_whole(dtype: torch.dtype) -> None:
    """Matrices of another shape are rounded in another way than in the untouched run it is compared with."""
    assert not list(find_last_mlps(whyword.load(build("llama", dtype))))


class Wrapped(nn.Module):
    """An MLP of somebody's own."""

    def __init__(self, own: nn.Module) -> None:
        super().__init__()
        self.own, self.down_proj = own, own.down_proj

    def forward(self, read: Tensor) -> Tensor:
        written: Tensor = self.own(read)
        return written


def hook_block(network: Any) -> None:
    network.model.layers[-1].register_forward_hook(lambda *_: None)


def hook_final_norm(network: Any) -> None:
    network.model.norm.register_forward_pre_hook(lambda *_: None)


def patch_activation(network: Any) -> None:
    act = network.model.layers[-1].mlp.act_fn
    forward = act.forward
    act.forward = lambda read: forward(read)


def wrap_mlp(network: Any) -> None:
    network.model.layers[-1].mlp = Wrapped(network.model.layers[-1].mlp)


@pytest.mark.parametrize("change", [hook_block, hook_final_norm, patch_activation, wrap_mlp])
def test_code_that_may_read_other_positions_reads_them(change: Callable[[Any], None]) -> None:
    network = build("llama", torch.float64)
    change(network)
    model = whyword.load(network)
    with capture_calls(network.model.layers[-1].mlp.down_proj) as calls:
        found = whyword.explain(model, PROMPTS[1], target=5, foil=9)
    assert calls
    assert all(args[0].shape[1] > 1 for args, _ in calls)
    with torch.no_grad():
        logits = network(torch.tensor([PROMPTS[1]]), use_cache=False).logits[0, -1]
    assert found.ledger.total == pytest.approx(float(logits[5] - logits[9]), abs=1e-6)


def test_what_a_users_hook_sees_is_the_whole_stream() -> None:
    network = build("gpt2", torch.float64)
    model, seen = whyword.load(network), list[Tensor]()
    whyword.explain(model, PROMPTS[1])
    network.transformer.ln_f.register_forward_pre_hook(lambda _module, args: seen.append(args[0].detach()))
    whyword.explain(model, PROMPTS[1])
    with torch.no_grad():
        network(torch.tensor([PROMPTS[1]]), use_cache=False)
    recorded = [stream for stream in seen[:-1] if stream.shape == seen[-1].shape]
    assert recorded
    for stream in recorded:
        torch.testing.assert_close(stream, seen[-1], rtol=1e-5, atol=1e-5)
