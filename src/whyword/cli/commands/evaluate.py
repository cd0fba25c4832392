"""whyword evaluate: do explanations point at the words that grammar says matter?"""

from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...errors import InputError
from ..reporting import Allow, Debug, Dtype, Json, print_json, reporting, show_progress, tell
from ..sources import open_models
from .evaluate_alignment import (
    AlignmentFiles,
    Gold,
    Languages,
    Reverse,
    Sentences,
    Sources,
    Targets,
    evaluate_files,
)

if TYPE_CHECKING:
    from ...evaluation import Report

__all__ = ["evaluate"]


class ConventionsName(str, Enum):
    """The names of evaluation.conventions.CONVENTIONS, which is not imported for --help."""

    ours = "ours"
    paper = "paper"


class EvidenceKind(str, Enum):
    """The names of data.EVIDENCE_KINDS."""

    word = "word"
    phrase = "phrase"
    paper = "paper"


@reporting
def evaluate(
    datasets: Annotated[
        list[str],
        typer.Argument(
            help="blimp, sva, ioi, builtin, or single ones: aga, sva-2, builtin-npi …; or alignment."
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", metavar="RUN", help="The folder of the run; one that stopped goes on.")
    ],
    data: Annotated[
        str | None,
        typer.Option(
            "--data", metavar="DIR", help="Where the files are, or builtin.", show_default="the hub"
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model", "-m", help="Hub name, folder or .gguf file.", show_default="SmolLM2-135M-Instruct"
        ),
    ] = None,
    methods: Annotated[
        str, typer.Option("--methods", help="paper (those of its table), all, or names with commas.")
    ] = "paper",
    conventions: Annotated[
        ConventionsName,
        typer.Option("--conventions", help="ours, or the published protocol to the letter."),
    ] = ConventionsName.ours,
    evidence: Annotated[
        EvidenceKind | None,
        typer.Option("--evidence", help="Which words decide.", show_default="as in the conventions"),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="Only the first so many rows of each dataset.")
    ] = None,
    faithfulness: Annotated[
        float,
        typer.Option(
            "--faithfulness",
            min=0.0,
            max=0.99,
            metavar="SHARE",
            help="The share of tokens erased for comprehensiveness and sufficiency; 0: not measured.",
        ),
    ] = 0.2,
    pipeline: Annotated[
        str | None,
        typer.Option("--pipeline", help="spaCy pipeline that finds evidence where the files have none."),
    ] = None,
    batch_size: Annotated[
        int | None,
        typer.Option("--batch-size", min=1, help="Prompts of a run.", show_default="as many as pay"),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="For what is drawn: random scores, intervals.")] = 0,
    expect: Annotated[
        Path | None,
        typer.Option(
            "--expect", metavar="FILE", help="CSV of expected MRR; differences above 0.02 are listed."
        ),
    ] = None,
    source: Sources = None,
    target: Targets = None,
    gold: Gold = None,
    reverse_model: Reverse = None,
    sentences: Sentences = None,
    languages: Languages = None,
    dtype: Dtype = None,
    allow: Allow = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Measure how well explanations agree with evidence: MRR by dataset and method, with intervals.

    evaluate alignment: how well the words of translations are aligned, against human alignments.
    """
    if datasets == ["alignment"]:
        files = AlignmentFiles(source, target, gold, sentences, languages, limit)
        loading = dtype, allow or []
        evaluate_files((model, reverse_model), files, out, methods, loading=loading, json=json)
        return
    from ...evaluation import evaluate as run

    if expect is not None and not expect.is_file():
        raise InputError(
            f"There is no file {expect}.", "Give a CSV file: dataset, and a column for each method."
        )
    names = methods if methods in ("paper", "all") else [name.strip() for name in methods.split(",")]
    (loaded,) = open_models([model] if model else None, dtype=dtype, allow=allow or [])
    with show_progress(f"Evaluating {loaded.name} …"):
        report = run(
            loaded,
            datasets,
            out,
            data=data,
            methods=names,
            conventions=conventions.value,
            evidence=None if evidence is None else evidence.value,
            limit=limit,
            faithfulness=faithfulness or None,
            pipeline=pipeline,
            batch_size=batch_size,
            seed=seed,
        )
    if json:
        print_json(report.to_dict())
    else:
        print_reports([report])
        tell(f"{out}: examples.jsonl, skipped.jsonl, table.md, table.csv, table.tex")
        tell(f"Figures: whyword figures {out}")
    if expect is not None:
        _compare(expect, report)


def print_reports(reports: "list[Report]") -> None:
    """Print the table of MRR, and the signature of each run."""
    from rich.console import Console
    from rich.text import Text

    from ...evaluation.tables import lay_out, say_signature
    from ...view.sheet import print_sheet

    sheet = lay_out(reports, write=lambda cell: f"{cell.mean:.3f}")
    console = Console(highlight=False)
    print_sheet(replace(sheet, headings=tuple(map(_fold, sheet.headings))), console)
    for report in reports:
        console.print(Text(say_signature(report.settings), style="dim"), soft_wrap=True)


def _fold(heading: str) -> str:
    """Write a heading narrow, so that a table of one run fits 80 columns."""
    short = {"skipped": "skip", "accuracy": "acc.", "Distance": "dist."}.get(heading, heading)
    return short.replace("-", "-\n").replace(": ", ":\n").replace("Grad ", "Grad\n")


def _compare(path: Path, report: "Report") -> None:
    from ...evaluation import compare_with

    compared, differences = compare_with(path, report)
    for difference in differences:
        print(difference)
    print(f"{compared - len(differences)} of {compared} figures within 0.02 of {path}")
    if differences:
        raise typer.Exit(1)
