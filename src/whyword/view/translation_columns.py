"""Tokens of the source or the translation as columns and rows: alone, or by word."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .wording import label

__all__ = ["Groups", "group_tokens"]

Groups = list[tuple[str, list[int]]]
"""Columns or rows, as they are shown, with the tokens that each stands for."""


def group_tokens(side: Mapping[str, Any], places: Iterable[int], by: str) -> Groups:
    """Group tokens by word, or leave each alone."""
    tokens, groups = side["tokens"], dict[int, list[int]]()
    for place in places:
        groups.setdefault(tokens[place]["word"] if by == "word" else place, []).append(place)
    return [(_name(side["text"], [tokens[place] for place in own]), own) for own in groups.values()]


def _name(text: str, tokens: Sequence[Mapping[str, Any]]) -> str:
    """Name a group by the text that it covers."""
    if tokens[0]["special"] or len(tokens) == 1:
        return label(tokens[0]["text"])
    return label(text[tokens[0]["start"] : max(token["end"] for token in tokens)])
