"""What every picture of a translation shows: explained words or tokens over those of source and prefix."""

from collections.abc import Sequence
from typing import Any

from ..attribute.methods import TRANSLATION_METHODS, measure_of
from ..document.kinds import Document, read_measure
from ..errors import InputError
from .grid import Grid, Row
from .translation_columns import Groups, group_tokens
from .translation_depths import lay_out_translation_depths

__all__ = ["TRANSLATION_VIEWS", "at_block", "lay_out_translation"]

TRANSLATION_VIEWS = ("word", "token", "depth")
FLAG = "⚑"


def at_block(document: Document, block: int | None) -> Document:
    """Return the document with the numbers of one decoder block, counted from 1; None: of all together."""
    if block is None:
        return document
    if not read_measure(document).by_block:
        having = [name for name in TRANSLATION_METHODS if measure_of(name).by_block]
        raise InputError(
            f"block is {block}, but {document['method']} has no blocks.",
            f"Methods that have: {', '.join(having)}.",
        )
    blocks = len(document["by_block"])
    if not 1 <= block <= blocks:
        raise InputError(f"block is {block}.", f"{document['model']} has decoder blocks 1 to {blocks}.")
    return {**document, "scores": document["by_block"][block - 1], "block": block}


def lay_out_translation(document: Document, by: str = "word", top: int | None = None) -> Grid:
    """Lay out a translation by word, token or depth; `top`: only the N strongest columns, or N depths."""
    if by not in TRANSLATION_VIEWS:
        raise InputError(f"by is {by!r}.", f"A translation is shown by {', '.join(TRANSLATION_VIEWS)}.")
    if by == "depth":
        return lay_out_translation_depths(document, top)
    if top is not None and top < 1:
        raise InputError(f"top is {top}.", "Show at least one.")
    first, source = document["first"], document["source"]["tokens"]
    sources = group_tokens(document["source"], range(len(source)), by)
    prefix = group_tokens(document["target"], range(len(document["target"]["tokens"]) - 1), by)
    columns = [*sources, *((name, [len(source) + place for place in own]) for name, own in prefix)]
    explained = group_tokens(document["target"], range(first, len(document["target"]["tokens"])), by)
    rows = [
        Row(
            name,
            _add_up(document["scores"], [place - first for place in own], columns),
            note=_note(document, own),
        )
        for name, own in explained
    ]
    sums = [sum(row.values[place] or 0.0 for row in rows) for place in range(len(columns))]
    names = tuple(name for name, _ in columns)
    grid = Grid(by, names, tuple(rows), Row("sum", tuple(sums)), split=len(sources))
    if top is None:
        return grid
    strength = [max(abs(row.values[place] or 0.0) for row in rows) for place in range(len(columns))]
    return grid.pick(sorted(sorted(range(len(columns)), key=lambda place: -strength[place])[:top]))


def _add_up(scores: Any, rows: Sequence[int], columns: Groups) -> tuple[float | None, ...]:
    """Add up the numbers of some explained tokens by column; None where none of them could see it."""
    values: list[float | None] = []
    for _, own in columns:
        seen = [scores[row][place] for row in rows for place in own if scores[row][place] is not None]
        values.append(sum(seen) if seen else None)
    return tuple(values)


def _note(document: Document, places: Sequence[int]) -> str:
    """Write the source share of some explained tokens, their mean, with a flag where one is flagged."""
    shares = document["source_shares"]
    if shares is None:
        return ""
    own = [place - document["first"] for place in places]
    mean = sum(shares[place] for place in own) / len(own)
    flag = f" {FLAG}" if any(place in document["flagged"] for place in own) else ""
    return f"{100 * mean:.0f} %{flag}"
