"""ALTI-Logit: updates tracked back to the input through the mixing of the blocks below [eq. 10, 11].

    M[0] = I,  M[l] = C[l] ··· C[1]                    (heuristic: see contributions.py)
    attribution[l, s] = Σ_j update[l, j] · M[l-1][j, s]

Products of positions × positions matrices are not needed for that: rows of updates are carried down, one more
row with each block.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from ..ledger import Ledger
from ..trace import Trace

__all__ = ["attribute_alti_logit", "mix"]


def attribute_alti_logit(trace: Trace, ledgers: Sequence[Ledger]) -> list[Float[Tensor, "block _"]]:
    """Track the updates of all positions of a trace back to the input, in one pass over C."""
    updates = _pad([ledger.by_head.sum(1) for ledger in ledgers])  # position block source
    tracked = updates[:, :0]
    for index in reversed(range(updates.shape[1])):
        if tracked.shape[1] > 0:
            mixing = trace.decoder.contributions[index].to(updates.device)
            tracked = tracked @ mixing[: updates.shape[2], : updates.shape[2]]
        tracked = torch.cat([updates[:, index : index + 1], tracked], dim=1)
    return [rows[:, : ledger.by_head.shape[2]] for rows, ledger in zip(tracked, ledgers, strict=True)]


def mix(trace: Trace) -> Float[Tensor, "block stream source"]:
    """Give M after every block: each position's stream as a mix of input tokens."""
    matrices: list[Tensor] = []
    for contributions in trace.decoder.contributions:
        matrices.append(contributions @ matrices[-1].to(contributions.device) if matrices else contributions)
    return torch.stack([matrix.cpu() for matrix in matrices])


def _pad(rows: Sequence[Float[Tensor, "block _"]]) -> Float[Tensor, "position block longest"]:
    """Stack matrices of different lengths, with zeros for sources that a position cannot see."""
    longest = max(row.shape[1] for row in rows)
    return torch.stack([torch.nn.functional.pad(row, (0, longest - row.shape[1])) for row in rows])
