"""Attribute: turn ledgers into numbers per input token. `METHODS` names the ways."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from ..ledger import Ledger
from ..trace import Trace
from .alti_logit import attribute_alti_logit
from .logit import attribute_logit

__all__ = ["METHODS", "Method"]


@dataclass(frozen=True)
class Method:
    """A way to turn the ledgers of one trace into attributions, one matrix per ledger."""

    attribute: Callable[[Trace, Sequence[Ledger]], list[Float[Tensor, "block _"]]]
    mixes: bool
    """Whether it needs the contributions of the blocks below the last."""


METHODS: Mapping[str, Method] = {
    "alti-logit": Method(attribute_alti_logit, mixes=True),
    "logit": Method(attribute_logit, mixes=False),
}
