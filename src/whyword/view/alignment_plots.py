"""Alignments as pictures: heat maps side by side, and a method × block figure (needs matplotlib)."""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len

from ..document.kinds import Document
from .alignment_grid import share
from .colour import seismic
from .plots import drawing, require_plots, write_figure
from .sentences import name_alignment
from .wording import label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_alignment", "plot_alignments", "plot_blocks"]

_CELL = 0.24
"""Inches."""
_TITLE = 0.062
"""Inches of a character of the title."""
_GOLD = "#1b9e3f"


def plot_alignment(document: Document, form: str) -> bytes:
    """Draw one alignment."""
    return plot_alignments([document], form)


def plot_alignments(
    documents: Sequence[Document], form: str, gold: tuple[Collection[Any], Collection[Any]] | None = None
) -> bytes:
    """Draw alignments of one sentence pair side by side; `gold`: sure and possible links, framed in green."""
    columns, rows = (len(documents[0][side]) for side in ("source", "target"))
    below, beside = (_measure(documents[0][side]) for side in ("source", "target"))
    titles = beside + max(_TITLE * len(name_alignment(document)) for document in documents)
    size = max(3.4, titles, 0.3 + beside + columns * _CELL) * len(documents), 0.7 + below + rows * _CELL
    require_plots()
    from matplotlib.figure import Figure

    with drawing():
        figure = Figure(figsize=size, dpi=160, layout="constrained")
        panels = figure.subplots(1, len(documents), squeeze=False)[0]
        for axes, document in zip(panels, documents, strict=True):
            _draw(axes, document, gold)
        note = "dot: link"
        if gold is not None:
            note += " · green frame: gold (dashed: possible)"
        figure.supxlabel(f"{note} · colours are shares of each row's largest", fontsize=6, x=0.01, ha="left")
        return write_figure(figure, form)


def _measure(words: Sequence[str]) -> float:
    """Say how many inches the longest word takes, roughly."""
    return 0.06 * max((cell_len(label(word)) for word in words), default=1)


def _draw(axes: "Axes", document: Document, gold: tuple[Collection[Any], Collection[Any]] | None) -> None:
    from matplotlib.patches import Rectangle

    shares = share(document) or [[0.0]]
    axes.imshow([[seismic(value * 0.6) for value in row] for row in shares], interpolation="nearest")
    names = [[label(word) for word in document[side]] for side in ("source", "target")]
    axes.set_xticks(
        range(len(names[0])), names[0], fontsize=7, rotation=60, ha="right", rotation_mode="anchor"
    )
    axes.set_yticks(range(len(names[1])), names[1], fontsize=7)
    axes.tick_params(length=0)
    axes.set_title(name_alignment(document), fontsize=7, loc="left")
    axes.set_anchor("W")  # where a title is wider than its few words, there is room at the right
    for source, target in document["links"]:
        axes.plot(source, target, "o", color="black", markersize=3.5)
    for links, line in zip(gold or (), ("-", (0, (2, 1))), strict=False):
        for source, target in links:
            corner = source - 0.46, target - 0.46
            axes.add_patch(
                Rectangle(corner, 0.92, 0.92, fill=False, edgecolor=_GOLD, linewidth=1.6, linestyle=line)
            )


def plot_blocks(rates: Mapping[str, Sequence[float]], sums: Mapping[str, float], form: str) -> bytes:
    """Draw the alignment error rate of every method by decoder block, in percent; `sums`: of all blocks.

    A method has one colour; where words are consumed (", input") its line is dashed.
    """
    require_plots()
    from matplotlib.figure import Figure

    methods = list(dict.fromkeys(name.partition(",")[0] for name in rates))
    blocks = max(map(len, rates.values()))
    with drawing():
        figure = Figure(figsize=(7.4, 4.2), dpi=160, layout="constrained")
        axes = figure.subplots()
        for name, own in rates.items():
            line = "--" if name.endswith("input") else "-"
            colour = f"C{methods.index(name.partition(',')[0])}"
            shown = f"{name} ({min(own):.1f})"
            if name in sums:
                shown = f"{name} ({min(own):.1f}; all {sums[name]:.1f})"
                axes.plot(blocks + 1, sums[name], "D", markersize=5, color=colour)
            axes.plot(range(1, len(own) + 1), own, line, marker="o", markersize=3, color=colour, label=shown)
        names = [*map(str, range(1, blocks + 1)), *(["all"] if sums else [])]
        axes.set_xticks(range(1, len(names) + 1), names)
        axes.set_xlabel("decoder block", fontsize=8)
        axes.set_ylabel("alignment error rate, %", fontsize=8)
        axes.tick_params(labelsize=8)
        figure.legend(
            fontsize=7,
            frameon=False,
            loc="outside right upper",
            title="in the best block",
            title_fontsize=7,
        )
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        return write_figure(figure, form)
