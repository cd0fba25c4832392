"""Scores by part of the prompt: sums over tokens, so they add up like tokens do; and their JSON document."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from annotated_types import MinLen
from jaxtyping import Float
from torch import Tensor

from ..attribute.flow import Flow
from ..attribute.methods import Measure
from ..document.kinds import PARTS_SCHEMA
from ..errors import InputError
from ..ledger import Ledger
from ..tokens import Tokens
from ..tokens.segments import trim_span
from ..view.sentences import worded
from .prediction import Choice
from .shown import Shown
from .token_groups import ANSWERED, START, UNITS, Group, gather, group_tokens

__all__ = ["Divisible", "PartScore", "PromptParts", "ScoredParts"]


@dataclass(frozen=True)
class PartScore:
    """One part of a prompt, and its score."""

    name: str
    """Such as `documents[0]`, "sentence 2", "turn 1 (user)"; "start": the start of text."""
    text: str
    """What it says."""
    start: int
    """Index of its first character in the prompt."""
    end: int
    """Index after its last character."""
    tokens: int
    """How many tokens it has."""
    score: float
    """The sum of its tokens' scores."""


@dataclass(frozen=True, kw_only=True)
class ScoredParts(Shown):
    """What all scores of parts by one method say of themselves."""

    model: str
    """The model's name."""
    method: str
    """The name of the method."""
    measure: Measure
    """What the scores are."""

    @worded
    def to_dict(self) -> dict[str, Any]:
        """Give the JSON document."""
        return super().to_dict()


@dataclass(frozen=True, kw_only=True)
class PromptParts(ScoredParts):
    """How much every part of a prompt raised or lowered one logit, or one difference of logits."""

    schema: ClassVar[str] = PARTS_SCHEMA
    by: str
    """What the prompt was divided into: word, sentence, line, paragraph, turn, part or span."""
    text: str
    """The prompt."""
    target: Choice
    """The token that is explained."""
    foils: tuple[Choice, ...]
    """What it is contrasted with; none: its logit itself is explained."""
    parts: Annotated[tuple[PartScore, ...], MinLen(1)]
    """In the order of the prompt."""
    logit: float
    """The model's own logit, or difference of logits."""
    bias: float | None = None
    """What is at no token, because biases add it; None for methods that do not say."""

    def __len__(self) -> int:
        return len(self.parts)

    def __getitem__(self, name: str) -> float:
        """Give the score of a part by its name."""
        for part in self.parts:
            if part.name == name:
                return part.score
        raise InputError(f"There is no part {name!r}.", f"Parts: {', '.join(self.names)}.")

    @property
    def names(self) -> tuple[str, ...]:
        """The name of every part, in the order of the prompt."""
        return tuple(part.name for part in self.parts)

    @property
    def texts(self) -> tuple[str, ...]:
        """What every part says."""
        return tuple(part.text for part in self.parts)

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """Where every part is in the prompt, in characters."""
        return tuple((part.start, part.end) for part in self.parts)

    @property
    def scores(self) -> tuple[float, ...]:
        """The score of every part."""
        return tuple(part.score for part in self.parts)


class Divisible:
    """What has scores of tokens, and gives them by larger parts of the prompt."""

    model: str
    method: str
    tokens: Tokens
    target: Choice
    foils: tuple[Choice, ...]
    ledger: Ledger
    traced: Flow | None

    @property
    def measure(self) -> Measure:
        """What the scores are."""
        raise NotImplementedError

    @property
    def scores(self) -> Float[Tensor, " token"]:
        """One number per token."""
        raise NotImplementedError

    def by(self, unit: str | None = None, *, spans: Mapping[str, Any] | None = None) -> PromptParts:
        """Give the score of every part of the prompt: the sum over its tokens.

        `unit`: word, sentence, line, paragraph, turn (of a chat) or part (of what `fill` gives). Instead of
        it, `spans`: characters of `text` by name, such as {"doc 1": (0, 812)}.
        """
        if (unit is None) == (spans is None):
            raise InputError(
                f"by is {unit!r} and spans is {spans!r}.", f"Pass one of them; by: {', '.join(UNITS)}."
            )
        return self.divide(spans if unit is None else unit)

    def divide(self, parts: str | Mapping[str, Any] | None, prompt: int | None = None) -> PromptParts:
        """Do the same; `parts`: a unit, or spans. Tokens from index `prompt` on are the answer so far."""
        assert parts is not None
        by, groups = group_tokens(self.tokens.first(prompt or len(self.tokens)), parts)
        groups += [(ANSWERED, ANSWERED)] * (len(self.tokens) - len(groups))
        return PromptParts(
            model=self.model,
            method=self.method,
            measure=self.measure,
            by=by,
            text=self.tokens.text,
            target=self.target,
            foils=self.foils,
            parts=_add_up(self.tokens, self.scores.double().tolist(), groups),
            logit=self.ledger.logit,
            bias=None if self.traced is None else float(self.traced.bias[self.traced.depth]),
        )

    def list_words(self, parts: str | Mapping[str, Any], prompt: int) -> list[tuple[int, PartScore]]:
        """List the words of the prompt, each with the index of its part: they add up to the score of that."""
        tokens = self.tokens.first(prompt)
        groups = group_tokens(tokens, parts)[1]
        words = [((group, token.word), "") for group, token in zip(groups, tokens, strict=False)]
        order = list(gather(groups))
        parts_of_words = [order.index(group) for (group, _), _ in gather(words)]
        return list(zip(parts_of_words, _add_up(tokens, self.scores.double().tolist(), words), strict=True))


def _add_up(tokens: Tokens, scores: Sequence[float], groups: Sequence[Group]) -> tuple[PartScore, ...]:
    """Add up scores by group; groups come in the order of their first tokens."""
    parts = []
    for (_, name), places in gather(groups).items():
        own = [tokens[place] for place in places]
        start, end = trim_span(tokens.text, min(t.start for t in own), max(t.end for t in own))
        whole = places[-1] - places[0] + 1 == len(places)
        text = tokens.text[start:end] if whole else " … ".join(_stretches(tokens, places))
        text = "".join(token.text for token in own) if name == START else text
        parts.append(
            PartScore(name or text, text, start, end, len(own), sum(scores[place] for place in places))
        )
    return tuple(parts)


def _stretches(tokens: Tokens, places: Sequence[int]) -> list[str]:
    """Give the stretches of text that some tokens, with others between them, stand for."""
    runs: list[list[int]] = []
    for place in places:
        if runs and place == runs[-1][-1] + 1:
            runs[-1].append(place)
        else:
            runs.append([place])
    texts = [tokens.text[tokens[run[0]].start : tokens[run[-1]].end].strip() for run in runs]
    return [text for text in texts if text]
