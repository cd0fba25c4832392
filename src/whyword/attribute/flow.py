"""Flow: where the logit (difference) is at every depth, and how it moves.

What the recorded run computed is held fixed: attention weights, norm statistics, the ratio act(z)/z of every
activation, router weights; a gated product gives half of itself to each factor. The network is then affine
in its residual streams x, and the direction of the logit is pulled back through it, G:

    flow[d, j] = x[d, j] · G[d, j]                       d = 0 … L: before block 1, …, after the last block
    Σ_j flow[d, j] + bias[d] = logit (difference)        for every d, proven
    edge[l, h, j → i] = A[l,h,i,j] · (v[l,h,j] W_O[h] · G[i])
    flow[l, i] + edges to i − edges from i + biases added at i = flow[l + 1, i]        at every node, proven

bias[d] is what biases written above depth d add, each counted where it is added: never what is left over.

How: torch's autograd notes the recorded run, with another gradient for what is not linear
(trace/frozen_mode.py), and one backward pass gives G at every depth. Pulling back by hand, from recorded
parts, would need a description of every family's MLPs, value paths and routers. This needs none: an operation
without a rule is refused, and a wrong rule fails the proof.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from ..errors import InputError
from ..ledger import Entries, Target, read_logits
from ..ledger.direction import unembedding_bias, unembedding_direction
from ..ledger.entries import find_rounding
from ..models.model import Model
from ..trace import Trace
from ..trace.edges import STRONGEST
from ..trace.pulled_back import PulledBack
from .flow_proof import ProvenFlow, prove_flow
from .recorded_predictions import Attributions, Predictions, make_rows
from .source_and_prefix import JointFlow, JointUpdates

__all__ = [
    "Flow",
    "Route",
    "add_flows",
    "add_padded",
    "attribute_flow",
    "find_depth",
    "trace_flow",
    "trace_sum",
    "translate_flow",
]


@dataclass(frozen=True)
class Route:
    """What one attention head moves from one position to another."""

    block: int
    """From 0."""
    head: int
    """From 0."""
    source: int
    """Index of the token at whose position it is read."""
    destination: int
    """Index of the token at whose position it is written."""
    amount: float
    """In logits."""


@dataclass(frozen=True, eq=False)
class Flow:
    """The logit (difference) of one prediction at every depth; float64, on the CPU."""

    by_depth: Float[Tensor, "depth token"]
    """How much of it is at each position: before block 1, …, after the last block."""
    bias: Float[Tensor, " depth"]
    """What biases written above that depth add."""
    routes: tuple[Route, ...]
    """What attention moves between positions: the 256 strongest edges, strongest first; none where flows were
    added up afterwards."""
    depth: int
    """The depth that scores are read at."""


def attribute_flow(predictions: Predictions) -> Attributions:
    """Score tokens by what of the logit (difference) is at their positions, at one depth."""
    return make_rows(flow.by_depth[flow.depth] for flow in predictions.share(trace_flow))


def find_depth(model: Model, depth: int | None) -> int:
    """Give the depth that scores are read at: the one that is asked for, or a tenth of the blocks."""
    blocks = len(model.blocks)
    if depth is None:
        return ceil(blocks / 10)
    if isinstance(depth, bool) or not isinstance(depth, int) or not 0 <= depth <= blocks:
        raise InputError(
            f"depth is {depth!r}.",
            f"Give 0 (before block 1) to {blocks} (after the last block of {model.name}).",
        )
    return depth


def trace_flow(predictions: Predictions) -> list[Flow]:
    """Pull the direction of every prediction back to every depth, and prove what is found there."""
    each = predictions.trace.places.each
    by_place = [trace_sum(predictions, [place], again=place + 1 < each) for place in range(each)]
    return [flows[example] for example in range(len(by_place[0])) for flows in by_place]


def trace_sum(predictions: Predictions, places: Sequence[int], again: bool = True) -> list[Flow]:
    """Pull the sum of several predictions back at once, and prove it; give one flow for each example.

    `places`: which of the explained positions of an example are added up, in order. `again`: keep what is
    needed to pull back once more.
    """
    trace, depth = predictions.trace, find_depth(predictions.model, predictions.depth)
    pulled, proven = _descend(predictions.model, trace, predictions.targets, places, again)
    flows = []
    for example, positions in enumerate(trace.places.ranges):
        tokens = positions[places[-1]] + 1
        flow, bias = proven.decoder[:, example, :tokens].clone(), proven.bias[:, example].clone()
        flows.append(Flow(flow, bias, _list_routes(pulled, example, tokens), depth))
    return flows


def translate_flow(
    model: Model, trace: Trace, entries: Entries, targets: Sequence[Target]
) -> tuple[JointUpdates, None]:
    """Give what of every explained logit is at each token of source and prefix.

    The prefix is read where it enters the decoder, so that all that comes from the source is the source's;
    the source at its own depth, a tenth of the encoder's blocks.
    """
    assert model.encoder_stack is not None
    proven, each = [], trace.places.each
    for place in range(each):
        proven.append(_descend(model, trace, targets, [place], again=place + 1 < each)[1])
    flow = JointFlow(
        prefix=_gather([found.decoder for found in proven]),
        read=_gather([found.read for found in proven]),
        bias=_gather([found.bias for found in proven]),
        source=_gather([found.encoder for found in proven]),
        encoder_bias=_gather([found.encoder_bias for found in proven]),
    )
    depth = ceil(len(model.encoder_stack.blocks) / 10)
    return JointUpdates(flow.source[:, depth, None], flow.prefix[:, 0, None], flow), None


def _gather(found: list[Any]) -> Float[Tensor, "position depth ..."]:
    """Put what was found at every place of every example in the order of the explained positions."""
    return rearrange(torch.stack(found), "each depth example ... -> (example each) depth ...")


def _descend(
    model: Model, trace: Trace, targets: Sequence[Target], places: Sequence[int], again: bool
) -> tuple[PulledBack, ProvenFlow]:
    """Pull the sum of some predictions of every example back, all examples at once: they see no other."""
    assert trace.frozen is not None
    chosen = torch.zeros(len(trace.places.ranges), trace.places.each, dtype=torch.bool, device="cpu")
    chosen[:, list(places)] = True
    directions = unembedding_direction(model, targets)
    pulled = trace.frozen.descend(directions * chosen.flatten()[:, None].to(directions), again)
    logits, added, rounding = (
        (each.view(chosen.shape) * chosen.to(each)).sum(1)
        for each in (
            read_logits(trace.uncapped, targets),
            unembedding_bias(model, targets),
            find_rounding(model, trace, targets),
        )
    )
    return pulled, prove_flow(model, pulled, logits, added, rounding)


def _list_routes(pulled: PulledBack, example: int, tokens: int) -> tuple[Route, ...]:
    """List the strongest edges of one example, in all blocks; none of what pads it in its batch."""
    every = [moved.strongest for moved in pulled.decoder.moved]
    blocks = torch.cat([torch.full_like(edges.head[example], block) for block, edges in enumerate(every)])
    amounts = torch.cat([edges.amount[example] for edges in every])
    moving = min(STRONGEST, int(amounts.count_nonzero()))
    best = amounts.abs().sort(descending=True, stable=True).indices[:moving]
    places = [
        torch.cat([getattr(edges, name)[example] for edges in every])[best].tolist()
        for name in ("head", "source", "target")
    ]
    rows = zip(blocks[best].tolist(), *places, amounts[best].tolist(), strict=True)
    routes = (Route(*row) for row in rows)
    return tuple(route for route in routes if max(route.source, route.destination) < tokens)


def add_flows(flows: Sequence[Flow]) -> Flow:
    """Add the flows of predictions in their order, each with a longer context than the one before.

    Routes of the sum are not known: an edge may be among the strongest of one prediction only.
    """
    bias = torch.stack([each.bias for each in flows]).sum(0)
    return Flow(add_padded([each.by_depth for each in flows]), bias, (), flows[0].depth)


def add_padded(tensors: Sequence[Float[Tensor, "*any _token"]]) -> Float[Tensor, "*any token"]:
    """Add tensors of which the last has the most tokens; to the others, those that are missing add 0."""
    total = torch.zeros_like(tensors[-1])
    for each in tensors:
        total[..., : each.shape[-1]] += each
    return total
