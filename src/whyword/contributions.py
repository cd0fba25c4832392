"""How much of position i's stream comes from position j in one block [eq. 10; ALTI, Ferrando et al. 2022].

    T_ij = Σ_h A[h,i,j] · P[h,j]   (+ x_i when j = i)         P[h,j] = v[h,j] W_O[h]
    C_ij ∝ max(0, ‖y_i‖₁ − ‖y_i − T_ij‖₁)                     rows sum to 1

Nothing of size positions × positions × width is built: parts are made in tiles that stay in the cache, a
batched matmul each, and reduced to one number per pair at once. Attention weights are asked for in chunks of
rows, so that heads × positions × positions is never held either.
"""

from collections.abc import Callable, Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from .workspace import Workspace

__all__ = ["contribute"]

ROWS = 128
"""Rows whose attention weights are held at once."""
SOURCES = 16
"""Sources that are measured against these rows at once: 128 × 16 × 768 float32 is 6 MB. Tiles of 8 × 128 to
64 × 64 were measured, with hot and with cold caches: all within 10 %, smaller ones slower."""


def contribute(
    weigh: Callable[[slice], Float[Tensor, "head row source"]],
    projected: Float[Tensor, "head source model"],
    residual: Float[Tensor, "position model"],
    whole: Float[Tensor, "position model"],
    workspace: Workspace,
) -> Float[Tensor, "position source"]:
    """Give the contributions C of one self-attention sub-layer.

    `weigh(rows)` gives attention weights of some rows over the sources up to the last of these rows;
    `projected` is P, `residual` the stream x that enters, `whole` the stream y after attention.
    """
    positions, width = whole.shape
    lengths = whole.abs().sum(-1, keepdim=True)
    distances = lengths.repeat(1, positions)  # a source that is not seen is no part: its closeness is 0
    buffer = workspace.take("tile", [SOURCES * ROWS * width], whole)
    for chunk in _slices(positions, ROWS):
        weights = weigh(chunk)
        for sources in _slices(chunk.stop, SOURCES):
            rows = slice(max(chunk.start, sources.start), chunk.stop)
            own = weights[:, rows.start - chunk.start :, sources]
            rest = _subtract(own, projected[:, sources], whole[rows], buffer)
            _subtract_residual(rest, residual, rows, sources)
            distances[rows, sources] = rest.abs_().sum(-1).T
    return _normalise(distances.neg_().add_(lengths).clamp_(min=0).tril_())


def _subtract(
    weights: Float[Tensor, "head row source"],
    projected: Float[Tensor, "head source model"],
    whole: Float[Tensor, "row model"],
    buffer: Float[Tensor, " size"],
) -> Float[Tensor, "source row model"]:
    """Give y_i − Σ_h A[h,i,j] P[h,j] for one tile of pairs, in the buffer.

    The layouts are what the matmul likes best: weights as [source, head, row], parts from P as it lies.
    """
    _, rows, sources = weights.shape
    pairs = weights.permute(2, 0, 1).contiguous().transpose(1, 2)
    rest = buffer[: sources * rows * whole.shape[1]].view(sources, rows, -1)
    return torch.baddbmm(whole.expand_as(rest), pairs, projected.transpose(0, 1), alpha=-1, out=rest)


def _subtract_residual(
    rest: Float[Tensor, "source row model"],
    residual: Float[Tensor, "position model"],
    rows: slice,
    sources: slice,
) -> None:
    """Subtract x_i where the source is the row itself: the residual is part of what it gives itself."""
    first, last = max(rows.start, sources.start), min(rows.stop, sources.stop)
    if first < last:
        own = rest[first - sources.start : last - sources.start, first - rows.start : last - rows.start]
        own.diagonal().sub_(residual[first:last].T)


def _normalise(closeness: Float[Tensor, "position source"]) -> Float[Tensor, "position source"]:
    """Make rows sum to 1; a row without a positive entry becomes the identity row."""
    total = closeness.sum(-1, keepdim=True)
    identity = torch.eye(*closeness.shape, dtype=closeness.dtype, device=closeness.device)
    return torch.where(total > 0, closeness / total.where(total > 0, torch.ones_like(total)), identity)


def _slices(stop: int, step: int) -> Iterator[slice]:
    for start in range(0, stop, step):
        yield slice(start, min(stop, start + step))
