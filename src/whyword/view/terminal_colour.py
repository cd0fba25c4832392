"""The colour of a number in the terminal: red raises, blue lowers, and stronger numbers stand out more.

A number is painted by the name of a style; what the name means depends on how many colours the terminal has
and on its background, and is said when it prints. On a dark background colours begin dark, on a light one
pale. Where the background is not known, weak numbers have coloured text, and strong ones a background that
stands out as much from black as from white.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import ceil

from rich.color import Color
from rich.console import Console
from rich.style import Style
from rich.theme import Theme

from .colour import Colour, blend

__all__ = ["LEVELS", "colouring", "find_background", "make_styles", "paint_ground"]

LEVELS = 12
"""How many strengths are told apart in 24-bit colour."""
_FAINT = 0.02
"""The share of the strongest number up to which a number has no colour."""
_SIGNS = ("raises", "lowers")
_RAMPS: Mapping[str, Mapping[str, tuple[Colour, Colour]]] = {
    "dark": {
        "raises": ((0.17, 0.06, 0.06), (0.84, 0.15, 0.15)),
        "lowers": ((0.05, 0.08, 0.20), (0.20, 0.39, 0.94)),
    },
    "light": {
        "raises": ((1.0, 0.93, 0.93), (0.78, 0.0, 0.03)),
        "lowers": ((0.92, 0.94, 1.0), (0.09, 0.24, 0.80)),
    },
    "unknown": {
        "raises": ((0.50, 0.37, 0.37), (0.80, 0.12, 0.12)),
        "lowers": ((0.37, 0.40, 0.50), (0.20, 0.38, 0.92)),
    },
}
"""The background of the weakest and of the strongest number, in 24-bit colour."""
_CUBE: Mapping[str, Mapping[str, tuple[int, ...]]] = {
    "dark": {"raises": (52, 88, 124, 160, 196), "lowers": (17, 18, 19, 26, 27)},
    "light": {"raises": (224, 217, 210, 203, 160), "lowers": (189, 153, 111, 69, 26)},
    "unknown": {"raises": (167, 167, 160, 160), "lowers": (68, 68, 26, 26)},
}
"""The same of 256 colours, from weak to strong."""
_NAMES = {"dark": ("bright_red", "bright_blue"), "light": ("red", "blue"), "unknown": ("red", "blue")}
"""The text of weaker numbers in 16 colours."""
_COARSE = (0.15, 0.4, 0.75)
"""Where text becomes bold, then a background, then bold on it, in few colours."""


def paint_ground(value: float | None, largest: float) -> str | None:
    """Name the style of a number; none near zero. `colouring` says what the names mean."""
    share = (value or 0.0) / (largest or 1.0)
    if abs(share) < _FAINT:
        return None
    return f"{_SIGNS[share < 0]}.{max(1, ceil(min(1.0, abs(share)) * LEVELS))}"


@contextmanager
def colouring(console: Console) -> Iterator[None]:
    """Give the styles of numbers their colours, for a console and its background."""
    system = console.color_system
    styles = {} if system is None else make_styles(system, find_background(os.environ))
    with console.use_theme(Theme(styles)):
        yield


def find_background(environment: Mapping[str, str]) -> str:
    """Tell the background of a terminal, by WHYWORD_BACKGROUND or by what terminals say in COLORFGBG."""
    own = environment.get("WHYWORD_BACKGROUND", "").lower()
    if own in ("dark", "light"):
        return own
    last = environment.get("COLORFGBG", "").split(";")[-1]
    if not last.isdigit():
        return "unknown"
    return "light" if int(last) in (7, *range(9, 16)) else "dark"


def make_styles(system: str, background: str) -> dict[str, Style]:
    """Give the style of every strength of either sign, for "truecolor", "256" or fewer colours."""
    make = {"truecolor": _style_in_full, "256": _style_in_cube}.get(system, _style_in_few)
    return {
        f"{sign}.{level}": make(sign, level / LEVELS, background)
        for sign in _SIGNS
        for level in range(1, LEVELS + 1)
    }


def _style_in_full(sign: str, share: float, background: str) -> Style:
    weak, strong = _RAMPS[background][sign]
    if background == "unknown" and share <= _COARSE[0]:
        return Style(color=_write(strong))
    ground = blend(weak, strong, share)
    return Style(color="#000000" if _is_bright(ground) else "#ffffff", bgcolor=_write(ground))


def _style_in_cube(sign: str, share: float, background: str) -> Style:
    colours = _CUBE[background][sign]
    if background == "unknown":
        step = sum(share > edge for edge in _COARSE)
        text = Style(color=f"color({colours[step]})", bold=step == 1)
        ground = Style(color="color(231)", bgcolor=f"color({colours[step]})", bold=step == 3)
        return text if step < 2 else ground
    number = colours[ceil(share * len(colours)) - 1]
    red, green, blue = (channel / 255 for channel in Color.from_ansi(number).get_truecolor())
    ink = "color(16)" if _is_bright((red, green, blue)) else "color(231)"
    return Style(color=ink, bgcolor=f"color({number})")


def _style_in_few(sign: str, share: float, background: str) -> Style:
    step = sum(share > edge for edge in _COARSE)
    if step < 2:
        return Style(color=_NAMES[background][_SIGNS.index(sign)], bold=step == 1)
    return Style(color="bright_white", bgcolor=("red", "blue")[_SIGNS.index(sign)], bold=step == 3)


def _is_bright(colour: Colour) -> bool:
    """Say whether black can be read better than white on a colour."""
    red, green, blue = (channel**2.2 for channel in colour)
    luminance: float = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    return luminance > 0.179


def _write(colour: Colour) -> str:
    return "#" + "".join(f"{round(255 * channel):02x}" for channel in colour)
