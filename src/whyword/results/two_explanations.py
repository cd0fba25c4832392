"""Two explanations word by word: what another prompt, or another model, changes; and the JSON document."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Annotated, Any, ClassVar

from annotated_types import MinLen

from ..attribute.methods import Measure
from ..document.kinds import DIFFERENCE_SCHEMA
from ..errors import InputError
from ..view.sentences import worded
from .explanation import Explanation
from .prediction import Choice
from .shown import Shown

__all__ = ["Difference", "ExplainedSide", "ScoredPair", "difference"]

Word = tuple[str, float]


@dataclass(frozen=True, kw_only=True)
class ExplainedSide:
    """One of the two explanations."""

    model: str
    """The model's name."""
    text: str
    """The prompt, and what was forced after it."""
    target: Choice
    """The token that is explained."""
    foils: tuple[Choice, ...]
    """What it is contrasted with; none: its logit itself is explained."""
    logit: float
    """The model's own logit, or difference of logits."""
    depth: int | None = None
    """Where flow is read; None for methods that have no depth."""


@dataclass(frozen=True, kw_only=True)
class ScoredPair:
    """A word of the first prompt and what stands in its place in the second, with their scores."""

    first: str | None
    """Its text in the first prompt; None: it is in the second only."""
    second: str | None
    """Its text in the second prompt; None: it is in the first only."""
    first_score: float
    """Its score in the first explanation; 0 where it is not there."""
    second_score: float
    """Its score in the second explanation; 0 where it is not there."""
    difference: float
    """The second score − the first."""
    start: bool = False
    """Whether it is the start of text, which is not a word."""


@dataclass(frozen=True, kw_only=True)
class Difference(Shown):
    """Two explanations of the same target and foil, word by word, and what the second changes."""

    schema: ClassVar[str] = DIFFERENCE_SCHEMA
    model: str
    """The model's name; of two, both."""
    method: str
    """The name of the method."""
    measure: Measure
    """What the scores are."""
    first: ExplainedSide
    """What is changed."""
    second: ExplainedSide
    """What it is changed into."""
    words: Annotated[tuple[ScoredPair, ...], MinLen(1)]
    """All words, in order, after the start of text."""
    rest: ScoredPair | None = None
    """What is at no word, because biases or other parts of the network add it; None: scores do not add up."""
    difference: float
    """The logit (difference) of the second − that of the first: the sum of all differences."""

    @worded
    def to_dict(self) -> dict[str, Any]:
        """Give the JSON document."""
        made = super().to_dict()
        sides = {side: {**made[side], "foils": list(made[side]["foils"])} for side in ("first", "second")}
        return {**made, **sides}

    def __repr__(self) -> str:
        return (
            f"<Difference: {self.first.target.text!r}, {self.method} on {self.model}, "
            f"{self.first.logit:+.3f} → {self.second.logit:+.3f}>"
        )


def difference(first: Explanation, second: Explanation) -> Difference:
    """Put two explanations of the same target and foil side by side, with the difference of their scores.

    They differ in the prompt, in the model, or in both. Prompts with equally many words are compared word by
    word; others are aligned by the words that they share. A difference is always the second − the first.
    """
    for each in (first, second):
        if not isinstance(each, Explanation):
            raise InputError(
                f"A difference needs two explanations, not a {type(each).__name__}.",
                "Pass what whyword.explain(...) returns.",
            )
    _require_same("method", first.method, second.method)
    _require_same("target", first.target.text.strip(), second.target.text.strip())
    _require_same("foils", *([foil.text.strip() for foil in each.foils] for each in (first, second)))
    sides = [_describe(each) for each in (first, second)]
    return Difference(
        model=" → ".join(dict.fromkeys(each.model for each in (first, second))),
        method=first.method,
        measure=first.measure,
        first=sides[0],
        second=sides[1],
        words=tuple(_pair_all(first, second)),
        rest=_pair(("", _find_rest(first)), ("", _find_rest(second))) if first.measure.adds_up else None,
        difference=second.ledger.logit - first.ledger.logit,
    )


def _require_same(what: str, one: object, two: object) -> None:
    if one != two:
        raise InputError(
            f"The explanations have another {what}: {one!r} and {two!r}.",
            f"Explain both with the same {what}.",
        )


def _describe(explained: Explanation) -> ExplainedSide:
    return ExplainedSide(
        model=explained.model,
        text=explained.text,
        target=explained.target,
        foils=explained.foils,
        logit=explained.ledger.logit,
        depth=None if explained.traced is None else explained.traced.depth,
    )


def _find_rest(explained: Explanation) -> float:
    """Add up what is at no word: biases (flow), or every entry of the ledger but attention."""
    if explained.traced is not None:
        return float(explained.traced.bias[explained.traced.depth])
    ledger = explained.ledger
    entries = [ledger.embedding, ledger.norm_bias, ledger.unembedding_bias]
    return sum(entries) + float(ledger.attention_bias.sum()) + float(ledger.mlp.sum())


def _pair_all(first: Explanation, second: Explanation) -> list[ScoredPair]:
    """Pair the starts of text, then the words."""
    starts = [("start", each.start) if each.tokens.start else None for each in (first, second)]
    paired = [_pair(*starts, start=True)] if any(starts) else []
    words = [each.words()[each.tokens.start > 0 :] for each in (first, second)]
    return [*paired, *(_pair(one, two) for one, two in _align(*words))]


def _align(first: Sequence[Word], second: Sequence[Word]) -> list[tuple[Word | None, Word | None]]:
    """Align words by place, where there are equally many; otherwise by those that both have, in order."""
    if len(first) == len(second):
        return list(zip(first, second, strict=True))
    texts = [[text for text, _ in words] for words in (first, second)]
    paired: list[tuple[Word | None, Word | None]] = []
    for _, low, high, from_, to in SequenceMatcher(None, texts[0], texts[1], autojunk=False).get_opcodes():
        for place in range(max(high - low, to - from_)):
            own = first[low + place] if low + place < high else None
            other = second[from_ + place] if from_ + place < to else None
            paired.append((own, other))
    return paired


def _pair(one: Word | None, two: Word | None, *, start: bool = False) -> ScoredPair:
    scores = [0.0 if word is None else word[1] for word in (one, two)]
    return ScoredPair(
        first=None if one is None else one[0],
        second=None if two is None else two[0],
        first_score=scores[0],
        second_score=scores[1],
        difference=scores[1] - scores[0],
        start=start,
    )
