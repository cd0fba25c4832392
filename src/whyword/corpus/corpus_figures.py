"""Figures and tables of a run over a file: written by `whyword figures DIR`."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..runs.whole_files import write_file
from ..view.sheet import write_csv, write_markdown
from .aggregates import Aggregates, MethodSums, aggregate, lay_out_tables
from .opened_run import OpenedRun

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["save_corpus_figures"]

_WORDS = 20
_STYLE = {"font.size": 8, "axes.spines.top": False, "axes.spines.right": False}
_FOR, _AGAINST = "#c0392b", "#2e5c8a"


def save_corpus_figures(run: OpenedRun, folder: Path) -> list[Path]:
    """Write the tables as CSV and Markdown, and the figures as PNG and SVG."""
    import matplotlib

    found = aggregate(run)
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for name, sheet in lay_out_tables(found).items():
        written += [folder / f"{name}.csv", folder / f"{name}.md"]
        write_file(written[-2], write_csv([sheet.headings, *sheet.rows]))
        write_file(written[-1], f"{sheet.title}\n\n{write_markdown(sheet)}")
    with matplotlib.rc_context(_STYLE):
        for name, figure in _draw(found).items():
            for form in ("png", "svg"):
                written.append(folder / f"{name}.{form}")
                figure.savefig(written[-1], format=form, metadata={"Date": None} if form == "svg" else None)
    return written


def _draw(found: Aggregates) -> Mapping[str, "Figure"]:
    """Draw an overview of every method, and its heads where they were kept."""
    made: dict[str, Figure] = {}
    for name, sums in found.methods.items():
        if not sums.rows:
            continue
        made[f"overview-{name}"] = _draw_overview(found.model, name, sums)
        if sums.heads is not None:
            made[f"heads-{name}"] = _draw_heads(found.model, name, sums)
    return made


def _draw_overview(model: str, name: str, sums: MethodSums) -> "Figure":
    """Draw differences, positions, and the strongest words and parts side by side."""
    from matplotlib.figure import Figure

    panels = 4 if sums.parts else 3
    figure = Figure(figsize=(3.4 * panels, 3.8), dpi=160, layout="constrained")
    axes = figure.subplots(1, panels)
    axes[0].hist(sums.differences, bins=min(40, max(5, sums.rows // 4)), color="#7d8a97")
    axes[0].axvline(0, color="black", linewidth=0.8, linestyle=":")
    axes[0].set(xlabel="logit difference", ylabel="rows", title=f"{sums.rows:,} rows")
    places = sorted(sums.positions)
    heights = [sums.positions[place].total / sums.positions[place].count for place in places]
    axes[1].bar(
        [-place for place in places], heights, color=[_FOR if each > 0 else _AGAINST for each in heights]
    )
    axes[1].set(xlabel="position before the explained token", ylabel="mean score", title="by position")
    named = [("words", sums.words)] + ([("parts", sums.parts)] if sums.parts else [])
    for panel, (what, own) in zip(axes[2:], named, strict=True):
        means = {each: own[each].total / own[each].count for each in own}
        best = sorted(sorted(own, key=lambda each: -own[each].size)[:_WORDS], key=means.__getitem__)
        values = [means[each] for each in best]
        colours = [_FOR if value > 0 else _AGAINST for value in values]
        panel.barh(range(len(best)), values, color=colours)
        panel.set_yticks(range(len(best)), [_label(each) for each in best], parse_math=False)
        panel.axvline(0, color="#9aa5ae", linewidth=0.5)
        panel.set(xlabel="mean score", title=f"strongest {what} (largest Σ |score|)")
    figure.suptitle(f"{model}, {name}", x=0.01, ha="left")
    return figure


def _draw_heads(model: str, name: str, sums: MethodSums) -> "Figure":
    """Draw what every head adds, and beside it what it moves where routes were kept."""
    from matplotlib.figure import Figure

    maps = [("adds by itself", sums.heads / sums.rows, "RdBu_r")]
    if sums.moved is not None:
        maps.append(("moves on the strongest edges", sums.moved / sums.rows, "Reds"))
    figure = Figure(figsize=(3.6 * len(maps), 5.0), dpi=160, layout="constrained")
    for axes, (title, values, colours) in zip(
        figure.subplots(1, len(maps), squeeze=False)[0], maps, strict=True
    ):
        most = float(np.abs(values).max()) or 1.0
        limits = (-most, most) if colours == "RdBu_r" else (0.0, most)
        shown = axes.imshow(values, cmap=colours, vmin=limits[0], vmax=limits[1], aspect="auto")
        axes.set(xlabel="head", ylabel="block", title=title)
        axes.set_xticks(range(values.shape[1]), range(1, values.shape[1] + 1))
        step = max(1, values.shape[0] // 10)
        axes.set_yticks(range(0, values.shape[0], step), range(1, values.shape[0] + 1, step))
        figure.colorbar(shown, ax=axes, label="logits per row")
    figure.suptitle(f"{model}, {name}: heads", x=0.01, ha="left")
    return figure


def _label(text: str) -> str:
    return text if len(text) <= 18 else f"{text[:17]}…"
