"""Pictures: the heat map of a document as PNG or SVG (needs matplotlib, the extra `plots`)."""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ..document.kinds import Document, is_continuation, is_translation
from ..errors import InputError
from .colour import is_dark, seismic
from .flow_grid import lay_out_depths
from .grid import Grid, Row, lay_out
from .plot_fonts import drawing, write_figure
from .translation_grid import lay_out_translation
from .wording import after, contrast, headline, prediction, proof, share_legend, signed, small_print

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["drawing", "has_plots", "render_depth_plot", "render_plot", "require_plots", "write_figure"]

_CELL = (0.62, 0.26)
"""Width and height of a cell, in inches."""
_NUMBERED = 36
"""Columns up to which numbers stand in the cells; of more, the strongest are shown."""


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
    grid, shown = choose_columns(grid)
    rows, columns = len(grid.every_row), len(grid.columns)
    width = max(6.2, 0.9 + columns * _CELL[0])
    height = 1.9 + (rows + 0.6) * _CELL[1]
    with drawing():
        figure = Figure(figsize=(width, height), dpi=160, layout="constrained")
        parts = [part for part in (grid.rows, (grid.sum,) if grid.sum else ()) if part]
        heights = [max(1.2, len(part)) for part in parts]
        axes = figure.subplots(len(parts), 1, height_ratios=heights, squeeze=False)
        for (each,), part in zip(axes, parts, strict=True):
            _draw(each, part, grid, shown)
        if len(parts) > 1:
            axes[0, 0].set_xticks([])
        if grid.rows and grid.by != "word":
            name = "token" if is_continuation(document) else grid.by
            axes[0, 0].set_ylabel("word" if translated else name)
        figure.suptitle(_title(document), fontsize=9, x=0.01, ha="left")
        figure.supxlabel(_foot(document, grid), fontsize=6, x=0.01, ha="left")
        return write_figure(figure, form)


def choose_columns(grid: Grid) -> tuple[Grid, Sequence[int]]:
    """Choose the columns of a picture: all, or the strongest; and say which they are."""
    count = len(grid.columns)
    if count <= _NUMBERED:
        return grid, range(count)
    ranked = sorted(range(count), key=lambda column: -grid.strength(column))
    shown = sorted(ranked[:_NUMBERED])
    return grid.pick(shown), shown


def require_plots() -> None:
    """Refuse before anything is computed where matplotlib is missing."""
    if not has_plots():
        raise InputError(
            "Pictures need matplotlib, which is not installed.", "Install it: pip install matplotlib."
        )


def has_plots() -> bool:
    """Say whether matplotlib is there."""
    return find_spec("matplotlib") is not None


def _title(document: Document) -> str:
    if is_translation(document):
        known = [contrast(document)]
    else:
        known = [] if is_continuation(document) else [prediction(document)]
    return "\n".join([headline(document), *(each for each in known if each), after(document)])


def _foot(document: Document, grid: Grid) -> str:
    proven = [] if is_continuation(document) else [proof(document)]
    legend = share_legend(document) if is_translation(document) else None
    columns = f"{grid.hidden} weaker columns are not shown; sums are of all" if grid.hidden else ""
    said = [*small_print(document, grid.unit, grid.by), legend, columns, *proven]
    return "\n".join(each for each in said if each)


def _name(row: Row) -> str:
    return row.label if row.unit is None else f"{row.label}\n{row.unit}"


def _draw(axes: "Axes", rows: tuple[Row, ...], grid: Grid, shown: Sequence[int]) -> None:
    """Draw rows of cells with their numbers; `shown`: the places of the columns among all."""
    shares = [[(value or 0.0) / (grid.scale_of(row) or 1.0) for value in row.values] for row in rows]
    axes.imshow([[seismic(share) for share in row] for row in shares], aspect="auto", interpolation="nearest")
    axes.set_yticks(range(len(rows)), [_name(row) for row in rows], fontsize=7)
    names = [
        f"… {name}" if place != before + 1 else name
        for name, place, before in zip(grid.columns, shown, [-1, *shown], strict=False)
    ]
    axes.set_xticks(range(len(names)), names, fontsize=7, rotation=45, ha="right", rotation_mode="anchor")
    axes.tick_params(length=0)
    if grid.split is not None:
        axes.axvline(grid.split - 0.5, color="black", linewidth=0.8)
        for height, row in enumerate(rows):
            axes.text(len(grid.columns) - 0.4, height, row.note, va="center", fontsize=6)
    for spine in axes.spines.values():
        spine.set_visible(False)
    for height, row in enumerate(rows):
        for place, value in enumerate(row.values):
            if value is not None:
                ink = "white" if is_dark(seismic(shares[height][place])) else "black"
                axes.text(
                    place, height, signed(value).strip(), ha="center", va="center", fontsize=6, color=ink
                )
