"""What several methods say of the parts of a prompt, and whether the part they name matters."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from annotated_types import MinLen

from ..ask.filled_prompt import TEMPLATE
from ..ask.prompt import ANSWER
from ..attribute.methods import Measure
from ..document.kinds import COMPARED_PARTS_SCHEMA
from ..document.numbers import require_length
from ..errors import InputError
from ..view.sentences import worded
from .prediction import Choice
from .prompt_parts import PromptParts
from .shown import Shown
from .token_groups import ANSWERED, ELSEWHERE, START

__all__ = [
    "NO_SOURCES",
    "ComparedMethod",
    "ComparedPart",
    "PartComparison",
    "PartFaithfulness",
    "compare_divided",
]

NO_SOURCES = (START, TEMPLATE, ELSEWHERE, ANSWER, ANSWERED, "question")
"""Parts that are no sources: what they say is not what an answer is taken from."""


@dataclass(frozen=True)
class ComparedPart:
    """A part of the prompt."""

    name: str
    """Such as `documents[0]`."""
    text: str
    """What it says."""
    start: int
    """Index of its first character in the prompt."""
    end: int
    """Index after its last character."""
    source: bool
    """Whether an answer could be taken from it: not the start, the template or the question."""


@dataclass(frozen=True)
class PartFaithfulness:
    """What erasing parts does to the preference for the target, p_w / (p_w + p_f)."""

    strongest: str
    """The source with the highest score."""
    comprehensiveness: float
    """What is lost of the preference without it. High: it was needed."""
    sufficiency: float
    """What is lost with it as the only source. Low: it is enough."""


@dataclass(frozen=True)
class ComparedMethod:
    """What one method says of every part."""

    method: str
    """The name of the method."""
    measure: Measure
    """What its scores are."""
    scores: list[float]
    """One number per part."""
    faithfulness: PartFaithfulness | None = None
    """Whether the part that it names matters; None where it was not measured."""


@dataclass(frozen=True, kw_only=True)
class PartComparison(Shown):
    """What several methods say of the parts of a prompt."""

    schema: ClassVar[str] = COMPARED_PARTS_SCHEMA
    model: str
    """The model's name."""
    by: str
    """What the prompt was divided into: word, sentence, line, paragraph, turn, part or span."""
    text: str
    """The prompt."""
    target: Choice
    """The token that is explained."""
    foils: tuple[Choice, ...]
    """What it is contrasted with; none: its logit itself is explained."""
    parts: Annotated[tuple[ComparedPart, ...], MinLen(1)]
    """In the order of the prompt."""
    methods: Annotated[tuple[ComparedMethod, ...], MinLen(1)]
    """Every method, in the order in which they are shown."""
    logit: float
    """The model's own logit, or difference of logits."""

    @worded
    def to_dict(self) -> dict[str, Any]:
        """Give the JSON document."""
        return super().to_dict()

    @classmethod
    def _from_declared(cls, declared: "PartComparison") -> "PartComparison":
        for place, each in enumerate(declared.methods):
            require_length(f"methods[{place}].scores", each.scores, len(declared.parts))
        return declared

    def __getitem__(self, place: tuple[str, str]) -> float:
        """Give the score of a method and a part, by their names."""
        method, name = place
        for each in self.methods:
            for part, score in zip(self.parts, each.scores, strict=True):
                if (each.method, part.name) == (method, name):
                    return score
        raise InputError(
            f"There is no score of {name!r} by {method!r}.",
            f"Methods: {', '.join(each.method for each in self.methods)}; "
            f"parts: {', '.join(part.name for part in self.parts)}.",
        )


def compare_divided(
    divided: Mapping[str, PromptParts], faithfulness: Mapping[str, PartFaithfulness]
) -> PartComparison:
    """Put the scores of every method by part side by side; `faithfulness`: by method, if measured."""
    first = next(iter(divided.values()))
    return PartComparison(
        model=first.model,
        by=first.by,
        text=first.text,
        target=first.target,
        foils=first.foils,
        parts=tuple(
            ComparedPart(part.name, part.text, part.start, part.end, part.name not in NO_SOURCES)
            for part in first.parts
        ),
        methods=tuple(
            ComparedMethod(method, parts.measure, list(parts.scores), faithfulness.get(method))
            for method, parts in divided.items()
        ),
        logit=first.logit,
    )
