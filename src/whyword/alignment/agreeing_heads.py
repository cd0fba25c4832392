"""Two views of the same words: updates where a word is produced, attention where it is consumed.

    produced:   shares of both sides of the updates T_i · u, summed over blocks, negative ones cut to 0
    consumed:   shares of both sides of cross-attention one step later, Σ_h w_h A_h over the heads that agree
    score:      their mean, 0 … 1

Some heads look at the source word that was just translated, most look elsewhere, and which ones differs from
model to model. So each pair of sentences chooses its own: a_h is the mean attention of head h to the mutual
links of the updates, and w_h = a_h for heads with more than half of the largest a_h, 0 for others. Nothing is
trained, and no block is chosen.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from .linking import Linking, link_words, share_both_sides

__all__ = ["combine"]

_MUTUAL = Linking("mutual", recall=0.0, null=0.0)
_LEAST = 0.5
"""Heads count if they agree at least this much, as a share of the one that agrees most."""


def combine(
    updates: Float[Tensor, "step source"],
    attention: Sequence[Float[Tensor, "step _head source"]],
    shares: tuple[Float[Tensor, "target step"], Float[Tensor, "word source"]],
) -> Float[Tensor, "target word"]:
    """Score words of a translation and of its source, from updates and from attention by block."""
    targets, sources = shares
    produced = share_both_sides(targets @ updates.clamp(min=0) @ sources.T)
    written = targets.sum(1) > 0, sources.sum(1) > 0
    links = link_words(produced, produced, written, _MUTUAL)
    by_head = [targets @ weights.transpose(0, 1) @ sources.T for weights in attention]
    heads = torch.cat(by_head)
    if not links:
        return (produced + share_both_sides(heads.mean(0))) / 2
    own, other = zip(*links, strict=True)
    rows = heads / heads.sum(2, keepdim=True).clamp(min=torch.finfo(heads.dtype).tiny)
    agreement = rows[:, list(other), list(own)].mean(1)
    weights = agreement * (agreement > _LEAST * agreement.max())
    consumed = share_both_sides(torch.einsum("h,hts->ts", weights, heads))
    return (produced + consumed) / 2
