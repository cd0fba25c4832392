"""The ledger: direct logit attribution, with every update in logits and their sum proven [eq. 1–8].

    embedding + Σ_l attention[l, h, j] + Σ_l attention output bias[l] + Σ_l mlp[l]
    + norm biases + unembedding bias  =  logit

In a model with an encoder, cross-attention adds to it in the same way, from the encoder's positions.

The direction of the logit is pulled back once, from the unembedding down through every frozen norm; an
update is the dot product of that direction with what was written to the residual stream. No entry is ever a
remainder, which would hide any error.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ..maths.proof import Identity, require_close, tolerance_of
from ..models.model import Model
from ..trace import Trace
from .direction import Target
from .entries import Entries, compute_entries

__all__ = ["Closed", "Ledger", "close", "make_ledgers", "settle"]


@dataclass(frozen=True, eq=False)
class Ledger:
    """All updates of one prediction, in logits, on the CPU."""

    embedding: float
    """What the embedding of the explained position adds."""
    attention: Float[Tensor, " block"]
    """What attention adds: the sum of `by_head` over heads and sources."""
    attention_bias: Float[Tensor, " block"]
    """What the bias of each attention's output projection adds."""
    mlp: Float[Tensor, " block"]
    """What each MLP adds."""
    norm_bias: float
    """What the biases of the norms on the way to the logit add."""
    unembedding_bias: float
    """What the bias of the unembedding adds."""
    total: float
    """The sum of all entries."""
    logit: float
    """The model's own logit, or difference of logits, before they are capped."""
    error: float
    """|total − logit| / Σ|entries|."""
    by_head: Float[Tensor, "block head source"]
    """What each source adds through each head of each block."""
    cross_attention: Float[Tensor, " block"] | None = None
    """What cross-attention adds, where the model has an encoder: the sum of `cross_by_head`."""
    cross_attention_bias: Float[Tensor, " block"] | None = None
    """What the bias of each cross-attention's output projection adds."""
    cross_by_head: Float[Tensor, "block head source_token"] | None = None
    """What each token of the source adds through each head of each block."""


def settle(model: Model, trace: Trace, targets: Sequence[Target]) -> tuple[Ledger, ...]:
    """Settle the ledger of every position of a trace, one target each, and prove it."""
    return make_ledgers(model, trace, compute_entries(model, trace, targets))


def make_ledgers(model: Model, trace: Trace, entries: Entries) -> tuple[Ledger, ...]:
    """Make the ledger of every position of a trace from its entries, and prove their sums."""
    closed = close(model, entries, list(trace.places))
    single = (
        each.tolist()
        for each in (
            entries.embedding.double(),
            entries.norm_bias.double(),
            entries.unembedding_bias.double(),
            closed.total,
            entries.logit.double(),
            closed.error,
        )
    )
    attention_bias, mlp = entries.attention_bias.double(), entries.mlp.double()
    return tuple(
        Ledger(
            embedding=embedding,
            attention=closed.attention[row],
            attention_bias=attention_bias[row],
            mlp=mlp[row],
            norm_bias=norm_bias,
            unembedding_bias=unembedding_bias,
            total=total,
            logit=logit,
            error=error,
            by_head=entries.by_head[row, :, :, : position + 1].clone(),  # not a view of all positions
            **_cross_entries(entries, closed, trace, row),
        )
        for row, (position, embedding, norm_bias, unembedding_bias, total, logit, error) in enumerate(
            zip(trace.places, *single, strict=True)
        )
    )


@dataclass(frozen=True)
class Closed:
    """The entries of all positions, added up and proven; float64, on the CPU."""

    attention: Float[Tensor, "position block"]
    cross_attention: Float[Tensor, "position block"] | None
    total: Float[Tensor, " position"]
    error: Float[Tensor, " position"]


def close(model: Model, entries: Entries, positions: Sequence[int]) -> Closed:
    """Add up the entries of every position and compare with the model's logits."""
    attention, cross = entries.by_head.sum((2, 3), dtype=torch.float64), None
    every = [attention, entries.attention_bias, entries.mlp]
    every += [each[:, None] for each in (entries.embedding, entries.norm_bias, entries.unembedding_bias)]
    if entries.cross_by_head is not None and entries.cross_attention_bias is not None:
        cross = entries.cross_by_head.sum((2, 3), dtype=torch.float64)
        every += [cross, entries.cross_attention_bias]
    together, logit = torch.cat([each.double() for each in every], dim=1), entries.logit.double()
    total, size = together.sum(1), together.abs().sum(1)
    tolerance = tolerance_of(model.exactness)
    require_close(
        Identity.LEDGER,
        [f"position {position + 1}" for position in positions],
        found=total,
        expected=logit,
        scale=size + entries.logit_rounding.double() / tolerance,
        tolerance=tolerance,
    )
    error = (total - logit).abs() / size.clamp(min=torch.finfo(size.dtype).tiny)
    return Closed(attention, cross, total, error)


def _cross_entries(entries: Entries, closed: Closed, trace: Trace, row: int) -> dict[str, Tensor]:
    """Return the entries of cross-attention at one position, none where the model has no encoder."""
    if closed.cross_attention is None or trace.lengths is None:
        return {}
    assert entries.cross_by_head is not None
    assert entries.cross_attention_bias is not None
    length = trace.lengths[row // trace.places.each]
    return {
        "cross_attention": closed.cross_attention[row],
        "cross_attention_bias": entries.cross_attention_bias[row].double(),
        "cross_by_head": entries.cross_by_head[row, :, :, :length].clone(),
    }
