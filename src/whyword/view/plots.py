"""Pictures: the heat map of a document as PNG or SVG (needs matplotlib, the extra `plots`)."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from io import BytesIO
from typing import TYPE_CHECKING, Any

from ..document.kinds import Document, is_continuation, is_translation
from ..errors import InputError
from .colour import is_dark, seismic
from .flow_grid import lay_out_depths
from .grid import Grid, Row, lay_out
from .translation_grid import lay_out_translation
from .wording import after, contrast, headline, prediction, proof, share_legend, signed, small_print

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["drawing", "has_plots", "render_depth_plot", "render_plot", "require_plots", "write_figure"]

_CELL = (0.62, 0.26)
"""Width and height of a cell, in inches."""
_OTHER_FONTS = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "WenQuanYi Zen Hei",
    "PingFang SC",
    "Hiragino Sans",
    "Microsoft YaHei",
    "Yu Gothic",
    "Arial Unicode MS",
)
"""Fonts with Chinese and Japanese characters, of several systems."""
_NUMBERED = 40
"""Columns up to which numbers stand in the cells."""


def render_plot(document: Document, form: str) -> bytes:
    """Render the heat map of a document: `form` is "png" or "svg"."""
    require_plots()
    grid = lay_out_translation(document) if is_translation(document) else lay_out(document)
    return _render(document, grid, form)


def render_depth_plot(document: Document, form: str) -> bytes:
    """Render flow as a heat map of depth × token: `form` is "png" or "svg"."""
    require_plots()
    return _render(document, lay_out_depths(document, all_depths=True), form)


def _render(document: Document, grid: Grid, form: str) -> bytes:
    from matplotlib.figure import Figure

    translated = is_translation(document)
    rows, columns = len(grid.every_row), len(grid.columns)
    width = max(6.2, 0.9 + columns * (_CELL[0] if columns <= _NUMBERED else 0.2))
    height = 1.9 + (rows + 0.6) * _CELL[1]
    with drawing():
        figure = Figure(figsize=(width, height), dpi=160, layout="constrained")
        parts = [part for part in (grid.rows, (grid.sum,) if grid.sum else ()) if part]
        heights = [max(1.2, len(part)) for part in parts]
        axes = figure.subplots(len(parts), 1, height_ratios=heights, squeeze=False)
        for (each,), part in zip(axes, parts, strict=True):
            _draw(each, part, grid)
        if len(parts) > 1:
            axes[0, 0].set_xticks([])
        if grid.rows and grid.by != "word":
            name = "token" if is_continuation(document) else grid.by
            axes[0, 0].set_ylabel("word" if translated else name)
        figure.suptitle(_title(document), fontsize=9, x=0.01, ha="left")
        figure.supxlabel(_foot(document, grid), fontsize=6, x=0.01, ha="left")
        return write_figure(figure, form)


@contextmanager
def drawing() -> Iterator[None]:
    """Set that text stays text in an SVG, and that the same document gives the same bytes.

    That a font for another script has no weight of its own is nothing that a reader could mend.
    """
    from matplotlib import rc_context

    settings = {"svg.fonttype": "none", "svg.hashsalt": "whyword", "text.parse_math": False}
    logger = logging.getLogger("matplotlib.font_manager")
    logger.addFilter(_is_no_weight)
    try:
        with rc_context({**settings, "font.family": _fonts()}):
            yield
    finally:
        logger.removeFilter(_is_no_weight)


def _is_no_weight(record: logging.LogRecord) -> bool:
    return "Failed to find font weight" not in record.getMessage()


def _fonts() -> list[str]:
    """Name fonts that are installed, for scripts that matplotlib's own lacks."""
    from matplotlib.font_manager import get_font_names

    installed = set(get_font_names())
    return ["DejaVu Sans", *(name for name in _OTHER_FONTS if name in installed)]


def require_plots() -> None:
    """Refuse before anything is computed where matplotlib is missing."""
    if not has_plots():
        raise InputError(
            "Pictures need matplotlib, which is not installed.", "Install it: pip install matplotlib."
        )


def has_plots() -> bool:
    """Say whether matplotlib is there."""
    return find_spec("matplotlib") is not None


def write_figure(figure: Any, form: str) -> bytes:
    """Write a figure; characters that the font lacks are shown as boxes."""
    file = BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        figure.savefig(file, format=form, metadata={"Date": None} if form == "svg" else None)
    return file.getvalue()


def _title(document: Document) -> str:
    if is_translation(document):
        known = [contrast(document)]
    else:
        known = [] if is_continuation(document) else [prediction(document)]
    return "\n".join([headline(document), *(each for each in known if each), after(document)])


def _foot(document: Document, grid: Grid) -> str:
    proven = [] if is_continuation(document) else [proof(document)]
    legend = share_legend(document) if is_translation(document) else None
    return "\n".join([*small_print(document, grid.unit, grid.by), *([legend] if legend else []), *proven])


def _name(row: Row) -> str:
    return row.label if row.unit is None else f"{row.label}\n{row.unit}"


def _draw(axes: "Axes", rows: tuple[Row, ...], grid: Grid) -> None:
    """Draw rows of cells, with numbers where there is room."""
    shares = [[(value or 0.0) / (grid.scale_of(row) or 1.0) for value in row.values] for row in rows]
    axes.imshow([[seismic(share) for share in row] for row in shares], aspect="auto", interpolation="nearest")
    axes.set_yticks(range(len(rows)), [_name(row) for row in rows], fontsize=7)
    axes.set_xticks(
        range(len(grid.columns)), grid.columns, fontsize=7, rotation=45, ha="right", rotation_mode="anchor"
    )
    axes.tick_params(length=0)
    if grid.split is not None:
        axes.axvline(grid.split - 0.5, color="black", linewidth=0.8)
        for height, row in enumerate(rows):
            axes.text(len(grid.columns) - 0.4, height, row.note, va="center", fontsize=6)
    for spine in axes.spines.values():
        spine.set_visible(False)
    if len(grid.columns) > _NUMBERED:
        return
    for height, row in enumerate(rows):
        for place, value in enumerate(row.values):
            if value is not None:
                ink = "white" if is_dark(seismic(shares[height][place])) else "black"
                axes.text(
                    place, height, signed(value).strip(), ha="center", va="center", fontsize=6, color=ink
                )
