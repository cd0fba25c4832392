"""Numbers as bars on both sides of zero, one line each, in the terminal."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from .wording import signed

__all__ = ["Bar", "cut_cells", "draw_bars", "measure_names", "write_number"]

_LONGEST = 48
"""Cells of all bars together; half as many where a text follows them."""
_AROUND = 12
"""Cells of a line that are neither name nor bar: the number and spaces."""
_HARDLY = 0.01
"""The part of the largest number below which one has no bar."""


@dataclass(frozen=True)
class Bar:
    """One line."""

    name: str
    value: float
    apart: bool = False
    """Whether it is of another kind than those around it: start, biases, what is not traced to words."""
    said: str = ""
    """What is written after the bar, as far as it fits."""


def measure_names(bars: Sequence[Bar], widest: int) -> int:
    """Count the cells of the longest name, or of the widest that is shown whole."""
    return min(widest, max(cell_len(bar.name) for bar in bars))


def draw_bars(
    bars: Sequence[Bar], width: int, widest: int, *, numbers: bool, adds_up: bool = True
) -> Iterator[Text]:
    """Draw a line for each: name, number, bar, text; `numbers`: there are no colours to tell signs apart."""
    names, largest = measure_names(bars, widest), max(abs(bar.value) for bar in bars) or 1.0
    lowest, highest = min(0.0, *(bar.value for bar in bars)), max(0.0, *(bar.value for bar in bars))
    said = any(bar.said for bar in bars)
    room = max(8, min(_LONGEST, width - names - _AROUND) // (2 if said else 1))
    scale = room / ((highest - lowest) or 1.0)
    left = round(-lowest * scale)
    for bar in bars:
        size = max(1 if abs(bar.value) > _HARDLY * largest else 0, round(abs(bar.value) * scale))
        block, style = ("▇", "red") if bar.value > 0 else ("░" if numbers else "▇", "blue")
        line = Text(cut_cells(bar.name, names) + "  ", no_wrap=True, overflow="crop")
        line.stylize("dim" if bar.apart else "")
        line.append(write_number(bar.value, adds_up).rjust(7) + "  ")
        line.append(" " * (left if bar.value > 0 else max(0, left - size))).append(block * size, style=style)
        reached = names + _AROUND + room + 2
        if bar.said and width - reached > _AROUND:
            line.append(" " * (reached - cell_len(line.plain)))
            line.append(cut_cells(bar.said, min(width - reached, cell_len(bar.said))), style="dim")
        yield line


def write_number(value: float, adds_up: bool = True) -> str:
    """Write a signed number; scores that do not add up may be very small."""
    return signed(value) if adds_up or abs(value) >= 0.01 else f"{value:+.1e}"


def cut_cells(text: str, room: int) -> str:
    """Cut a text to some cells, or fill it up to them."""
    return set_cell_size(text, room) if cell_len(text) <= room else set_cell_size(text, room - 1) + "…"
