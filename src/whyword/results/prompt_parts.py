"""Scores by part of the prompt: sums over tokens, so they add up like tokens do; and their JSON document."""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from annotated_types import MinLen
from jaxtyping import Float
from torch import Tensor

from ..ask.filled_prompt import TEMPLATE
from ..attribute.flow import Flow
from ..attribute.methods import Measure
from ..document.kinds import PARTS_SCHEMA
from ..errors import InputError
from ..ledger import Ledger
from ..tokens import Tokens
from ..tokens.segments import SPLITTERS, Segment, find_segment, name_spans, split_text, trim_span
from ..view.sentences import worded
from .prediction import Choice
from .shown import Shown

__all__ = [
    "ANSWERED",
    "ELSEWHERE",
    "START",
    "UNITS",
    "Divisible",
    "PartScore",
    "PromptParts",
    "ScoredParts",
    "list_parts",
]

START = "start"
"""What the start of text is called."""
ANSWERED = "answer so far"
"""What the tokens of an answer are called that come before those that are explained."""
ELSEWHERE = "elsewhere"
"""What tokens in no named span are called."""
UNITS = ("word", *SPLITTERS, "turn", "part")
"""What a prompt can be divided into."""


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
        by, groups = _group_tokens(self.tokens.first(prompt or len(self.tokens)), parts)
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
        groups = _group_tokens(tokens, parts)[1]
        words = [((group, token.word), "") for group, token in zip(groups, tokens, strict=False)]
        order = list(_gather(groups))
        parts_of_words = [order.index(group) for (group, _), _ in _gather(words)]
        return list(zip(parts_of_words, _add_up(tokens, self.scores.double().tolist(), words), strict=True))


Group = tuple[Any, str]
"""What tokens of one part have in common, and its name; "" is named by its text."""


def _group_tokens(tokens: Tokens, parts: str | Mapping[str, Any]) -> tuple[str, list[Group]]:
    """Say which part every token is in, and what the prompt was divided into: a unit, or spans by name."""
    if not isinstance(parts, str):
        by, groups = "span", _group_spans(tokens, name_spans(tokens.text, parts))
    elif parts in SPLITTERS:
        by, groups = parts, _group_stretches(tokens, parts)
    elif parts in _GROUPED:
        by, groups = parts, _GROUPED[parts](tokens)
    else:
        raise InputError(f"by is {parts!r}.", f"A prompt is divided by {', '.join(UNITS)}, or by spans=….")
    return by, [(START, START)] * tokens.start + groups[tokens.start :]


def list_parts(tokens: Tokens, parts: str | Mapping[str, Any]) -> list[frozenset[int]]:
    """List the positions of every part of a prompt; `parts`: a unit of `UNITS`, or spans by name."""
    _, groups = _group_tokens(tokens, parts)
    return [frozenset(places) for places in _gather(groups).values()]


def _gather(groups: Sequence[Group]) -> dict[Group, list[int]]:
    """List the positions of every group, in the order of their first tokens."""
    members: dict[Group, list[int]] = {}
    for place, group in enumerate(groups):
        members.setdefault(group, []).append(place)
    return members


def _group_words(tokens: Tokens) -> list[Group]:
    return [(token.word, "") for token in tokens]


def _group_spans(tokens: Tokens, segments: Sequence[Segment]) -> list[Group]:
    """Put tokens where their first visible character is, which may be elsewhere."""
    groups: list[Group] = []
    for token in tokens:
        index = find_segment(segments, token.start)
        groups.append((ELSEWHERE, ELSEWHERE) if index is None else (index, segments[index].name))
    return groups


def _group_stretches(tokens: Tokens, unit: str) -> list[Group]:
    """Put tokens into sentences, lines or paragraphs; spaces and line breaks go to what is before them."""
    segments = split_text(tokens.text, unit) or (Segment(f"{unit} 1", 0, len(tokens.text)),)
    starts = [segment.start for segment in segments]
    places = [max(0, bisect_right(starts, token.start) - 1) for token in tokens]
    return [(place, segments[place].name) for place in places]


def _group_turns(tokens: Tokens) -> list[Group]:
    if all(token.turn is None for token in tokens):
        raise InputError(
            "The prompt has no chat turns.",
            "Pass chat messages: explain(model, [{'role': 'user', 'content': '…'}]).",
        )
    return [
        (TEMPLATE, TEMPLATE) if token.turn is None else (token.turn, f"turn {token.turn + 1} ({token.role})")
        for token in tokens
    ]


def _group_parts(tokens: Tokens) -> list[Group]:
    if all(token.part is None for token in tokens):
        raise InputError(
            "The prompt has no named parts.",
            'Make it with whyword.fill("… {question} …", question="…"), or pass spans={name: (start, end)}.',
        )
    return [(token.part or TEMPLATE, token.part or TEMPLATE) for token in tokens]


_GROUPED: Mapping[str, Callable[[Tokens], list[Group]]] = {
    "word": _group_words,
    "turn": _group_turns,
    "part": _group_parts,
}
"""What the tokens themselves know of."""


def _add_up(tokens: Tokens, scores: Sequence[float], groups: Sequence[Group]) -> tuple[PartScore, ...]:
    """Add up scores by group; groups come in the order of their first tokens."""
    parts = []
    for (_, name), places in _gather(groups).items():
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
