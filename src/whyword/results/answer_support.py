"""Which part of the prompt supports which sentence of the answer: an exact table, and its JSON document."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import MinLen

from ..document.kinds import SUPPORT_SCHEMA
from ..document.numbers import misfit, require_length
from ..errors import InputError
from .part_comparison import NO_SOURCES
from .prompt_parts import PartScore, PromptParts, ScoredParts
from .token_groups import ANSWERED

__all__ = ["UNSUPPORTED", "AnswerSupport", "ExplainedRow", "SupportColumn", "SupportRow", "make_support"]

UNSUPPORTED = 0.15
"""The share of a sentence's scores that its strongest source must have; below it, no source supports it."""


@dataclass(frozen=True)
class SupportColumn:
    """A part of the prompt."""

    name: str
    """Its name, such as `documents[0]`; "answer so far": earlier tokens of the answer."""
    text: str
    """What it says."""
    source: bool
    """Whether an answer could be taken from it: not the start, the template, the question or the answer."""


@dataclass(frozen=True)
class SupportWord:
    """A word of the prompt."""

    text: str
    """What it says."""
    start: int
    """Index of its first character in the prompt."""
    end: int
    """Index after its last character."""
    column: int
    """Index of the part that it is in."""


@dataclass(frozen=True)
class SupportRow:
    """A sentence of the answer, and what every part of the prompt adds to it."""

    name: str
    """Such as "sentence 1"."""
    text: str
    """What it says."""
    start: int
    """Index of its first character in the answer."""
    end: int
    """Index after its last character."""
    scores: list[float]
    """What every part adds, by column, in logits: the sum over the sentence's tokens."""
    words: list[float]
    """What every word of the prompt adds: those of a part add up to its score."""
    bias: float | None
    """What is at no token, because biases add it; None for methods that do not say."""
    logit: float
    """The sum of the logits, or differences, of its tokens."""
    share: float
    """The strongest source's part of Σ |scores| of this row."""
    supported: bool
    """Whether that is at least the threshold."""


@dataclass(frozen=True, kw_only=True)
class AnswerSupport(ScoredParts):
    """What every part of a prompt adds to every sentence of an answer."""

    schema: ClassVar[str] = SUPPORT_SCHEMA
    rows_by: str
    """What the answer was divided into."""
    columns_by: str
    """What the prompt was divided into."""
    prompt: str
    """The prompt."""
    answer: str
    """The answer."""
    columns: Annotated[tuple[SupportColumn, ...], MinLen(1)]
    """Parts of the prompt, in order."""
    rows: Annotated[tuple[SupportRow, ...], MinLen(1)]
    """Sentences of the answer, in order."""
    words: tuple[SupportWord, ...]
    """Words of the prompt, in order; those of the answer so far are not listed."""
    threshold: float
    """Below which share a sentence counts as unsupported."""

    @classmethod
    def _from_declared(cls, declared: "AnswerSupport") -> "AnswerSupport":
        for place, row in enumerate(declared.rows):
            require_length(f"rows[{place}].scores", row.scores, len(declared.columns))
            require_length(f"rows[{place}].words", row.words, len(declared.words))
            if (row.bias is None) != (declared.rows[0].bias is None):
                raise misfit(f"rows[{place}].bias", "some rows have one, others have none")
        for place, word in enumerate(declared.words):
            if not 0 <= word.column < len(declared.columns):
                raise misfit(f"words[{place}].column", f"there is no column {word.column}")
        return declared

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: tuple[int, str]) -> float:
        """Give the score of a row (its index) and a column (its name)."""
        row, name = place
        for column, score in zip(self.columns, self.rows[row].scores, strict=True):
            if column.name == name:
                return score
        raise InputError(
            f"There is no part {name!r}.", f"Parts: {', '.join(each.name for each in self.columns)}."
        )

    @property
    def unsupported(self) -> tuple[SupportRow, ...]:
        """The sentences that no source supports."""
        return tuple(row for row in self.rows if not row.supported)


@dataclass(frozen=True)
class ExplainedRow:
    """A sentence of the answer, and its scores by part and by word."""

    name: str
    start: int
    end: int
    parts: PromptParts
    words: Sequence[tuple[int, PartScore]]
    """With the index of the part that each is in."""


def make_support(
    rows_by: str, prompt: str, answer: str, explained: Sequence[ExplainedRow], threshold: float
) -> AnswerSupport:
    """Put the scores of every sentence by part side by side."""
    columns = {_key(part): part for row in explained for part in row.parts.parts}
    ordered = sorted(columns, key=lambda key: key[0] == ANSWERED)  # the answer so far is the last
    first = explained[0]
    places = [ordered.index(_key(part)) for part in first.parts.parts]
    return AnswerSupport(
        model=first.parts.model,
        method=first.parts.method,
        measure=first.parts.measure,
        rows_by=rows_by,
        columns_by=first.parts.by,
        prompt=prompt,
        answer=answer,
        columns=tuple(SupportColumn(key[0], columns[key].text, key[0] not in NO_SOURCES) for key in ordered),
        rows=tuple(_make_row(row, answer, ordered, threshold) for row in explained),
        words=tuple(SupportWord(word.text, word.start, word.end, places[part]) for part, word in first.words),
        threshold=threshold,
    )


_Key = tuple[str, int, int]


def _key(part: PartScore) -> _Key:
    """Tell parts apart: words may have one name. What was answered so far grows from row to row."""
    return (part.name, 0, 0) if part.name == ANSWERED else (part.name, part.start, part.end)


def _make_row(row: ExplainedRow, answer: str, columns: Sequence[_Key], threshold: float) -> SupportRow:
    by_key = {_key(part): part.score for part in row.parts.parts}
    scores = [by_key.get(key, 0.0) for key in columns]
    sources = [score for (name, *_), score in zip(columns, scores, strict=True) if name not in NO_SOURCES]
    size = sum(map(abs, scores)) + abs(row.parts.bias or 0.0)
    share = max(0.0, *sources) / size if sources and size else 0.0
    return SupportRow(
        name=row.name,
        text=answer[row.start : row.end],
        start=row.start,
        end=row.end,
        scores=scores,
        words=[word.score for _, word in row.words],
        bias=row.parts.bias,
        logit=row.parts.logit,
        share=share,
        supported=share >= threshold,
    )
