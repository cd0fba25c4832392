"""Panels of figures: what is drawn, colours, legends."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .records import Record
from .report import Report

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "BOX",
    "COLOURS",
    "PALE",
    "STYLE",
    "Run",
    "explain_colours",
    "lay_panels",
    "name_datasets",
    "number_blocks",
    "say_instead",
    "title_panel",
]

COLOURS = ("#c0392b", "#e59866", "#2e5c8a", "#7fb3d5", "#7d8a97", "#a569bd", "#48a386", "#c9b458", "#34495e")
STYLE: dict[str, Any] = {"font.size": 8, "axes.spines.top": False, "axes.spines.right": False}
_TITLE = 38
"""Letters of a title that fit a narrow panel."""
_LETTER, _MARGIN = 0.075, 1.0
"""Inches: the width of a letter in the labels, and what is left and right of all panels."""
_INK = {"color": "#333333"}
BOX: dict[str, Any] = {"showfliers": False, "widths": 0.6, "patch_artist": True, "medianprops": _INK}
PALE: dict[str, Any] = {
    "boxprops": {"facecolor": "#dfe4e8", "edgecolor": "#9aa5ae"},
    "whiskerprops": {"color": "#9aa5ae"},
    "capprops": {"color": "#9aa5ae"},
}


@dataclass(frozen=True)
class Run:
    """A run, read for its figures."""

    report: Report
    records: Mapping[str, Sequence[Record]]
    """The examples of every dataset."""

    @property
    def name(self) -> str:
        """The model, as titles of panels have room for it."""
        return shorten_name(str(self.report.settings["model"]))


def lay_panels(rows: int, columns: int, size: tuple[float, float]) -> "tuple[Figure, list[Axes]]":
    """Lay out panels of a size, and give them in the order of reading."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(columns * size[0], rows * size[1]), dpi=160, layout="constrained")
    axes: list[Any] = list(figure.subplots(rows, columns, squeeze=False).flat)
    return figure, axes


def explain_colours(figure: "Figure", axes: "Axes") -> None:
    """Put the legend of one panel above all of them."""
    drawn, labels = axes.get_legend_handles_labels()
    figure.legend(drawn, labels, loc="outside upper left", ncols=min(len(labels), 7), frameon=False)


def title_panel(run: Run, name: str, runs: Sequence[Run]) -> str:
    """Name what a panel is about, with the model where there are several."""
    return f"{shorten_name(run.name, _TITLE - len(name))}: {name}" if len(runs) > 1 else name


def number_blocks(axes: "Axes", count: int) -> None:
    """Write the numbers of some blocks, few enough to be read."""
    step = next((each for each in (1, 2, 5, 10, 20, 50) if count <= 10 * each), 100)
    axes.set_xticks(range(step, count + 1, step))


def name_datasets(axes: "Axes", names: Sequence[str]) -> None:
    """Write the names of datasets below their bars, aslant where they are too long to stand side by side."""
    axes.set_xticks(range(len(names)), names)
    width = float(axes.figure.bbox.width / axes.figure.dpi) - _MARGIN
    if names and max(map(len, names)) * _LETTER > width / len(names):
        axes.tick_params("x", labelrotation=35)
        for label in axes.get_xticklabels():
            label.set(ha="right", rotation_mode="anchor")


def shorten_name(name: str, most: int = 34) -> str:
    """Leave out the middle of a long name."""
    return name if len(name) <= most else f"{name[: most // 2 - 1]}…{name[-(most // 2) :]}"


def say_instead(what: str) -> "Figure":
    """Make a figure that says why there is nothing to draw."""
    figure, (axes,) = lay_panels(1, 1, (5.0, 1.0))
    axes.text(0.5, 0.5, what, ha="center", va="center")
    return figure
