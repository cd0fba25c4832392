"""An alignment in the terminal and in files: words of the translation over those of the source, links marked.

All is made from the document; human (gold) links, where it has them, are drawn beside those that were found.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from rich.cells import cell_len
from rich.console import Console
from rich.style import Style
from rich.text import Text

from ..document.kinds import Document
from ..errors import InputError
from .colour import is_dark, seismic
from .html import render_html
from .saving import write_file
from .sentences import name_alignment
from .sheet import write_csv
from .wording import label

__all__ = [
    "ALIGNMENT_FORMATS",
    "add_gold",
    "print_alignment",
    "render_alignment",
    "require_alignment_format",
    "save_alignment",
    "share",
]

_LINK = "●"


def share(document: Document) -> list[list[float]]:
    """Give scores between −1 and 1: as shares of the largest of their row."""
    shares = []
    for row in document["scores"]:
        largest = max(map(abs, row), default=0.0) or 1.0
        shares.append([value / largest for value in row])
    return shares


def print_alignment(document: Document, console: Console) -> None:
    """Print the heat map where it fits, and the links as words."""
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
                text.append(mark, style=_ground(value) if colour else "not bold")
        linked = ", ".join(source[own] for own, other in document["links"] if other == place)
        text.append(f"  {linked}\n", style="not bold")
    listed = "  ".join(f"{index} {word}" for index, word in enumerate(source, 1))
    return text.append(f"\n{listed}" if fits else "", style="not bold dim")


def _ground(value: float) -> Style:
    colour = seismic(value * 0.5)
    red, green, blue = (round(255 * part) for part in colour)
    ink = "white" if is_dark(colour) else "black"
    return Style(bold=False, color=ink, bgcolor=f"rgb({red},{green},{blue})")


def add_gold(
    document: Document, sure: Collection[Sequence[int]], possible: Collection[Sequence[int]] = ()
) -> Document:
    """Give the document with human links, which its report frames."""
    gold = {"sure": sorted(map(list, sure)), "possible": sorted(map(list, possible))}
    return {**document, "gold": gold}


def _render_csv(document: Document) -> str:
    """Give the scores: a row for each word of the translation, a column for each word of the source."""
    rows = [[word, *row] for word, row in zip(document["target"], document["scores"], strict=True)]
    return write_csv([["", *document["source"]], *rows])


def _plot(form: str) -> Callable[[Document], bytes]:
    def plot(document: Document) -> bytes:
        from .alignment_plots import plot_alignments

        return plot_alignments([document], form)

    return plot


def _links(base: int) -> Callable[[Document], str]:
    return lambda document: (
        " ".join(f"{own + base}-{other + base}" for own, other in document["links"]) + "\n"
    )


ALIGNMENT_FORMATS: Mapping[str, Callable[[Document], str | bytes]] = {
    ".json": lambda document: json.dumps(document, ensure_ascii=False) + "\n",
    ".html": lambda document: render_html([document]),
    ".png": _plot("png"),
    ".svg": _plot("svg"),
    ".csv": _render_csv,
    ".talp": _links(1),
    ".pharaoh": _links(0),
}


def require_alignment_format(path: str | Path) -> Path:
    """Refuse a name whose ending is not known, before anything is computed for it."""
    path = Path(path)
    if path.suffix.lower() not in ALIGNMENT_FORMATS:
        raise InputError(
            f"{path.name!r} does not end in a known format.",
            f"Known endings: {', '.join(ALIGNMENT_FORMATS)}.",
        )
    if path.suffix.lower() in (".png", ".svg"):
        from .plots import require_plots

        require_plots()
    if not path.parent.is_dir():
        raise InputError(f"There is no folder {path.parent}.", "Make it first, or save somewhere else.")
    return path


def save_alignment(document: Document, path: str | Path) -> None:
    """Write an alignment to a file, by the ending of its name."""
    path = require_alignment_format(path)
    write_file(path, ALIGNMENT_FORMATS[path.suffix.lower()](document))
