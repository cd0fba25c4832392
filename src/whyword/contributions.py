"""How much of position i's stream comes from position j in one block [eq. 10; ALTI, Ferrando et al. 2022].

    T_ij = Σ_h A[h,i,j] · P[j,h]   (+ x_i when j = i)         P[j,h] = v[h,j] W_O[h]
    C_ij ∝ max(0, ‖y_i‖₁ − ‖y_i − T_ij‖₁)                     rows sum to 1

Nothing of size positions × positions × width is built: parts are made in tiles that stay in the cache, a
batched matmul each, and reduced to one number per pair at once. Attention weights are asked for in chunks of
rows, so that heads × positions × positions is never held either.
"""

from collections.abc import Callable, Iterator

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

__all__ = ["contribute"]

ROWS = 256
"""Rows whose attention weights are held at once."""
TILE = 32
"""Rows and sources of one tile: 32 × 32 × 768 float32 is 3 MB. 16 and 64 were measured and are slower."""


def contribute(
    weigh: Callable[[slice], Float[Tensor, "head row source"]],
    projected: Float[Tensor, "source head model"],
    residual: Float[Tensor, "position model"],
    whole: Float[Tensor, "position model"],
) -> Float[Tensor, "position source"]:
    """Give the contributions C of one self-attention sub-layer.

    `weigh(rows)` gives attention weights of some rows over the sources up to the last of these rows;
    `projected` is P, `residual` the stream x that enters, `whole` the stream y after attention.
    """
    positions = whole.shape[0]
    contributions = whole.new_zeros(positions, positions)
    for rows in _slices(0, positions, ROWS):
        weights = weigh(rows)
        sources = weights.shape[2]
        closeness = whole[rows].abs().sum(-1, keepdim=True) - _measure(
            weights, projected[:sources], whole[rows], rows
        )
        contributions[rows, :sources] = closeness
        own = torch.arange(rows.start, rows.stop)
        contributions[own, own] = _closeness_of_own(
            weights, projected[rows], residual[rows], whole[rows], rows
        )
    return _normalise(contributions.clamp_(min=0).tril_())


def _measure(
    weights: Float[Tensor, "head row source"],
    projected: Float[Tensor, "source head model"],
    whole: Float[Tensor, "row model"],
    rows: slice,
) -> Float[Tensor, "row source"]:
    """Give ‖y_i − Σ_h A[h,i,j] P[j,h]‖₁ for all pairs with j ≤ i, in tiles."""
    distances = whole.new_zeros(weights.shape[1], weights.shape[2])
    pairs = rearrange(weights, "head row source -> source row head").contiguous()
    for tile in _slices(0, weights.shape[1], TILE):
        last = min(rows.start + tile.stop, weights.shape[2])
        for sources in _slices(0, last, TILE):
            parts = torch.bmm(pairs[sources, tile], projected[sources])  # source row model
            distances[tile, sources] = parts.sub_(whole[tile]).abs_().sum(-1).T
    return distances


def _closeness_of_own(
    weights: Float[Tensor, "head row source"],
    projected: Float[Tensor, "row head model"],
    residual: Float[Tensor, "row model"],
    whole: Float[Tensor, "row model"],
    rows: slice,
) -> Float[Tensor, "row"]:
    """Give ‖y_i‖₁ − ‖y_i − T_ii‖₁: the part a position gets from itself holds the residual."""
    diagonal = weights.diagonal(offset=rows.start, dim1=1, dim2=2)  # head row
    part = residual + torch.einsum("hr,rhm->rm", diagonal, projected)
    return whole.abs().sum(-1) - (whole - part).abs().sum(-1)


def _normalise(closeness: Float[Tensor, "position source"]) -> Float[Tensor, "position source"]:
    """Make rows sum to 1; a row without a positive entry becomes the identity row."""
    total = closeness.sum(-1, keepdim=True)
    identity = torch.eye(*closeness.shape, dtype=closeness.dtype, device=closeness.device)
    return torch.where(total > 0, closeness / total.where(total > 0, torch.ones_like(total)), identity)


def _slices(start: int, stop: int, step: int) -> Iterator[slice]:
    for first in range(start, stop, step):
        yield slice(first, min(stop, first + step))
