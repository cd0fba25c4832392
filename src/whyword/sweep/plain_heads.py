"""What every head adds to a logit difference, computed anew: nothing that was recorded is used.

Contexts and norms are read by plain hooks in a run of the network as it is; attention weights are those that
eager attention returns, values those that the model keeps in its cache. A frozen norm is fitted to what the
norm gave, so that its epsilon need not be known.
"""

import copy
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..models.architecture import Attention
from ..models.model import Model, module_at, optional_module
from ..trace.hooks import capture_calls
from ..trace.precision import keep_precision

__all__ = ["PlainHeads", "recompute_heads", "run_plainly"]


@dataclass(frozen=True)
class PlainHeads:
    """What heads add to the logit difference of the last position."""

    by_head: Float[Tensor, "block head"]
    by_source: list[Float[Tensor, "_head source"] | None]
    """The same by source, of blocks whose weights and values are known."""


@torch.no_grad()
def recompute_heads(model: Model, ids: Sequence[int], target: int, foil: int) -> PlainHeads:
    """Recompute what every head adds to the difference between two logits at the last position."""
    stack, calls = model.architecture.decoder, dict[nn.Module, list[Any]]()
    paths = [path for each in stack.sublayers for path in (each.output, each.norm_after, each.norm_sum)]
    modules = [module_at(block, path) for block in model.blocks for path in paths if path is not None]
    final = optional_module(model.decoder, stack.final_norm)
    with ExitStack() as hooks:
        for module in {*modules, model.unembedding, *([] if final is None else [final])}:
            calls[module] = hooks.enter_context(capture_calls(module))
        run_plainly(model.network, ids)

    def read(module: nn.Module) -> Float[Tensor, " read"]:
        entered: Tensor = calls[module][-1][0][0]
        return entered.reshape(-1, entered.shape[-1])[len(ids) - 1]

    rows = cast(Tensor, model.unembedding.weight)
    direction = (rows[target] - rows[foil]) * model.logit_multiplier * model.unembedded_scale
    projection = optional_module(model.decoder, stack.project_out)
    if projection is not None:
        direction = model.project(projection).matrix() @ direction
    if final is not None:
        direction = _pull_back(model, final, read(final), direction)
    weights, values = _run_eagerly(model, ids)
    by_head, by_source = [], list[Tensor | None]()
    for index in reversed(range(len(model.blocks))):
        for sublayer in reversed(stack.sublayers):
            block = model.blocks[index]
            if sublayer.norm_sum is not None:
                norm = module_at(block, sublayer.norm_sum)
                direction = _pull_back(model, norm, read(norm), direction)
            written = direction * model.multiplier_of(sublayer)
            if sublayer.norm_after is not None:
                norm = module_at(block, sublayer.norm_after)
                written = _pull_back(model, norm, read(norm), written)
            if not isinstance(sublayer, Attention):
                continue
            output = module_at(block, sublayer.output)
            worth, heads = (
                model.project(output).matrix() @ written,
                _count_heads(model, block, sublayer, weights, index),
            )
            by_head.append((read(output) * worth).reshape(heads, -1).sum(-1))
            sources = _give_sources(weights, values, index, worth.reshape(heads, -1))
            by_source.append(sources if _adds_up(sources, by_head[-1]) else None)
    return PlainHeads(torch.stack(by_head[::-1]), by_source[::-1])


@torch.no_grad()
def run_plainly(network: Any, ids: Sequence[int]) -> Float[Tensor, "position vocab"]:
    """Run a network on a prompt as a user would, and give its logits."""
    inputs = torch.tensor([list(ids)], device="cpu")
    try:
        logits: Tensor = network(input_ids=inputs, use_cache=False).logits
    except RuntimeError:  # some do not run in float64 by themselves
        with keep_precision(network.dtype):
            logits = network(input_ids=inputs, use_cache=False).logits
    return logits[0]


def _pull_back(model: Model, norm: nn.Module, read: Tensor, direction: Tensor) -> Tensor:
    """Pull a direction back through a norm whose statistics are held fixed."""
    described = model.architecture.decoder.norm
    weight: Tensor | None = getattr(norm, "weight", None)
    gain = torch.ones_like(read) if weight is None else weight + described.offset
    bias: Tensor | None = getattr(norm, "bias", None)
    given: Tensor = norm(read[None, None])[0, 0] - (0 if bias is None else bias)
    centred = (read - read.mean() if described.centred else read) * gain
    scale = (given @ centred) / (centred @ centred)
    pulled = scale * gain * direction
    return pulled - pulled.mean() if described.centred else pulled


def _run_eagerly(model: Model, ids: Sequence[int]) -> tuple[Sequence[Tensor | None], Sequence[Any]]:
    """Give attention weights and cached values by block, of a copy with eager attention."""
    network, nothing = copy.deepcopy(model.network), [None] * len(model.blocks)
    try:
        network.set_attn_implementation("eager")
        given = network(
            input_ids=torch.tensor([list(ids)], device="cpu"), output_attentions=True, use_cache=True
        )
        weights = [*given.attentions]
        values = [layer.values for layer in given.past_key_values.layers]
    except Exception:  # not every network has eager attention, returns its weights, or has a plain cache
        return nothing, nothing
    fits = len(weights) == len(values) == len(nothing)
    return (weights, values) if fits else (nothing, nothing)


def _adds_up(sources: Tensor | None, heads: Tensor) -> bool:
    """Say whether sources are those of this run: a cache may hold something else than values."""
    return sources is not None and torch.allclose(sources.sum(-1), heads, rtol=1e-4, atol=1e-6)


def _count_heads(
    model: Model, block: nn.Module, sublayer: Attention, weights: Sequence[Tensor | None], index: int
) -> int:
    known = weights[index]
    if known is not None:
        return int(known.shape[1])
    own = getattr(module_at(block, sublayer.module), "num_heads", None)
    return int(own or model.config.num_attention_heads)


def _give_sources(
    weights: Sequence[Tensor | None], values: Sequence[Any], index: int, worth: Float[Tensor, "head dim"]
) -> Float[Tensor, "head source"] | None:
    """Give what every source adds; None where the cache has dropped some, or holds something else."""
    known, value = weights[index], values[index]
    if known is None or value is None or known.ndim != 4 or value.ndim != 4:
        return None
    row = known[0, :, -1]
    if value.shape[2] != row.shape[1] or value.shape[3] != worth.shape[1]:
        return None
    repeated = value[0].repeat_interleave(len(worth) // value.shape[1], dim=0)
    found: Tensor = row.to(worth) * torch.einsum("hsd,hd->hs", repeated, worth)
    return found
