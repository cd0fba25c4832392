"""The likeliest next tokens, and their JSON document."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ..document.kinds import PREDICTION_SCHEMA
from ..tokens.tokens import StartRecord
from .shown import Shown

__all__ = ["Choice", "Prediction"]


@dataclass(frozen=True)
class Choice:
    """A candidate for the next token."""

    id: int | None
    """The token's id; None: several tokens together."""
    text: str
    """The text it stands for."""
    logit: float
    """Before it is capped, where the model caps its logits (Gemma 2)."""
    probability: float
    """Between 0 and 1, of the whole vocabulary."""
    capped: float | None = None
    """The logit after the cap, which the probability comes from; None where the model has no cap."""
    rank: int | None = None
    """Its place among all tokens, the likeliest being 1; None: not known, or several tokens together."""
    special: bool = False
    """Whether it marks structure rather than text: the end of an answer."""


@dataclass(frozen=True)
class Prediction(Shown, Sequence[Choice]):
    """The likeliest next tokens, in order."""

    schema: ClassVar[str] = PREDICTION_SCHEMA
    model: str
    """The model's name."""
    choices: tuple[Choice, ...]
    """The tokens, the likeliest first."""
    start: StartRecord | None = None
    """The start of text before the prompt."""

    def __len__(self) -> int:
        return len(self.choices)

    def __getitem__(self, index: Any) -> Any:
        found = self.choices[index]
        return Prediction(self.model, found, self.start) if isinstance(index, slice) else found

    def __iter__(self) -> Iterator[Choice]:
        return iter(self.choices)
