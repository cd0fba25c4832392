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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from ..errors import InputError
from ..ledger import Entries, Target, read_logits
from ..ledger.direction import unembedding_bias, unembedding_direction
from ..models.model import Model
from ..trace import Trace
from ..trace.pulled_back import PulledBack
from .flow_proof import ProvenFlow, prove_flow
from .recorded_predictions import Attributions, Predictions, make_rows
from .source_and_prefix import JointUpdates

__all__ = ["Flow", "Route", "add_flows", "attribute_flow", "find_depth", "trace_flow", "translate_flow"]

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
    if not isinstance(depth, int) or not 0 <= depth <= blocks:
        raise InputError(
            f"depth is {depth!r}.",
            f"Give 0 (before block 1) to {blocks} (after the last block of {model.name}).",
        )
    return depth


def trace_flow(predictions: Predictions) -> list[Flow]:
    """Pull the direction of every prediction back to every depth, and prove what is found there."""
    trace, flows = predictions.trace, {}
    depth = find_depth(predictions.model, predictions.depth)
    for place, pulled, proven in _descend(predictions.model, trace, predictions.targets):
        for example, places in enumerate(trace.places.ranges):
            tokens = places[place] + 1
            flows[example * trace.places.each + place] = Flow(
                proven.decoder[:, example, :tokens].clone(),
                proven.bias[:, example].clone(),
                _list_routes(pulled, example),
                depth,
            )
    return [flow for _, flow in sorted(flows.items())]


def translate_flow(
    model: Model, trace: Trace, entries: Entries, targets: Sequence[Target]
) -> tuple[JointUpdates, None]:
    """Give what of every explained logit is at each token of source and prefix.

    The prefix is read where it enters the decoder, so that all that comes from the source is the source's;
    the source at its own depth, a tenth of the encoder's blocks.
    """
    assert model.encoder_stack is not None
    depth, source, prefix = ceil(len(model.encoder_stack.blocks) / 10), [], []
    for _, _, proven in _descend(model, trace, targets):
        assert proven.encoder is not None
        source.append(proven.encoder[depth])
        prefix.append(proven.decoder[0])
    pattern = "each example token -> (example each) 1 token"
    return JointUpdates(rearrange(source, pattern), rearrange(prefix, pattern)), None


def _descend(
    model: Model, trace: Trace, targets: Sequence[Target]
) -> Iterator[tuple[int, PulledBack, ProvenFlow]]:
    """Pull one prediction of every example back at once, as examples do not see each other."""
    assert trace.frozen is not None
    each, directions = trace.places.each, unembedding_direction(model, targets)
    logits, added = read_logits(trace.uncapped, targets), unembedding_bias(model, targets)
    for place in range(each):
        own = slice(place, None, each)
        only = torch.zeros_like(directions)
        only[own] = directions[own]
        pulled = trace.frozen.descend(only, again=place + 1 < each)
        yield place, pulled, prove_flow(model, pulled, logits[own], added[own])


def _list_routes(pulled: PulledBack, example: int) -> tuple[Route, ...]:
    """List the strongest edges of one example, in all blocks."""
    routes = []
    for block, moved in enumerate(pulled.decoder.moved):
        edges = moved.strongest
        columns = (edges.head, edges.source, edges.target, edges.amount)
        rows = zip(*(column[example].tolist() for column in columns), strict=True)
        routes += [Route(block, *row) for row in rows]
    return tuple(sorted(routes, key=_strength)[:KEPT])


def add_flows(one: Flow, two: Flow) -> Flow:
    """Add the flows of two predictions of which the second has the longer context."""
    longer = two.by_depth.shape[1] - one.by_depth.shape[1]
    amounts: dict[tuple[int, int, int, int], float] = {}
    for route in (*one.routes, *two.routes):
        place = (route.block, route.head, route.source, route.destination)
        amounts[place] = amounts.get(place, 0.0) + route.amount
    routes = sorted((Route(*place, amount) for place, amount in amounts.items()), key=_strength)
    by_depth = torch.nn.functional.pad(one.by_depth, (0, longer)) + two.by_depth
    return Flow(by_depth, one.bias + two.bias, tuple(routes[:KEPT]), one.depth)


def _strength(route: Route) -> float:
    return -abs(route.amount)
