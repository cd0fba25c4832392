"""Logit explanation: updates by the position they come from [eq. 9].

attribution[l, s] = Σ_h update[l, h, s]
"""

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor

from ..ledger import Ledger
from ..trace import Trace

__all__ = ["attribute_logit"]


def attribute_logit(_trace: Trace, ledgers: Sequence[Ledger]) -> list[Float[Tensor, "block _"]]:
    """Sum updates over heads. Assumes that each stream keeps its token's identity."""
    return [ledger.by_head.sum(1) for ledger in ledgers]
