"""Which part of a prompt every token is in: words, sentences, chat turns, named parts, or spans."""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..ask.filled_prompt import TEMPLATE
from ..errors import InputError
from ..tokens import Tokens
from ..tokens.segments import SPLITTERS, Segment, find_segment, name_spans, split_text

__all__ = [
    "ANSWERED",
    "ELSEWHERE",
    "START",
    "UNITS",
    "Group",
    "gather",
    "group_tokens",
    "list_parts",
    "name_parts",
]

START = "start"
"""What the start of text is called."""
ANSWERED = "answer so far"
"""What the tokens of an answer are called that come before those that are explained."""
ELSEWHERE = "elsewhere"
"""What tokens in no named span are called."""
UNITS = ("word", *SPLITTERS, "turn", "part")
"""What a prompt can be divided into."""
Group = tuple[Any, str]
"""What tokens of one part have in common, and its name; "" is named by its text."""


def group_tokens(tokens: Tokens, parts: str | Mapping[str, Any]) -> tuple[str, list[Group]]:
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
    _, groups = group_tokens(tokens, parts)
    return [frozenset(places) for places in gather(groups).values()]


def name_parts(tokens: Tokens, spans: Mapping[str, Any], prompt: int | None = None) -> list[str | None]:
    """Name the part of every token by spans, as `divide` does; the start of text is in none."""
    _, groups = group_tokens(tokens.first(prompt or len(tokens)), spans)
    names = [name for _, name in groups[tokens.start :]]
    return [*[None] * tokens.start, *names, *[ANSWERED] * (len(tokens) - len(groups))]


def gather(groups: Sequence[Group]) -> dict[Group, list[int]]:
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
