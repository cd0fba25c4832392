"""ALTI-Logit: updates tracked back to the input through the mixing of the blocks below [eq. 10, 11].

    M[0] = I,  M[l] = C[l] ··· C[1]                    (heuristic: see contributions.py)
    attribution[l, s] = Σ_j update[l, j] · M[l-1][j, s]

Products of positions × positions matrices are not needed for that: rows of updates are carried down, one more
row with each block.
"""

from collections.abc import Sequence

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from ..trace import Trace
from .recorded_predictions import Attributions, Predictions

__all__ = ["attribute_alti_logit", "carry_down", "mix"]


def attribute_alti_logit(predictions: Predictions) -> Attributions:
    """Track the updates of all predictions back to the input, in one pass over C."""
    trace, ledgers = predictions.trace, predictions.ledgers
    contributions = trace.decoder.contributions
    positions = contributions[0].chunks[-1].shape[2] if contributions else None
    updates = _pad([ledger.by_head.sum(1) for ledger in ledgers], positions)
    lowest, above = updates[:, :1], updates[:, 1:]
    tracked = torch.cat([lowest, carry_down(trace, above)], dim=1)
    return [rows[:, : ledger.by_head.shape[2]] for rows, ledger in zip(tracked, ledgers, strict=True)]


def carry_down(
    trace: Trace, rows: Float[Tensor, "position above source"]
) -> Float[Tensor, "position above source"]:
    """Carry a row from above every block but the last down to the input; any more go down with the highest.

    The first row passes through C of the first block, the next through C of the second and the first.
    """
    each = trace.places.each
    carried = rearrange(rows, "(example each) above source -> example above each source", each=each).clone()
    for block in reversed(range(len(trace.decoder.stream_in) - 1)):
        above = carried[:, block:]
        above.copy_(trace.decoder.contributions[block].carry(above.flatten(1, 2)).view_as(above))
    return rearrange(carried, "example above each source -> (example each) above source")


def mix(trace: Trace) -> Float[Tensor, "block stream source"]:
    """Return M after every block of one example: each position's residual stream as a mix of tokens."""
    matrices: list[Tensor] = []
    for contributions in trace.decoder.contributions:
        (own,) = contributions.dense()
        matrices.append(own @ matrices[-1].to(own.device) if matrices else own)
    return torch.stack([matrix.cpu() for matrix in matrices])


def _pad(
    rows: Sequence[Float[Tensor, "block _"]], width: int | None
) -> Float[Tensor, "position block width"]:
    """Stack matrices of different widths, with zeros for sources that a position cannot see."""
    width = max(row.shape[1] for row in rows) if width is None else width
    return torch.stack([torch.nn.functional.pad(row, (0, width - row.shape[1])) for row in rows])
