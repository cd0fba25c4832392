"""Flow: where the logit (difference) is at every depth, and how it moves.

What the recorded run computed is held fixed: attention weights, norm statistics, the ratio act(z)/z of every
activation, router weights; a gated product gives half of itself to each factor. The network is then affine
in its residual streams x, and the direction of the logit is pulled back through it, G:

    flow[d, j] = x[d, j] · G[d, j]                       d = 0 … L: before block 1, …, after the last block
    Σ_j flow[d, j] + bias[d] = logit (difference)        for every d, proven
    edge[l, h, j → i] = A[l,h,i,j] · (v[l,h,j] W_O[h] · G[i])
    flow[l, i] + edges to i − edges from i + biases added at i = flow[l + 1, i]        at every node, proven

bias[d] is what biases written above depth d add, each counted where it is added: never what is left over.

How: torch's autograd notes the recorded run itself, with another gradient for what is not linear
(trace/frozen_operations.py), and one backward pass gives G at every depth. Pulling back by hand from recorded
parts would need a description of every family's MLPs, value paths and routers; this needs none, and what an
operation without a rule would break is proven on every call.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import InputError
from ..ledger import Target, read_logits
from ..ledger.direction import unembedding_bias, unembedding_direction
from ..maths.proof import Identity, require_close, tolerance_of
from ..models.model import Model
from ..trace.pulled_back import PulledBack
from .recorded_predictions import Attributions, Predictions, make_rows

__all__ = ["Flow", "Route", "add_flows", "attribute_flow", "find_depth", "trace_flow"]

KEPT = 256
"""How many edges are kept of a prediction."""


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
    """What attention moves between positions, strongest first: so many."""


def attribute_flow(predictions: Predictions) -> Attributions:
    """Score tokens by what of the logit (difference) is at their positions, at one depth."""
    depth = find_depth(predictions.model, predictions.depth)
    return make_rows(flow.by_depth[depth] for flow in predictions.share(trace_flow))


def find_depth(model: Model, depth: int | None) -> int:
    """Give the depth that scores are read at: the one that is asked for, or a tenth of the blocks."""
    blocks = len(model.blocks)
    if depth is None:
        return ceil(blocks / 10)
    if not isinstance(depth, int) or not 0 <= depth <= blocks:
        raise InputError(
            f"depth is {depth!r}.", f"Give 0 (before block 1) to {blocks} (after the last block of {model.name})."
        )
    return depth


def trace_flow(predictions: Predictions) -> list[Flow]:
    """Pull the direction of every prediction back to every depth, and prove what is found there."""
    model, trace = predictions.model, predictions.trace
    assert trace.frozen is not None
    directions = unembedding_direction(model, predictions.targets)
    each, flows = trace.places.each, {}
    for place in range(each):  # a prediction of every example goes down at once: they do not see each other
        rows = range(place, len(directions), each)
        only = torch.zeros_like(directions)
        only[rows.start :: each] = directions[rows.start :: each]
        pulled = trace.frozen.descend(only, again=place + 1 < each)
        targets = [predictions.targets[row] for row in rows]
        logits = read_logits(trace.uncapped[rows.start :: each], targets)
        bias = prove_flow(model, pulled, logits, targets)
        for example, row in enumerate(rows):
            flows[row] = _cut(pulled, bias, example, trace.places.ranges[example][place] + 1)
    return [flows[row] for row in range(len(directions))]


def prove_flow(
    model: Model, pulled: PulledBack, logits: Float[Tensor, " example"], targets: Sequence[Target]
) -> Float[Tensor, "depth example"]:
    """Prove that flow and biases add up at every depth, and at every node; give what biases add above."""
    flow, biases = pulled.decoder.flow.double().cpu(), pulled.decoder.biases.double().cpu()
    above = unembedding_bias(model, targets).double().cpu()
    bias, size = (_from_above(each.sum(2)) for each in (biases, biases.abs()))
    bias, depths = bias + above, range(len(flow))
    require_close(
        Identity.FLOW,
        [f"depth {depth}" for depth in depths],
        found=flow.sum(2) + bias,
        expected=logits.double().cpu().expand(len(flow), -1),
        scale=flow.abs().sum(2) + size + above.abs(),
        tolerance=tolerance_of(model.dtype),
    )
    incoming, outgoing, *sizes = (
        torch.stack([getattr(each, name).double().cpu() for each in pulled.decoder.moved])
        for name in ("incoming", "outgoing", "incoming_size", "outgoing_size")
    )
    require_close(
        Identity.EDGES,
        [f"block {depth + 1}" for depth in depths[:-1]],
        found=flow[:-1] + incoming - outgoing + biases[:-1],
        expected=flow[1:],
        scale=flow[:-1].abs() + flow[1:].abs() + biases[:-1].abs() + sizes[0] + sizes[1],
        tolerance=tolerance_of(model.dtype),
    )
    return bias


def _from_above(amounts: Float[Tensor, "depth example"]) -> Float[Tensor, "depth example"]:
    """Add up what is added from every depth on."""
    return amounts.flip(0).cumsum(0).flip(0)


def _cut(pulled: PulledBack, bias: Float[Tensor, "depth example"], example: int, tokens: int) -> Flow:
    """Give the flow of one example, without padding."""
    found = [
        (block, *(column[example].tolist() for column in (edges.head, edges.source, edges.target, edges.amount)))
        for block, edges in enumerate(each.strongest for each in pulled.decoder.moved)
    ]
    routes = sorted(
        (Route(block, *edge) for block, *columns in found for edge in zip(*columns, strict=True)),
        key=_strength,
    )
    flow = pulled.decoder.flow[:, example, :tokens].double().cpu().clone()
    return Flow(flow, bias[:, example].clone(), tuple(routes[:KEPT]))


def add_flows(one: Flow, two: Flow) -> Flow:
    """Add the flows of two predictions of which the second has the longer context."""
    longer = two.by_depth.shape[1] - one.by_depth.shape[1]
    amounts: dict[tuple[int, int, int, int], float] = {}
    for route in (*one.routes, *two.routes):
        place = (route.block, route.head, route.source, route.destination)
        amounts[place] = amounts.get(place, 0.0) + route.amount
    routes = sorted((Route(*place, amount) for place, amount in amounts.items()), key=_strength)
    by_depth = torch.nn.functional.pad(one.by_depth, (0, longer)) + two.by_depth
    return Flow(by_depth, one.bias + two.bias, tuple(routes[:KEPT]))


def _strength(route: Route) -> float:
    return -abs(route.amount)
