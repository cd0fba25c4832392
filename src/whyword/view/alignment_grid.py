"""An alignment in the terminal and in files: words of the translation over those of the source, links marked.

All is made from the document; human (gold) links, where it has them, are drawn beside those that were found.
"""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from ..document.kinds import Document
from ..errors import InputError
from .data_frames import frame_of
from .sentences import name_alignment
from .sheet import write_csv
from .terminal_colour import colouring, paint_ground
from .wording import label

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = [
    "add_gold",
    "make_alignment_frame",
    "print_alignment",
    "render_alignment",
    "render_alignment_csv",
    "render_pharaoh",
    "render_talp",
    "share",
]

_LINK = "●"


def share(document: Document) -> list[list[float]]:
    """Return scores between −1 and 1: as shares of the largest of their row."""
    shares = []
    for row in document["scores"]:
        largest = max(map(abs, row), default=0.0) or 1.0
        shares.append([value / largest for value in row])
    return shares


def print_alignment(
    document: Document, console: Console, by: str | None = None, top: int | None = None
) -> None:
    """Print the heat map where it fits, and the links as words; there is one way to show them all."""
    if by is not None or top is not None:
        raise InputError("by or top was given.", "An alignment is shown whole: leave them out.")
    with colouring(console):
        console.print(render_alignment(document, console.width, colour=console.color_system is not None))


def render_alignment(document: Document, width: int, *, colour: bool) -> Text:
    """Render an alignment for a terminal of some width: columns are numbered words of the source."""
    source, target = [[label(word) for word in document[side]] for side in ("source", "target")]
    text = Text(f"{name_alignment(document)}\n\n", style="bold")
    if not source or not target:
        return text.append("nothing to align", style="default")
    links = {(own, other) for own, other in document["links"]}
    margin = min(24, max(map(cell_len, target)))
    fits = margin + 1 + 3 * len(source) <= width
    if fits:
        numbers = "".join(f"{index:>3}" for index in range(1, len(source) + 1))
        text.append(f"{'':>{margin}} {numbers}\n", style="not bold dim")
    for place, (word, row) in enumerate(zip(target, share(document), strict=True)):
        shown = word if cell_len(word) <= margin else word[: margin - 1] + "…"
        text.append(" " * (margin - cell_len(shown)) + shown, style="not bold")
        if fits:
            text.append(" ")
            for index, value in enumerate(row):
                mark = f" {_LINK} " if (index, place) in links else "   "
                text.append(mark, style=(paint_ground(value, 1.0) if colour else None) or "not bold")
        linked = ", ".join(source[own] for own, other in document["links"] if other == place)
        text.append(f"  {linked}\n", style="not bold")
    listed = "  ".join(f"{index} {word}" for index, word in enumerate(source, 1))
    return text.append(f"\n{listed}" if fits else "", style="not bold dim")


def add_gold(
    document: Document, sure: Collection[Sequence[int]], possible: Collection[Sequence[int]] = ()
) -> Document:
    """Return the document with human links, which its report frames."""
    gold = {"sure": sorted(map(list, sure)), "possible": sorted(map(list, possible))}
    return {**document, "gold": gold}


def render_alignment_csv(document: Document) -> str:
    """Return the scores: a row for each word of the translation, a column for each word of the source."""
    rows = [[word, *row] for word, row in zip(document["target"], document["scores"], strict=True)]
    return write_csv([["", *document["source"]], *rows])


def make_alignment_frame(document: Document) -> "DataFrame":
    """Return a data frame (pandas): a row for every pair of words, its score, whether it is linked."""
    links = {(own, other) for own, other in document["links"]}
    return frame_of(
        [
            {"target": word, "source": other, "score": score, "linked": (index, place) in links}
            for place, (word, row) in enumerate(zip(document["target"], document["scores"], strict=True))
            for index, (other, score) in enumerate(zip(document["source"], row, strict=True))
        ]
    )


def render_talp(document: Document) -> str:
    """Return the links as a line of a talp file: words counted from 1."""
    return _write_links(document, 1)


def render_pharaoh(document: Document) -> str:
    """Return the links as a line of a pharaoh file: words counted from 0."""
    return _write_links(document, 0)


def _write_links(document: Document, base: int) -> str:
    return " ".join(f"{own + base}-{other + base}" for own, other in document["links"]) + "\n"
