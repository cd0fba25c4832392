"""Fonts of pictures: a list to fall back on for many scripts, and a warning where none has a character."""

import logging
import re
import unicodedata
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import Any

__all__ = ["drawing", "write_figure"]

_FONTS = (
    "Noto Sans",
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Noto Sans CJK KR",
    "WenQuanYi Zen Hei",
    "PingFang SC",
    "Hiragino Sans",
    "Apple SD Gothic Neo",
    "Microsoft YaHei",
    "Yu Gothic",
    "Malgun Gothic",
    "Noto Sans Arabic",
    "Noto Naskh Arabic",
    "Noto Sans Hebrew",
    "Noto Sans Devanagari",
    "Nirmala UI",
    "Noto Sans Bengali",
    "Noto Sans Tamil",
    "Noto Sans Telugu",
    "Noto Sans Thai",
    "Leelawadee UI",
    "Noto Sans Ethiopic",
    "Noto Sans Georgian",
    "Noto Sans Armenian",
    "Noto Emoji",
    "Symbola",
    "Segoe UI Symbol",
    "Arial Unicode MS",
    "FreeSerif",
)
"""Fonts with characters that matplotlib's own lacks, of several systems."""
_PACKAGES = {
    "CJK": "fonts-noto-cjk",
    "HIRAGANA": "fonts-noto-cjk",
    "KATAKANA": "fonts-noto-cjk",
    "HANGUL": "fonts-noto-cjk",
    "IDEOGRAPHIC": "fonts-noto-cjk",
    "FULLWIDTH": "fonts-noto-cjk",
}
"""Packages of Debian and Ubuntu by the first word of a character's name."""
_OTHERS = "fonts-noto-core"
_MISSING = re.compile(r"Glyph (\d+)")
_LOOKED_AT: set[str] = set()
"""Files of fonts that were added, or that cannot be read."""
logger = logging.getLogger(__name__)


@contextmanager
def drawing() -> Iterator[None]:
    """Set that text stays text in an SVG, and that the same document gives the same bytes.

    That a font for another script has no weight of its own is nothing that a reader could mend.
    """
    from matplotlib import rc_context

    settings = {"svg.fonttype": "none", "svg.hashsalt": "whyword", "text.parse_math": False}
    own = logging.getLogger("matplotlib.font_manager")
    own.addFilter(_is_no_weight)
    try:
        with rc_context({**settings, "font.family": _list_fonts()}):
            yield
    finally:
        own.removeFilter(_is_no_weight)


def _is_no_weight(record: logging.LogRecord) -> bool:
    return "Failed to find font weight" not in record.getMessage()


def _list_fonts() -> list[str]:
    """Name fonts that are installed, for scripts that matplotlib's own lacks."""
    from matplotlib.font_manager import get_font_names

    installed = set(get_font_names())
    return ["DejaVu Sans", *(name for name in _FONTS if name in installed)]


def find_new_fonts() -> bool:
    """Add fonts that were installed after matplotlib made its list; say whether there are any.

    matplotlib keeps that list in a file and does not look again: Chinese stays boxes though a font is there.
    """
    from matplotlib.font_manager import findSystemFonts, fontManager

    known = {font.fname for font in fontManager.ttflist}
    new = [path for path in findSystemFonts() if path not in known and path not in _LOOKED_AT]
    _LOOKED_AT.update(new)
    before = len(fontManager.ttflist)
    for path in new:
        try:
            fontManager.addfont(path)
        except Exception as error:  # one that cannot be read is no font for a picture
            logger.debug("%s cannot be read: %s", path, error)
    return len(fontManager.ttflist) > before


def write_figure(figure: Any, form: str) -> bytes:
    """Write a figure; warn of characters that no font has, which are shown as boxes."""
    content, missing = _save(figure, form)
    if missing and form != "svg":  # in an SVG text is text: who shows it chooses the fonts
        if find_new_fonts():
            _set_fonts(figure, _list_fonts())
            content, missing = _save(figure, form)
        if missing:
            logger.warning(warn_of_boxes(missing))
    return content


def _save(figure: Any, form: str) -> tuple[bytes, list[str]]:
    """Write a figure, and list the characters that no font has."""
    file = BytesIO()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        figure.savefig(file, format=form, metadata={"Date": None} if form == "svg" else None)
    missing: dict[str, None] = {}
    for each in caught:
        found = _MISSING.match(str(each.message))
        if found is None:
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
        else:
            missing[chr(int(found[1]))] = None
    return file.getvalue(), list(missing)


def _set_fonts(figure: Any, names: list[str]) -> None:
    """Let every text of a figure use the fonts that are there now."""
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        text.set_fontfamily(names)


def warn_of_boxes(characters: list[str]) -> str:
    """Say which characters are boxes, and what to install."""
    packages = dict.fromkeys(map(_find_package, characters))
    shown = " ".join(characters[:8]) + (" …" if len(characters) > 8 else "")
    named = ", ".join(packages)
    return f"No font has {shown}: boxes are drawn. Install one (on Debian and Ubuntu: apt install {named})."


def _find_package(character: str) -> str:
    first = unicodedata.name(character, "").split(" ")[0].split("-")[0]
    return _PACKAGES.get(first, _OTHERS)
