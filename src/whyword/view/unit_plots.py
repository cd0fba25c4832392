"""Pictures of single units: blocks × heads, and every neuron of a block by its index (the paper's figure)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..document.kinds import SURVEY_SCHEMA, Document
from .colour import is_dark, seismic
from .head_matrix import list_matrices
from .plots import drawing, require_plots, write_figure
from .wording import headline, prediction, signed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["render_heads", "render_neurons", "render_survey", "strongest_block"]

_NAMED = 6
"""Outliers that are named in a panel, at each end."""
_COLOURS = ("#b2182b", "#2166ac", "#4d4d4d", "#1b7837", "#762a83", "#e08214")


def render_heads(document: Document, form: str) -> bytes:
    """Render the heat map of blocks × heads: of an explanation, or of every group of a survey."""
    require_plots()
    from matplotlib.figure import Figure

    panels = list_matrices(document)
    blocks, heads = len(panels[0][1]), max(map(len, panels[0][1]))
    numbered = heads <= 20
    size = (1.2 + len(panels) * (0.4 + heads * (0.42 if numbered else 0.22)), 1.3 + blocks * 0.2)
    with drawing():
        figure = Figure(figsize=(max(5.2, size[0]), size[1]), dpi=160, layout="constrained")
        largest = max(abs(value) for _, matrix in panels for row in matrix for value in row) or 1.0
        axes = figure.subplots(1, len(panels), squeeze=False)[0]
        for each, (name, matrix) in zip(axes, panels, strict=True):
            _draw_heads(each, matrix, largest, numbered)
            each.set_title(name if len(panels) > 1 else "", fontsize=8)
        axes[0].set_ylabel("block", fontsize=8)
        figure.suptitle(_title(document, "what every head adds"), fontsize=9, x=0.01, ha="left")
        return write_figure(figure, form)


def _draw_heads(axes: "Axes", matrix: Sequence[Sequence[float]], largest: float, numbered: bool) -> None:
    rows = matrix[::-1]
    colours = [[seismic(value / largest) for value in row] for row in rows]
    axes.imshow(colours, aspect="auto", interpolation="nearest")
    axes.set_yticks(range(len(rows)), [str(len(rows) - index) for index in range(len(rows))], fontsize=6)
    axes.set_xticks(range(len(rows[0])), [str(head + 1) for head in range(len(rows[0]))], fontsize=6)
    axes.set_xlabel("head", fontsize=8)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    if not numbered:
        return
    for height, row in enumerate(rows):
        for place, value in enumerate(row):
            if abs(value) >= 0.005:
                ink = "white" if is_dark(colours[height][place]) else "black"
                axes.text(place, height, signed(value), ha="center", va="center", fontsize=5, color=ink)


def strongest_block(document: Document) -> int:
    """Find the block (from 0) of the first neuron of a ranking."""
    ranked = document["ranked" if document["schema"] == SURVEY_SCHEMA else "named"]
    return int(ranked[0]["block"]) if ranked else 0


def render_survey(document: Document, form: str) -> bytes:
    """Render a survey: of heads blocks × heads, of neurons the block of the strongest."""
    return render_heads(document, form) if document["part"] == "heads" else render_neurons(document, form)


def render_neurons(document: Document, form: str, block: int | None = None) -> bytes:
    """Render what every neuron of a block (from 0) adds, over its index; the outliers are named."""
    require_plots()
    from matplotlib.figure import Figure

    block = strongest_block(document) if block is None else block
    survey = document["schema"] == SURVEY_SCHEMA
    panels: list[tuple[str, list[float]]] = (
        [
            (f"{group['name']} (n = {group['examples']})", group["update"][block])
            for group in document["groups"]
        ]
        if survey
        else [("", document["blocks"][block]["update"])]
    )
    with drawing():
        figure = Figure(figsize=(7.2, 1.1 + 2.0 * len(panels)), dpi=160, layout="constrained")
        rows = figure.subplots(len(panels), 1, squeeze=False, sharex=True, sharey=True)
        for index, (name, updates) in enumerate(panels):
            axes, colour = rows[index][0], _COLOURS[index % len(_COLOURS)]
            axes.plot(range(len(updates)), updates, ".", color=colour, markersize=2.5)
            axes.axhline(0, color="#999999", linewidth=0.5)
            axes.set_ylabel("mean update" if survey else "update", fontsize=7)
            axes.tick_params(labelsize=7)
            axes.set_title(name, fontsize=8, loc="left")
            axes.margins(x=0.02, y=0.18)
            for spine in ("top", "right"):
                axes.spines[spine].set_visible(False)
            _name_outliers(axes, updates, document, block)
        rows[-1][0].set_xlabel(f"neuron of block {block + 1}", fontsize=8)
        figure.suptitle(_title(document, f"neurons of block {block + 1}"), fontsize=9, x=0.01, ha="left")
        return write_figure(figure, form)


def _name_outliers(axes: "Axes", updates: Sequence[float], document: Document, block: int) -> None:
    """Name neurons that lie far from the others."""
    mean = sum(updates) / len(updates)
    spread = (sum((value - mean) ** 2 for value in updates) / len(updates)) ** 0.5
    ranked = sorted(range(len(updates)), key=lambda place: updates[place])
    chosen = sorted({*ranked[:_NAMED], *ranked[-_NAMED:]}, key=lambda place: -abs(updates[place]))
    reach = max(map(abs, updates)) or 1.0
    named: list[tuple[float, float]] = []
    for place in chosen:
        value = updates[place]
        if abs(value - mean) <= 4 * spread:
            continue
        here = place / len(updates), value / reach
        crowd = sum(abs(here[0] - x) < 0.05 and abs(here[1] - y) < 0.12 for x, y in named)
        named.append(here)
        axes.annotate(
            _name(document, block, place),
            (place, value),
            xytext=(0, 3 + 7 * crowd if value > 0 else -9 - 7 * crowd),
            textcoords="offset points",
            ha="center",
            fontsize=6,
        )


def _name(document: Document, block: int, place: int) -> str:
    """Name a neuron in its block: its index, with its expert where there are any."""
    if document["schema"] == SURVEY_SCHEMA:
        groups = document["experts"][block]
    else:
        known = document["blocks"][block]["experts"]
        groups = [[each["expert"], each["neurons"]] for each in known if each["expert"] is not None]
    for expert, size in groups:
        if place < size:
            return f"{'' if isinstance(expert, str) else 'e'}{expert}.{place}"
        place -= size
    return str(place)


def _title(document: Document, what: str) -> str:
    if document["schema"] == SURVEY_SCHEMA:
        data = ", ".join(name for name, _ in document["data"])
        return f"{document['model']}: {what}\nmean over {document['examples']:,} examples of {data}"
    return f"{headline(document)}\n{prediction(document)}\n{document['model']}: {what}"
