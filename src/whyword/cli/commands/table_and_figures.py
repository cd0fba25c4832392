"""whyword table, whyword figures: runs that are there, side by side."""

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from ...errors import InputError
from ..reporting import Debug, Json, print_json, reporting, show_progress

__all__ = ["figures", "table"]

Runs = Annotated[list[Path], typer.Argument(metavar="RUNS", help="Folders that whyword evaluate wrote.")]


class TableFormat(str, Enum):
    """How a table is written."""

    text = "text"
    md = "md"
    csv = "csv"
    tex = "tex"


@reporting
def table(
    runs: Runs,
    form: Annotated[
        TableFormat,
        typer.Option("--format", metavar="FORMAT", help="text shows MRR; md, csv and tex have all metrics."),
    ] = TableFormat.text,
    signature: Annotated[
        bool, typer.Option("--signature", help="Show the whole signature of every run, not its hash.")
    ] = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Show the tables of runs side by side."""
    from rich.console import Console

    from ...evaluation import read_report, to_csv, to_latex, to_markdown
    from ...evaluation.printed_tables import print_reports

    reports = [read_report(run) for run in runs]
    if json:
        print_json([report.to_dict() for report in reports])
    elif form is TableFormat.text:
        print_reports(reports, Console(highlight=False), signature)
    else:
        write = {TableFormat.md: to_markdown, TableFormat.csv: to_csv, TableFormat.tex: to_latex}[form]
        print(write(reports), end="")


@reporting
def figures(
    runs: Runs,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Where to.", show_default="figures in the run"),
    ] = None,
    debug: Debug = False,
) -> None:
    """Draw the paper's figures for runs, as PNG and SVG."""
    from ...evaluation import open_run, save_figures
    from ...view.plots import require_plots

    require_plots()
    if out is None and len(runs) > 1:
        raise InputError(
            f"{len(runs)} runs were given, and no folder for their figures.", "Name one: --out DIR."
        )
    with show_progress("Drawing …"):
        paths = save_figures([open_run(run) for run in runs], out or runs[0] / "figures")
    for path in paths:
        print(path)
