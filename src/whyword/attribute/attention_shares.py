"""Shares of the context, whatever the target: attention, attention rollout, ALTI.

attention:  A[L] averaged over heads, the explained position's row
rollout:    e_t · R[L] ··· R[1]      R = ½ A + ½ I, A averaged over heads [Abnar and Zuidema 2020]
ALTI:       e_t · C[L] ··· C[1]      C: see contributions.py [Ferrando et al. 2022]
"""

from collections.abc import Sequence

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from ..maths.contributions import Contributions
from ..trace import Trace
from .recorded_predictions import Attributions, Predictions, make_rows

__all__ = ["attribute_alti", "attribute_attention", "attribute_rollout"]


def attribute_attention(predictions: Predictions) -> Attributions:
    """Return the attention weights of every explained position in the last block, averaged over heads."""
    trace = predictions.trace
    weights = trace.decoder.attention.weights[-1].mean(1).cpu()
    return make_rows(row[: position + 1] for row, position in zip(weights, trace.places, strict=True))


def attribute_rollout(predictions: Predictions) -> Attributions:
    """Follow every explained position back through attention and residuals."""
    trace = predictions.trace
    return make_rows(_follow_back(trace, trace.decoder.attention.rolled))


def attribute_alti(predictions: Predictions) -> Attributions:
    """Follow every explained position back through contributions."""
    trace = predictions.trace
    return make_rows(_follow_back(trace, trace.decoder.contributions))


def _follow_back(trace: Trace, blocks: Sequence[Contributions]) -> list[Float[Tensor, " _"]]:
    """Follow the residual stream of every explained position back through shares of all blocks."""
    positions = torch.tensor([list(each) for each in trace.places.ranges], device="cpu")
    rows = torch.nn.functional.one_hot(positions, blocks[0].chunks[-1].shape[2]).to(trace.logits.dtype)
    for block in reversed(blocks):
        rows = block.carry(rows.to(block.chunks[0].device))
    rows = rearrange(rows.cpu(), "example each source -> (example each) source")
    return [row[: position + 1] for row, position in zip(rows, trace.places, strict=True)]
