"""How much of position i's residual stream comes from position j in one block [eq. 10; ALTI, 2022].

    T_ij = Σ_h A[h,i,j] · P[h,j]   (+ x_i when j = i)         P[h,j] = v[h,j] W_O[h]
    C_ij ∝ max(0, ‖y_i‖₁ − ‖y_i − T_ij‖₁)                     rows sum to 1

Nothing of size positions × positions × width is built: parts are computed in tiles that stay in the cache, a
batched matmul each, and reduced at once to one number per pair. Attention weights are computed in chunks of
rows, so that heads × positions × positions is never held in memory either.

In an encoder every position sees every other. In cross-attention the residual is a part like the sources,
with a column of its own. ALTI: Ferrando, Gállego and Costa-jussà (EMNLP 2022).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..models.workspace import Workspace
from .kernel import measure_rest, measure_shares
from .shares import find_closeness, normalise

__all__ = [
    "ROWS",
    "Contributions",
    "contribute",
    "contribute_across",
    "contribute_both_ways",
    "contribute_rows",
]

ROWS = 128
"""Rows whose attention weights are held at once, unless memory allows only fewer."""


@dataclass(frozen=True)
class Contributions:
    """C of one block. What no row sees is not stored: rows are kept in chunks, each as wide as its last row
    (in an encoder and in cross-attention, as wide as the sources)."""

    chunks: tuple[Float[Tensor, "example _row _source"], ...]

    def carry(self, updates: Float[Tensor, "example row source"]) -> Float[Tensor, "example row source"]:
        """Return `updates` C: what each position received, passed on to the positions it came from."""
        if len(self.chunks) == 1:
            return updates @ self.chunks[0].to(updates)
        carried, start = torch.zeros_like(updates), 0
        for chunk in self.chunks:
            rows, seen = chunk.shape[1:]
            carried[:, :, :seen] += updates[:, :, start : start + rows] @ chunk.to(updates)
            start += rows
        return carried

    def dense(self) -> Float[Tensor, "example position source"]:
        """Return C with its zeros."""
        positions = self.chunks[-1].shape[2]
        return torch.cat(
            [torch.nn.functional.pad(chunk, (0, positions - chunk.shape[2])) for chunk in self.chunks], dim=1
        )


def contribute(
    weigh: Callable[[slice], Float[Tensor, "example head row source"]],
    projected: Float[Tensor, "example head source model"],
    residual: Float[Tensor, "example position model"],
    whole: Float[Tensor, "example position model"],
    rows: int,
    workspace: Workspace,
) -> Contributions:
    """Return the contributions C of one self-attention sub-layer, computed in chunks of rows.

    `weigh(rows)` returns the attention weights of some rows over the sources up to the last of these rows;
    `projected` is P, `residual` the stream x before attention, `whole` the stream y after it.
    """
    chunks = []
    for chunk in _slices(whole.shape[1], rows):
        seen, own = projected[:, :, : chunk.stop], whole[:, chunk]
        chunks.append(measure_shares(weigh(chunk), seen, own, residual[:, chunk], chunk.start, workspace))
    return Contributions(tuple(chunks))


def contribute_rows(
    weights: Float[Tensor, "example head 1 source"],
    projected: Float[Tensor, "example head source model"],
    residual: Float[Tensor, "example 1 model"],
    whole: Float[Tensor, "example 1 model"],
    positions: Int[Tensor, " example"],
    workspace: Workspace,
) -> Float[Tensor, "example source"]:
    """Return one row of C per example: that of one position, which sees itself and what precedes it."""
    rows, own = torch.arange(len(positions), device=weights.device), positions.to(weights.device)
    distances = measure_rest(weights, projected, whole, None, None, workspace)
    # A row's own source is measured again: the residual belongs to it.
    written = torch.einsum("eh,ehm->em", weights[rows, :, 0, own].to(whole), projected[rows, :, own])
    distances[rows, 0, own] = (whole[:, 0] - residual[:, 0] - written).abs().sum(-1)
    closeness = find_closeness(distances, whole)[:, 0]
    closeness[torch.arange(closeness.shape[1], device=own.device) > own[:, None]] = 0
    total = closeness.sum(-1, keepdim=True)
    closeness[rows, own] += (total == 0)[:, 0]
    return closeness / torch.where(total == 0, 1.0, total)


def contribute_both_ways(
    weigh: Callable[[slice], Float[Tensor, "example head row source"]],
    projected: Float[Tensor, "example head source model"],
    residual: Float[Tensor, "example source model"],
    whole: Float[Tensor, "example source model"],
    rows: int,
    lengths: Sequence[int],
    workspace: Workspace,
) -> Contributions:
    """Return the contributions C of one self-attention sub-layer of an encoder, whose rows see all sources.

    `lengths`: the number of sources of each example that are not padding.
    """
    chunks = []
    for chunk in _slices(whole.shape[1], rows):
        own, weights = whole[:, chunk], weigh(chunk)
        distances = measure_rest(weights, projected, own, None, None, workspace)
        # A row's own source is measured again: the residual belongs to it.
        written = torch.einsum(
            "ehr,ehrm->erm", weights.diagonal(chunk.start, 2, 3).to(own), projected[:, :, chunk]
        )
        apart = (own - residual[:, chunk] - written).abs().sum(-1)
        distances.diagonal(chunk.start, 1, 2).copy_(apart)
        closeness = find_closeness(distances, own)
        chunks.append(normalise(_hide_padding(closeness, lengths), chunk.start))
    return Contributions(tuple(chunks))


def contribute_across(
    weigh: Callable[[slice], Float[Tensor, "example head row source"]],
    projected: Float[Tensor, "example head source model"],
    residual: Float[Tensor, "example position model"],
    whole: Float[Tensor, "example position model"],
    rows: int,
    lengths: Sequence[int],
    workspace: Workspace,
) -> Contributions:
    """Return the contributions C of one cross-attention sub-layer: all sources, and the residual last."""
    chunks = []
    for chunk in _slices(whole.shape[1], rows):
        own = whole[:, chunk]
        distances = measure_rest(weigh(chunk), projected, own, None, None, workspace)
        closeness = _hide_padding(find_closeness(distances, own), lengths)
        before = find_closeness((own - residual[:, chunk]).abs().sum(-1, keepdim=True), own)
        total = closeness.sum(-1, keepdim=True) + before
        before, total = torch.where(total == 0, 1.0, before), torch.where(total == 0, 1.0, total)
        chunks.append(torch.cat([closeness, before], dim=2).div_(total))
    return Contributions(tuple(chunks))


def _hide_padding(
    closeness: Float[Tensor, "example row source"], lengths: Sequence[int]
) -> Float[Tensor, "example row source"]:
    """Set the closeness of padding to zero, which rounding leaves near zero."""
    for own, length in zip(closeness, lengths, strict=True):
        own[:, length:] = 0
    return closeness


def _slices(stop: int, step: int) -> Iterator[slice]:
    for start in range(0, stop, step):
        yield slice(start, min(stop, start + step))
