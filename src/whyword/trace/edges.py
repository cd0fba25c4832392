"""What attention moves between positions, of a direction that is pulled back through it.

    edge[h, j → i] = A[h,i,j] · (v[h,j] · g[h,i])        g: the direction, where attention gives its output

Weights are computed again in chunks of rows. Of all heads × positions × positions edges, only those are kept
that may be among the strongest of the prediction, and the sums of all of them at every position.
"""

from collections.abc import Iterator

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from ..maths.contributions import ROWS
from .pulled_back import Edges, Moved
from .reduction import Weigher

__all__ = ["STRONGEST", "move"]

STRONGEST = 256
"""How many edges are kept of a prediction."""


def move(
    weigher: Weigher,
    gradient: Float[Tensor, "example head position dim"],
    causal: bool,
    weakest: Float[Tensor, " example"],
) -> tuple[Float[Tensor, "example value_head source dim"], Moved]:
    """Pull a direction back through attention, edge by edge: to the values, Aᵀ g.

    Edges are kept where any example has one that is larger than its `weakest`.
    """
    values = weigher.value.to(gradient.dtype)
    examples, value_heads, sources, dim = values.shape
    values = values.flatten(0, 1)
    pulled = values.new_zeros(len(values), dim, sources)  # this way round it is fastest
    outgoing, incoming = gradient.new_zeros(examples, sources), gradient.new_zeros(gradient.shape[0::2])
    size_out, size_in = torch.zeros_like(outgoing), torch.zeros_like(incoming)
    strongest = _no_edges(gradient)
    weakest = weakest.to(gradient)
    for rows in _rows_with_any(gradient):
        stop = min(rows.stop, sources) if causal else sources
        weights = weigher.weigh(rows, stop).to(gradient.dtype)
        own = _group(gradient[:, :, rows], value_heads)
        pulled[:, :, :stop].baddbmm_(own.transpose(1, 2), _group(weights, value_heads))
        amounts = (own @ values[:, :stop].transpose(1, 2)).view(weights.shape).mul_(weights)
        sizes = amounts.abs()
        total, size = amounts.sum(1), sizes.sum(1)
        incoming[:, rows], size_in[:, rows] = total.sum(2), size.sum(2)
        outgoing[:, :stop] += total.sum(1)
        size_out[:, :stop] += size.sum(1)
        largest = sizes.amax(3).flatten(1)
        candidates = int((largest > weakest[:, None]).sum(1).amax())
        if candidates > 0:
            strongest = _join(strongest, _find_strongest(amounts, largest, rows.start, candidates))
            if strongest.amount.shape[1] == STRONGEST:
                weakest = torch.maximum(weakest, strongest.amount.abs().amin(1))
    moved = Moved(outgoing, incoming, size_out, size_in, strongest)
    return pulled.transpose(1, 2).view(examples, value_heads, sources, dim), moved


def _rows_with_any(gradient: Float[Tensor, "example head position dim"]) -> Iterator[slice]:
    """Cut the rows that have a direction at all into chunks; last rows first, where most is moved to."""
    first, last = 0, gradient.shape[2]
    if not (gradient[:, :, 0].any() and gradient[:, :, -1].any()):
        some = gradient.abs().amax((0, 1, 3)).nonzero()
        if len(some) == 0:
            return
        first, last = int(some[0]), int(some[-1]) + 1
    for start in reversed(range(first, last, ROWS)):
        yield slice(start, min(start + ROWS, last))


def _group(by_head: Float[Tensor, "example head row any"], value_heads: int) -> Tensor:
    """Put the rows of heads that share their values one below the other."""
    return rearrange(
        by_head,
        "example (value_head group) row any -> (example value_head) (group row) any",
        value_head=value_heads,
    )


def _find_strongest(
    amounts: Float[Tensor, "example head row source"],
    largest: Float[Tensor, "example head_and_row"],
    start: int,
    candidates: int,
) -> Edges:
    """Find the strongest edges: in those rows whose largest are largest, at most so many."""
    rows, sources = amounts.shape[2:]
    flat = amounts.flatten(1, 2)
    best = largest.topk(min(STRONGEST, candidates), dim=1).indices
    among = flat.gather(1, best[:, :, None].expand(-1, -1, sources)).flatten(1)
    place = among.abs().topk(min(STRONGEST, among.shape[1]), dim=1).indices
    row = best.gather(1, place // sources)
    return Edges(row // rows, place % sources, row % rows + start, among.gather(1, place))


def _no_edges(like: Float[Tensor, "example head position dim"]) -> Edges:
    none = torch.zeros(like.shape[0], 0, dtype=torch.long, device=like.device)
    return Edges(none, none, none, none.to(like.dtype))


def _join(one: Edges, other: Edges) -> Edges:
    """Keep the strongest of both."""
    if one.amount.shape[1] == 0:
        return other
    amount = torch.cat([one.amount, other.amount], dim=1)
    best = amount.abs().topk(min(STRONGEST, amount.shape[1]), dim=1).indices
    head, source, target = (
        torch.cat([getattr(one, name), getattr(other, name)], dim=1).gather(1, best)
        for name in ("head", "source", "target")
    )
    return Edges(head, source, target, amount.gather(1, best))
