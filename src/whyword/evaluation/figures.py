"""The figures of one run, or several side by side (needs matplotlib, the extra `plots`)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..attribute.methods import measure_of
from ..errors import InputError
from ..runs.whole_files import write_file
from ..view.plots import drawing, require_plots, write_figure
from .method_names import read_name, title_name
from .panels import (
    BOX,
    COLOURS,
    PALE,
    STYLE,
    Run,
    explain_colours,
    lay_panels,
    name_datasets,
    number_blocks,
    say_instead,
    title_panel,
)
from .records import read_run
from .report import CHANCE, read_skipped, summarise

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FIGURES", "Run", "open_run", "save_figures"]


def open_run(folder: str | Path) -> Run:
    """Read a run for its figures."""
    settings, records = read_run(folder)
    if not records:
        raise InputError(f"{folder} has no examples yet.", "Let whyword evaluate run first.")
    report = summarise(settings, records, read_skipped(Path(folder)))
    report = replace(report, rows=tuple(row for row in report.rows if row.used))
    return Run(
        report, {row.name: [each for each in records if each.dataset == row.name] for row in report.rows}
    )


def save_figures(runs: Sequence[Run], folder: Path) -> list[Path]:
    """Draw every figure as PNG and SVG, several runs side by side."""
    require_plots()
    from matplotlib import rc_context

    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, draw in FIGURES.items():
        with drawing(), rc_context(STYLE):
            figure = draw(runs)
            for ending in ("png", "svg") if figure is not None else ():
                paths.append(folder / f"{name}.{ending}")
                assert figure is not None
                write_file(paths[-1], write_figure(figure, ending))
    return paths


def draw_mrr(runs: Sequence[Run]) -> "Figure":
    """Draw MRR by method as bars with intervals, one group for each dataset, models below each other."""
    return _draw_bars(runs, "MRR", "MRR")


def draw_swaps(runs: Sequence[Run]) -> "Figure | None":
    """Draw the rank correlation of scores with what swaps change, in the same way."""
    metric = "rank correlation with swaps"
    having = [run for run in runs if all(metric in row.cells for row in run.report.rows)]
    return _draw_bars(having, metric, "rank correlation") if having else None


def _draw_bars(runs: Sequence[Run], metric: str, label: str) -> "Figure":
    most = max(len(run.report.rows) * len(run.report.methods) for run in runs)
    figure, panels = lay_panels(len(runs), 1, (max(6.0, 1.2 + 0.15 * most), 2.6))
    for axes, run in zip(panels, runs, strict=True):
        rows, methods = run.report.rows, run.report.methods
        width = 0.84 / len(methods)
        for place, method in enumerate(methods):
            cells = [row.cells[metric][method] for row in rows]
            means = np.array([cell.mean for cell in cells])
            bounds = [[cell.mean - cell.low for cell in cells], [cell.high - cell.mean for cell in cells]]
            axes.bar(
                np.arange(len(rows)) + (place - (len(methods) - 1) / 2) * width,
                means,
                width,
                yerr=np.maximum(bounds, 0),
                color=COLOURS[place % len(COLOURS)],
                error_kw={"elinewidth": 0.6, "ecolor": "#444444"},
                label=title_name(method),
            )
        if metric == "MRR":
            for place, row in enumerate(rows):
                chance = row.cells["MRR"][CHANCE].mean
                axes.plot(
                    [place - 0.45, place + 0.45], [chance, chance], color="black", linewidth=1, linestyle=":"
                )
            axes.plot([], [], color="black", linewidth=1, linestyle=":", label="Random")
            axes.set_ylim(0, 1.02)
        else:
            axes.axhline(0, color="#9aa5ae", linewidth=0.5)
        name_datasets(axes, [row.name for row in rows])
        axes.set_ylabel(label)
        axes.set_title(run.name, loc="left")
    explain_colours(figure, panels[0])
    return figure


def draw_depths(runs: Sequence[Run]) -> "Figure | None":
    """Draw MRR by depth, a line for each group of datasets; even and odd rows apart, and random scores."""
    having = [(run, depths) for run in runs for depths in run.report.depths]
    if not having:
        return None
    figure, panels = lay_panels(len(having), 1, (6.4, 2.8))
    for axes, (run, depths) in zip(panels, having, strict=True):
        chance = {row.name: row.cells["MRR"][CHANCE].mean for row in run.report.groups}
        for place, (group, means) in enumerate(depths.by_group.items()):
            colour = COLOURS[2 * place % len(COLOURS)]
            axes.plot(range(len(means)), means, color=colour, linewidth=1.2, label=group)
            axes.axhline(chance[group], color=colour, linewidth=0.8, linestyle=":")
        for name, means, style in (("even rows", depths.even, "--"), ("odd rows", depths.odd, "-.")):
            axes.plot(range(len(means)), means, style, color="#333333", linewidth=0.8, label=name)
        axes.axvline(depths.default, color="#9aa5ae", linewidth=0.8, label="default depth")
        axes.plot([], [], color="#333333", linewidth=0.8, linestyle=":", label="Random")
        axes.set_ylim(0, 1.02)
        axes.set_ylabel("MRR")
        axes.set_xlabel("depth: before block 1, …, after the last block")
        axes.set_title(f"{run.name}, {title_name(depths.method)}", loc="left")
    explain_colours(figure, panels[0])
    return figure


def draw_blocks(runs: Sequence[Run]) -> "Figure":
    """Draw MRR across blocks, with that of random scores, over box plots of attention's updates per block."""
    panels_of = [(run, name) for run in runs for name in run.records]
    figure, panels = lay_panels(ceil(len(panels_of) / 3), 3, (3.6, 2.2))
    for axes, (run, name) in zip(panels, panels_of, strict=False):
        records = run.records[name]
        attention = np.array([record.attention for record in records])
        blocks = np.arange(1, attention.shape[1] + 1)
        axes.boxplot(list(attention.T), positions=blocks, manage_ticks=False, **BOX, **PALE)
        axes.axhline(0, color="#9aa5ae", linewidth=0.5)
        axes.set_ylabel("update (logits)", color="#7d8a97")
        above = axes.twinx()
        for place, method in enumerate(records[0].rank_by_block):
            ranks = np.mean([record.rank_by_block[method] for record in records], axis=0)
            above.plot(
                blocks,
                ranks,
                color=COLOURS[2 * place],
                marker=".",
                markersize=3,
                linewidth=1,
                label=title_name(method),
            )
        row = next(row for row in run.report.rows if row.name == name)
        above.axhline(
            row.cells["MRR"][CHANCE].mean, color="black", linewidth=1, linestyle=":", label="Random"
        )
        above.set_ylim(0, 1.02)
        above.set_ylabel("MRR")
        axes.set_title(title_panel(run, name, runs), loc="left")
        axes.set_xlabel("block")
        number_blocks(axes, len(blocks))
        if axes is panels[0]:
            explain_colours(figure, above)
    for axes in panels[len(panels_of) :]:
        axes.set_axis_off()
    return figure


def draw_evidence(runs: Sequence[Run]) -> "Figure":
    """Draw the updates of evidence tokens where the model is right, and where it is wrong."""
    pairs = [
        (run, method)
        for run in runs
        for method in run.report.methods
        if measure_of(read_name(method).method).by_block
    ]
    if not pairs:
        return say_instead("No method of the run has scores by block.")
    most = max(len(run.records) for run in runs)
    figure, panels = lay_panels(len(pairs), 1, (max(6.0, 1.2 + 0.6 * most), 2.4))
    for axes, (run, method) in zip(panels, pairs, strict=True):
        for side, (label, colour, wanted) in enumerate(
            [("correct", "#7fb3d5", True), ("failed", "#e59866", False)]
        ):
            updates = [
                [
                    sum(each.scores[method][index] for index in each.evidence)
                    for each in records
                    if each.correct is wanted
                ]
                for records in run.records.values()
            ]
            places = np.arange(len(updates)) + (side - 0.5) * 0.38
            drawn = [(place, values) for place, values in zip(places, updates, strict=True) if values]
            box = {**BOX, "widths": 0.34}
            if drawn:
                axes.boxplot(
                    [values for _, values in drawn],
                    positions=[place for place, _ in drawn],
                    manage_ticks=False,
                    boxprops={"facecolor": colour, "edgecolor": "#555555"},
                    **box,
                )
            axes.bar([0], [0], color=colour, label=label)
        axes.axhline(0, color="#9aa5ae", linewidth=0.5)
        name_datasets(axes, list(run.records))
        axes.set_ylabel("update of evidence (logits)")
        axes.set_title(f"{run.name}, {title_name(method)}", loc="left")
    explain_colours(figure, panels[0])
    return figure


def draw_differences(runs: Sequence[Run]) -> "Figure":
    """Draw the logit difference of the examples of each dataset."""
    most = max(len(run.records) for run in runs)
    figure, panels = lay_panels(len(runs), 1, (max(6.0, 1.2 + 0.5 * most), 2.4))
    for axes, run in zip(panels, runs, strict=True):
        differences = [[record.difference for record in records] for records in run.records.values()]
        axes.boxplot(differences, positions=range(len(differences)), manage_ticks=False, **BOX, **PALE)
        axes.axhline(0, color="black", linewidth=0.8, linestyle=":")
        name_datasets(axes, list(run.records))
        axes.set_ylabel("logit difference")
        axes.set_title(f"{run.name}: above 0 the model prefers the target", loc="left")
    return figure


def draw_parts(runs: Sequence[Run]) -> "Figure":
    """Draw what attention and MLPs add across blocks, a line for each dataset."""
    figure, panels = lay_panels(len(runs), 2, (4.6, 2.6))
    for number, run in enumerate(runs):
        for axes, part in zip(panels[2 * number : 2 * number + 2], ("attention", "mlp"), strict=True):
            for place, (name, records) in enumerate(run.records.items()):
                means = np.mean([getattr(record, part) for record in records], axis=0)
                style = ("-", "--", ":")[place // len(COLOURS) % 3]
                axes.plot(
                    range(1, len(means) + 1),
                    means,
                    style,
                    color=COLOURS[place % len(COLOURS)],
                    linewidth=1,
                    label=name,
                )
            axes.axhline(0, color="#9aa5ae", linewidth=0.5)
            axes.set_xlabel("block")
            axes.set_ylabel("mean update (logits)")
            axes.set_title(f"{run.name}: {'MLPs' if part == 'mlp' else 'attention'}", loc="left")
            number_blocks(axes, len(means))
    explain_colours(figure, panels[1])
    return figure


FIGURES: Mapping[str, Callable[[Sequence[Run]], "Figure | None"]] = {
    "mrr": draw_mrr,
    "mrr-by-depth": draw_depths,
    "swaps": draw_swaps,
    "mrr-by-block": draw_blocks,
    "evidence": draw_evidence,
    "difference": draw_differences,
    "parts": draw_parts,
}
"""By the name of their files; None where a run has nothing for one."""
