"""whyword table, whyword figures: runs that are there, side by side."""

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from ...errors import InputError
from ..reporting import Debug, Json, print_json, reporting, show_progress

__all__ = ["figures", "table"]

EvaluatedRuns = Annotated[
    list[Path], typer.Argument(metavar="RUNS", help="Folders that whyword evaluate wrote.")
]
Runs = Annotated[
    list[Path], typer.Argument(metavar="RUNS", help="Folders that whyword evaluate or whyword run wrote.")
]


class TableFormat(str, Enum):
    """How a table is written."""

    text = "text"
    md = "md"
    csv = "csv"
    tex = "tex"


@reporting
def table(
    runs: EvaluatedRuns,
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
    """Draw the figures of runs, as PNG and SVG: the paper's, or those of a file of prompts."""
    from ...corpus.run_journal import is_corpus_run
    from ...evaluation import open_run, save_figures
    from ...view.plots import require_plots

    require_plots()
    if out is None and len(runs) > 1:
        raise InputError(
            f"{len(runs)} runs were given, and no folder for their figures.", "Name one: --out DIR."
        )
    if any(is_corpus_run(folder) for folder in runs):
        for path in _draw_corpus(runs, out):
            print(path)
        return
    with show_progress("Drawing …"):
        paths = save_figures([open_run(run) for run in runs], out or runs[0] / "figures")
    for path in paths:
        print(path)


def _draw_corpus(runs: list[Path], out: Path | None) -> list[Path]:
    """Write tables and figures of a run over a file of prompts."""
    from ...corpus.corpus_figures import save_corpus_figures
    from ...corpus.opened_run import open_run

    if len(runs) > 1:
        raise InputError(
            f"{len(runs)} runs were given, and one is of a file of prompts.", "Draw such runs one by one."
        )
    with show_progress("Drawing …"):
        return save_corpus_figures(open_run(runs[0]), out or runs[0] / "figures")
