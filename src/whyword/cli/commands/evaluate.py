"""whyword evaluate: do explanations point at the words that grammar says matter?"""

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...errors import InputError
from ..engine_options import ClusterAddress, EngineChoice, EngineName, Resources, WorkerCount
from ..interruption import count_lines, keeping_interrupts, say_kept, when_stopped
from ..options import DataFolder, DatasetNames, RunFolder, moved
from ..reporting import Allow, Debug, Dtype, Json, ModelName, print_json, reporting, show_progress, tell
from ..sources import open_models

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


def _of_alignment(option: str) -> Any:
    """Refuse an option of the other command."""
    return moved(
        option,
        f"whyword evaluate has no {option}: it is about datasets.",
        lambda _: f"Word alignments: whyword evaluate alignment {option} …",
    )


@reporting
def evaluate(
    datasets: DatasetNames,
    out: RunFolder,
    data: DataFolder = None,
    model: ModelName = None,
    methods: Annotated[
        str | None,
        typer.Option(
            "--methods",
            metavar="METHODS",
            help="paper (those of its table), sources, all, or names with commas; flow@9: at depth 9.",
            show_default="flow and those of the paper (with --conventions paper, only these); of documents "
            "and turns, sources",
        ),
    ] = None,
    conventions: Annotated[
        ConventionsName,
        typer.Option(
            "--conventions", metavar="NAME", help="ours, or paper: the published protocol to the letter."
        ),
    ] = ConventionsName.ours,
    evidence: Annotated[
        EvidenceKind | None,
        typer.Option(
            "--evidence",
            metavar="KIND",
            help="Which words decide: word, phrase or paper.",
            show_default="as in the conventions",
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", min=1, metavar="N", help="Use only the first N rows of each dataset."),
    ] = None,
    faithfulness: Annotated[
        float,
        typer.Option(
            "--faithfulness",
            min=0.0,
            max=0.99,
            metavar="SHARE",
            help="Share of tokens erased for comprehensiveness and sufficiency; 0: not measured.",
        ),
    ] = 0.2,
    swaps: Annotated[
        int,
        typer.Option(
            "--swaps",
            min=0,
            metavar="N",
            help="Swap each token for N random words, and compare what changes with the scores; 0: do not.",
        ),
    ] = 0,
    swap_depths: Annotated[
        str,
        typer.Option(
            "--swap-depths",
            metavar="DEPTHS",
            help="Where: input (the token), or depths of the residual stream, with commas.",
        ),
    ] = "input",
    pipeline: Annotated[
        str | None,
        typer.Option(
            "--pipeline", metavar="NAME", help="spaCy pipeline that finds evidence where files have none."
        ),
    ] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(
            "--batch-size", min=1, metavar="N", help="Prompts of a run.", show_default="as many as help"
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", help="For random scores and bootstrap intervals.")
    ] = 0,
    expect: Annotated[
        Path | None,
        typer.Option(
            "--expect", metavar="FILE", help="CSV of expected MRR; differences above 0.02 are listed."
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--start",
            metavar="TOKEN",
            help="What stands before a text: auto, none, bos, tokenizer, or a token.",
            show_default="auto; with --conventions paper, tokenizer",
        ),
    ] = None,
    engine: EngineChoice = EngineName.local,
    workers: WorkerCount = 1,
    address: ClusterAddress = None,
    resources: Resources = None,
    dtype: Dtype = None,
    allow: Allow = None,
    json: Json = False,
    debug: Debug = False,
    source: Annotated[str | None, _of_alignment("--source")] = None,
    target: Annotated[str | None, _of_alignment("--target")] = None,
    gold: Annotated[str | None, _of_alignment("--gold")] = None,
    reverse_model: Annotated[str | None, _of_alignment("--reverse-model")] = None,
    sentences: Annotated[str | None, _of_alignment("--sentences")] = None,
) -> None:
    """Measure how well explanations agree with evidence: MRR by dataset and method, with intervals."""
    from ...evaluation import evaluate as run
    from ...pipeline.model_source import find_model
    from ...runs.engine import Workers, read_resources

    if "alignment" in datasets:
        raise InputError(
            "alignment is not a dataset but a command of two words.",
            "Put it first: whyword evaluate alignment --source FILE --target FILE --gold FILE --out RUN.",
        )
    if expect is not None and not expect.is_file():
        raise InputError(
            f"There is no file {expect}.", "Give a CSV file: dataset, and a column for each method."
        )
    sets = (None, "paper", "sources", "all")
    names = methods if methods in sets else [name.strip() for name in str(methods).split(",")]
    crew = Workers(workers, address=address, resources=read_resources(resources))
    (loaded,) = open_models([model] if model else None, dtype=dtype, allow=allow or [])
    kept = out / "examples.jsonl"
    with (
        when_stopped(lambda: say_kept(out, count_lines(kept), "examples")),
        keeping_interrupts(),
        show_progress(f"Evaluating {loaded.name} …"),
    ):
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
            start=start,
            swaps=swaps or None,
            swap_depths=[_read_place(place) for place in swap_depths.split(",")],
            engine=engine.value,
            workers=crew,
            source=find_model(model, crew, dtype=dtype, allow=allow or ()),
        )
    if json:
        print_json(report.to_dict())
    else:
        from rich.console import Console

        from ...evaluation.printed_tables import print_reports

        print_reports([report], Console(highlight=False))
        tell(f"{out}: examples.jsonl, skipped.jsonl, table.md, table.csv, table.tex")
        tell(f"Figures: whyword figures {out}")
    if expect is not None:
        _compare(expect, report)


def _read_place(place: str) -> int | None:
    place = place.strip()
    if place == "input":
        return None
    if not place.isdecimal():
        raise InputError(f"--swap-depths has {place!r}.", "Give input, or numbers of depths, with commas.")
    return int(place)


def _compare(path: Path, report: "Report") -> None:
    from ...evaluation import compare_with

    compared, differences = compare_with(path, report)
    for difference in differences:
        print(difference)
    print(f"{compared - len(differences)} of {compared} figures within 0.02 of {path}")
    if differences:
        raise typer.Exit(1)
