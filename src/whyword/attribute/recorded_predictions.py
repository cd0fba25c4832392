"""What methods work from: recorded predictions, and what baselines run for them, once for all methods."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ..ledger import Ledger, Target
from ..models.model import Model
from ..trace import Readout, Trace
from .erasure import Chances, erase_each, read_chances
from .gradient import Gradient, differentiate

__all__ = ["Predictions"]


@dataclass(frozen=True, eq=False)
class Predictions:
    """All predictions of one trace, and what they are explained against."""

    model: Model
    prompts: Sequence[Sequence[int]]
    """Token ids of every example."""
    trace: Trace
    targets: Sequence[Target]
    ledgers: Sequence[Ledger]

    @property
    def contexts(self) -> list[Sequence[int]]:
        """The token ids that each prediction is made from."""
        each = self.trace.places.each
        return [self.prompts[row // each][: position + 1] for row, position in enumerate(self.trace.places)]

    @cached_property
    def chances(self) -> Chances:
        """What the model gives targets and foils, one row for each prediction."""
        return read_chances(Readout(self.trace.logits, self.trace.uncapped), self.targets)

    @cached_property
    def hidden(self) -> list[Chances | None]:
        """Every prediction with each token of its context hidden from attention."""
        return erase_each(self.model, self.prompts, self.trace.places, self.targets, "mask")

    @cached_property
    def deleted(self) -> list[Chances | None]:
        """Every prediction with each token of its context deleted."""
        return erase_each(self.model, self.prompts, self.trace.places, self.targets, "deletion")

    @cached_property
    def gradients(self) -> list[Gradient]:
        """The gradient of every logit (difference) at the token embeddings."""
        return differentiate(self.model, self.prompts, self.trace.places, self.targets)
