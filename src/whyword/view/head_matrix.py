"""Blocks × heads: what every head adds, as a heat map in the terminal and as a picture."""

from collections.abc import Sequence

from rich.text import Text

from ..document.kinds import SURVEY_SCHEMA, Document
from .terminal_colour import paint_ground
from .wording import signed

__all__ = ["list_matrices", "render_matrix", "sum_heads"]

Matrix = Sequence[Sequence[float]]
_NUMBER = 6
"""Cells of a number and the space after it."""
_NARROW = 3
_FAINT = 0.1
"""The share of the largest number below which a head without colour is a dot."""


def sum_heads(document: Document) -> list[list[float]]:
    """Return what every head of every block of an explanation adds, all tokens together."""
    return [[sum(values) for values in heads] for heads in document["by_head"]]


def list_matrices(document: Document) -> list[tuple[str, list[list[float]]]]:
    """List the heat maps of a document: that of an explanation, or one for every group of a survey."""
    if document["schema"] == SURVEY_SCHEMA:
        return [(group["name"], group["update"]) for group in document["groups"]]
    return [("", sum_heads(document))]


def render_matrix(matrix: Matrix, width: int, *, numbers: bool) -> list[Text]:
    """Render blocks (last on top) × heads; with numbers where they fit, else as colours or signs."""
    largest = max(abs(value) for row in matrix for value in row) or 1.0
    heads = max(map(len, matrix))
    wide = 6 + heads * _NUMBER <= width
    size = _NUMBER if wide else _NARROW
    names = "".join(str(head + 1).rjust(size) for head in range(heads))
    lines = [Text(f"block{names}  head", style="dim", no_wrap=True, overflow="crop")]
    for block in reversed(range(len(matrix))):
        line = Text(str(block + 1).rjust(5), no_wrap=True, overflow="crop")
        for value in matrix[block]:
            ground = None if numbers else paint_ground(value, largest)
            line.append(" ")
            line.append(_cell(value, largest, wide, numbers).rjust(size - 1), style=ground or "")
        lines.append(line)
    return lines


def _cell(value: float, largest: float, wide: bool, numbers: bool) -> str:
    if wide:
        shown = signed(value).strip()
        return "·" if shown == "0.00" else shown
    if not numbers:
        return ""
    return "·" if abs(value) < _FAINT * largest else "+" if value > 0 else "−"
