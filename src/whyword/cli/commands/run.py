"""whyword run: explain every row of a file."""

from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...attribute.methods import DEFAULT_METHOD, METHODS
from ..engine_options import ClusterAddress, EngineChoice, EngineName, Resources, WorkerCount, WorkerThreads
from ..interruption import keeping_interrupts, say_kept, when_stopped
from ..options import Depth
from ..reporting import (
    Allow,
    Debug,
    Dtype,
    Json,
    ModelName,
    StartToken,
    print_json,
    reporting,
    show_progress,
    tell,
)

if TYPE_CHECKING:
    from ...corpus.opened_run import OpenedRun

__all__ = ["run"]


class Unit(str, Enum):
    """What scores are added up by, beside words."""

    sentence = "sentence"
    line = "line"
    paragraph = "paragraph"
    turn = "turn"
    part = "part"


class Keep(str, Enum):
    """How much is written."""

    flow = "flow"
    blocks = "blocks"
    scores = "scores"


class ShardFormat(str, Enum):
    """How shards are written."""

    parquet = "parquet"
    jsonl = "jsonl"


class BadRows(str, Enum):
    """What becomes of rows that cannot be asked."""

    refuse = "refuse"
    write = "write"


@reporting
def run(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="JSONL, CSV, Parquet, or the folder of a Hugging Face dataset; columns prompt or messages, "
            "and target, foil, answer, parts, id.",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option("--out", metavar="DIR", help="Folder of the run; a run that was stopped is resumed."),
    ],
    model: ModelName = None,
    methods: Annotated[
        str,
        typer.Option("--methods", metavar="METHODS", help=f"Names with commas: {', '.join(METHODS)}."),
    ] = DEFAULT_METHOD,
    depth: Depth = None,
    by: Annotated[
        Unit | None,
        typer.Option(
            "--by",
            metavar="UNIT",
            help="Add up scores by sentence, line, paragraph, turn or part, beside words.",
            show_default="part, of rows that have parts",
        ),
    ] = None,
    keep: Annotated[
        Keep,
        typer.Option(
            "--keep",
            metavar="WHAT",
            help="How much is written: flow (everything), blocks (without heads and routes) or scores.",
        ),
    ] = Keep.flow,
    form: Annotated[
        ShardFormat, typer.Option("--format", metavar="FORMAT", help="parquet, or jsonl.")
    ] = ShardFormat.parquet,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, metavar="N", help="Use only the first N rows.")
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option(
            "--shard", metavar="I/N", help="Do the I-th of N shares of the work, for jobs of a queue."
        ),
    ] = None,
    shard_rows: Annotated[
        int,
        typer.Option("--shard-rows", min=1, metavar="N", help="Rows of a shard: of what is done at once."),
    ] = 512,
    bad_rows: Annotated[
        BadRows,
        typer.Option(
            "--bad-rows",
            metavar="WHAT",
            help="refuse rows that cannot be asked, or write them with the reason.",
        ),
    ] = BadRows.refuse,
    batch_size: Annotated[
        int | None,
        typer.Option(
            "--batch-size", min=1, metavar="N", help="Prompts of a batch.", show_default="as many as help"
        ),
    ] = None,
    max_memory: Annotated[
        str,
        typer.Option("--max-memory", metavar="SIZE", help="What a batch may take beyond the forward pass."),
    ] = "2GB",
    engine: EngineChoice = EngineName.local,
    workers: WorkerCount = 1,
    threads: WorkerThreads = 1,
    address: ClusterAddress = None,
    resources: Resources = None,
    start: StartToken = "auto",
    dtype: Dtype = None,
    allow: Allow = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Explain every row of a file, on this machine or a Ray cluster, and write a table of it."""
    with when_stopped(lambda: say_kept(out, _count_rows(out), "rows")), keeping_interrupts():
        from ...corpus.corpus_run import run as explain_file
        from ...runs.engine import read_resources
        from ..sources import quiet_transformers

        reserved = read_resources(resources)
        if engine is EngineName.local and workers == 1:  # otherwise nothing is loaded in this process
            quiet_transformers()
        with show_progress("Explaining …"):
            made = explain_file(
                model,
                file,
                out,
                methods=[name.strip() for name in methods.split(",")],
                depth=depth,
                by=None if by is None else by.value,
                keep=keep.value,
                format=form.value,
                limit=limit,
                shard=shard,
                shard_rows=shard_rows,
                bad_rows=bad_rows.value,
                batch_size=batch_size,
                max_memory=max_memory,
                engine=engine.value,
                workers=workers,
                threads=threads,
                address=address,
                resources=reserved,
                dtype=dtype,
                allow=allow or (),
                start=start,
            )
        if json:
            print_json(made.summary())
            return
        _print_summary(made)
        tell(f"{out}: rows-*.{form.value}, shards.jsonl, settings.json, summary.json")
        tell(f"Figures: whyword figures {out}  ·  page: whyword serve --run {out}")


def _count_rows(folder: Path) -> int:
    from ...corpus.run_journal import read_shard_lines

    return sum(line.rows for line in read_shard_lines(folder).values())


def _print_summary(made: "OpenedRun") -> None:
    from rich.console import Console

    from ...corpus.summary import lay_out_summary
    from ...view.sheet import print_sheet

    known = made.summary()
    sheet = lay_out_summary(known)
    print(sheet.title)
    print_sheet(replace(sheet, title=""), Console(highlight=False))
    for reason, count in known["reasons"].items():
        print(f"{count:,} × {reason}")
