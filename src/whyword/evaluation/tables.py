"""Tables of one run, or several side by side, in Markdown, CSV and LaTeX."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from math import isnan
from pathlib import Path
from typing import Any

from ..runs.whole_files import write_file
from ..view.sheet import Sheet, write_csv, write_latex, write_markdown
from .method_names import title_name
from .reading_depth import DepthTable
from .report import CHANCE, Cell, Report, Row

__all__ = [
    "lay_out",
    "lay_out_depths",
    "lay_out_positions",
    "list_columns",
    "list_metrics",
    "save_tables",
    "say_depth",
    "say_signature",
    "to_csv",
    "to_latex",
    "to_markdown",
]

_CSV_COLUMNS = (
    *("model", "dataset", "group", "n", "skipped", "accuracy", "distance"),
    *("metric", "method", "mean", "low", "high"),
)


def write_interval(cell: Cell) -> str:
    """Write a mean with its interval."""
    return "–" if isnan(cell.mean) else f"{cell.mean:.3f} [{cell.low:.2f}, {cell.high:.2f}]"


def lay_out(
    reports: Sequence[Report], metric: str = "MRR", write: Callable[[Cell], str] = write_interval
) -> Sheet:
    """Lay out the means of a metric by dataset and group, those of several runs side by side."""
    several = len(reports) > 1
    headings = ["", "n", "skipped"]
    for report in reports:
        label = f"{report.settings['model']}: " if several else ""
        headings += [f"{label}{name}" for name in list_columns(report, metric)]
    return Sheet(
        metric,
        tuple(headings),
        _lay_rows([report.rows for report in reports], reports, metric, write),
        _lay_rows([report.groups for report in reports], reports, metric, write),
    )


def to_markdown(reports: Sequence[Report]) -> str:
    """Write all metrics, the skipped rows with their reasons, and the signature of every run."""
    sheets = [lay_out(reports, metric) for metric in list_metrics(reports)]
    parts = [f"## {sheet.title}\n\n{write_markdown(sheet)}" for sheet in sheets]
    parts += [
        f"## {sheet.title}\n\n{write_markdown(sheet)}\n{say_depth(depths)}\n"
        for report in reports
        for depths, sheet in lay_out_depths(report)
    ]
    parts += [
        f"## {sheet.title}\n\n{write_markdown(sheet)}"
        for report in reports
        for sheet in lay_out_positions(report)
    ]
    skipped = [_say_skipped(report) for report in reports]
    signatures = [f"Signature: {say_signature(report.settings)}\n" for report in reports]
    return "\n".join(chain(parts, filter(None, skipped), signatures))


def to_latex(reports: Sequence[Report]) -> str:
    """Write all metrics as tables in booktabs' style."""
    parts = [write_latex(lay_out(reports, metric)) for metric in list_metrics(reports)]
    parts += [write_latex(sheet) for report in reports for _, sheet in lay_out_depths(report)]
    parts += [write_latex(sheet) for report in reports for sheet in lay_out_positions(report)]
    signatures = [f"% {say_signature(report.settings)}\n" for report in reports]
    return "\n".join([*parts, *signatures])


def to_csv(reports: Sequence[Report]) -> str:
    """Write one line for each number: run, dataset, metric, method, mean and interval."""
    return write_csv([_CSV_COLUMNS, *chain.from_iterable(map(_list_cells, reports))])


def lay_out_depths(report: Report) -> Iterator[tuple[DepthTable, Sheet]]:
    """Lay out MRR by depth for every method that has depths."""
    for depths in report.depths:
        columns = {**depths.by_group, "even rows": depths.even, "odd rows": depths.odd}
        rows = [
            (str(depth), *(f"{means[depth]:.3f}" for means in columns.values()))
            for depth in range(len(depths.even))
        ]
        title = f"MRR by depth, {title_name(depths.method)} on {report.settings['model']}"
        yield depths, Sheet(title, ("depth", *columns), tuple(rows))


def lay_out_positions(report: Report) -> Iterator[Sheet]:
    """Lay out how often the right part comes first, by its position, for every dataset that ranks parts."""
    for table in report.positions:
        rows = tuple(
            (
                f"{row.position} of {table.parts}",
                str(row.used),
                *(write_interval(Cell(*row.cells[method])) for method in report.methods),
            )
            for row in table.rows
        )
        headings = ("position", "n", *(title_name(method) for method in report.methods))
        title = f"top 1 by position, {table.dataset} on {report.settings['model']}"
        yield Sheet(title, headings, rows)


def say_depth(depths: DepthTable) -> str:
    """Say which depth is the best on even rows, and what it gives on odd ones."""
    chosen, default = (
        f"{mean:.3f} [{low:.2f}, {high:.2f}]"
        for mean, low, high in (depths.chosen_on_odd, depths.default_on_odd)
    )
    return (
        f"{title_name(depths.method)} has its highest MRR on even rows at depth {depths.chosen}; "
        f"on odd rows it has {chosen} there, and {default} at its own depth {depths.default}."
    )


def save_tables(folder: Path, reports: Sequence[Report]) -> None:
    """Write table.md, table.csv and table.tex."""
    for ending, text in (("md", to_markdown(reports)), ("csv", to_csv(reports)), ("tex", to_latex(reports))):
        write_file(folder / f"table.{ending}", text)


def say_signature(settings: Mapping[str, Any]) -> str:
    """Return the signature of a table: in one line, what it was made with."""
    data = ",".join(f"{name}@{about['hash']}" for name, about in settings["datasets"].items())
    versions = ",".join(f"{name}-{number}" for name, number in settings["versions"].items())
    return "|".join(
        [
            f"model:{settings['model']}@{settings['weights']}",
            f"dtype:{settings['dtype']}",
            *([f"start:{settings['start'] or 'none'}"] if "start" in settings else []),
            f"data:{data}",
            f"rows:{settings['limit'] or 'all'}",
            f"methods:{','.join(settings['methods'])}",
            f"conventions:{settings['conventions']}",
            f"evidence:{settings['evidence']}",
            f"faithfulness:{settings['faithfulness']}",
            *(
                [f"swaps:{settings['swaps']}@{','.join(settings['swapped at'])}"]
                if settings.get("swaps")
                else []
            ),
            f"seed:{settings['seed']}",
            f"versions:{versions}",
        ]
    )


def list_metrics(reports: Sequence[Report]) -> list[str]:
    """List what was measured."""
    return list(dict.fromkeys(metric for report in reports for row in report.rows for metric in row.cells))


def list_columns(report: Report, metric: str) -> list[str]:
    """Name the columns that a run has in the table of a metric."""
    names = [title_name(method) for method in report.methods]
    return ["accuracy", *names, "Random", "Distance"] if metric == "MRR" else names


def _lay_rows(
    sides: Sequence[Sequence[Row]], reports: Sequence[Report], metric: str, write: Callable[[Cell], str]
) -> tuple[tuple[str, ...], ...]:
    """Lay out rows of the same name side by side."""
    names = dict.fromkeys(row.name for side in sides for row in side)
    found = [[next((row for row in side if row.name == name), None) for side in sides] for name in names]
    return tuple(_lay_row(rows, reports, metric, write) for rows in found)


def _lay_row(
    rows: Sequence[Row | None], reports: Sequence[Report], metric: str, write: Callable[[Cell], str]
) -> tuple[str, ...]:
    own = [row for row in rows if row is not None]
    cells = [
        own[0].name,
        _write_counts(row.used for row in own),
        _write_counts(sum(row.skipped.values()) for row in own),
    ]
    for row, report in zip(rows, reports, strict=True):
        if row is None or metric not in row.cells:
            cells += ["–"] * len(list_columns(report, metric))
            continue
        means = row.cells[metric]
        shown = [write(means[method]) for method in report.methods]
        if metric == "MRR":
            shown = [f"{row.accuracy:.3f}", *shown, f"{means[CHANCE].mean:.3f}", f"{row.distance:.1f}"]
        cells += shown
    return tuple(cells)


def _write_counts(counts: Iterable[int]) -> str:
    """Write a number that all runs share once; where they differ, that of every run that has the dataset."""
    every = list(counts)
    return "/".join(map(str, every if len({*every}) > 1 else every[:1]))


def _list_cells(report: Report) -> Iterator[list[str]]:
    for row in (*report.rows, *report.groups):
        for metric, cells in row.cells.items():
            for method, cell in cells.items():
                numbers = [f"{number:.4f}" for number in (cell.mean, cell.low, cell.high)]
                yield [report.settings["model"], *_about(row), metric, method, *numbers]
    for depths in report.depths:
        for row in report.groups:
            for depth, mean in enumerate(depths.by_group.get(row.name, ())):
                name = f"{depths.method}@{depth}"
                yield [report.settings["model"], *_about(row), "MRR by depth", name, f"{mean:.4f}", "", ""]


def _about(row: Row) -> list[str]:
    counts = [str(row.used), str(sum(row.skipped.values()))]
    return [row.name, row.group, *counts, f"{row.accuracy:.4f}", f"{row.distance:.2f}"]


def _say_skipped(report: Report) -> str:
    lines = [
        f"- {row.name}: {count} × {reason}" for row in report.rows for reason, count in row.skipped.items()
    ]
    return "Skipped:\n\n" + "\n".join(lines) + "\n" if lines else ""
