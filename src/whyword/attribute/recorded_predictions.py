"""What every method is given: the recorded predictions, and results that several methods share."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from jaxtyping import Float
from torch import Tensor

from ..ledger import Ledger, Likelihoods, Target, read_likelihoods
from ..models.model import Model
from ..trace import Readout, Trace

__all__ = ["Attributions", "Predictions", "make_rows"]

Attributions = list[Float[Tensor, "block _"]]
"""One matrix per prediction; one row where a method has no blocks."""
Shared = TypeVar("Shared")


@dataclass(frozen=True, eq=False)
class Predictions:
    """All predictions of one trace, and what they are explained against."""

    model: Model
    prompts: Sequence[Sequence[int]]
    """Token ids of every example."""
    trace: Trace
    targets: Sequence[Target]
    ledgers: Sequence[Ledger]
    depth: int | None = None
    """The depth at which flow is read; None: its default."""
    parts: Sequence[Sequence[frozenset[int]]] | None = None
    """By example, the parts of the prompt that are erased whole, as positions; None: each token by itself."""
    _shared: dict[Hashable, Any] = field(default_factory=dict, init=False)

    @property
    def contexts(self) -> list[Sequence[int]]:
        """The token ids that each prediction is made from."""
        each = self.trace.places.each
        return [self.prompts[row // each][: position + 1] for row, position in enumerate(self.trace.places)]

    @cached_property
    def likelihoods(self) -> Likelihoods:
        """Logits and probabilities of targets and foils, one row for each prediction."""
        return read_likelihoods(Readout(self.trace.logits, self.trace.uncapped), self.targets)

    def share(self, run: Callable[["Predictions"], Shared]) -> Shared:
        """Call a function of the predictions once, and keep its result for every method that needs it."""
        if run not in self._shared:
            self._shared[run] = run(self)
        found: Shared = self._shared[run]
        return found


def make_rows(scores: Iterable[Float[Tensor, " _"]]) -> Attributions:
    """Return scores that are not split by block as matrices of one row."""
    return [each[None] for each in scores]
