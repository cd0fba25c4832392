"""whyword evaluate alignment: every method in every decoder block against human alignments."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...errors import InputError
from ..interruption import count_lines, say_kept, when_stopped
from ..options import (
    RunFolder,
    SourceFile,
    SourceLanguage,
    TargetFile,
    TargetLanguage,
    TranslationModel,
    moved,
)
from ..reporting import Allow, Debug, Dtype, Json, print_json, reporting, show_progress, tell
from ..sources import open_models

if TYPE_CHECKING:
    from ...alignment.gold_evaluation import AlignmentReport

__all__ = ["evaluate_alignment"]


@reporting
def evaluate_alignment(
    out: RunFolder,
    source: SourceFile = None,
    target: TargetFile = None,
    gold: Annotated[
        Path | None,
        typer.Option("--gold", metavar="FILE", help="Human links, as talp, pharaoh or naacl."),
    ] = None,
    base: Annotated[
        int | None,
        typer.Option(
            "--base",
            min=0,
            max=1,
            metavar="0|1",
            help="Words of the human links count from 0 or 1.",
            show_default="0 where an index is 0",
        ),
    ] = None,
    model: TranslationModel = None,
    reverse_model: Annotated[
        str | None,
        typer.Option(
            "--reverse-model", metavar="MODEL", help="One of the other direction, to symmetrise with."
        ),
    ] = None,
    methods: Annotated[
        str, typer.Option("--methods", metavar="METHODS", help="paper, all, or names with commas.")
    ] = "paper",
    sentences: Annotated[
        str | None,
        typer.Option(
            "--sentences", metavar="N,N", help="Which sentences to draw.", show_default="three short ones"
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, metavar="N", help="Use only the first N sentences.")
    ] = None,
    source_language: SourceLanguage = None,
    target_language: TargetLanguage = None,
    dtype: Dtype = None,
    allow: Allow = None,
    json: Json = False,
    debug: Debug = False,
    languages: Annotated[
        str | None,
        moved(
            "--languages",
            "--languages is now two options.",
            lambda codes: "Give --source-language {0} --target-language {2}.".format(*codes.partition(",")),
        ),
    ] = None,
) -> None:
    """Measure how well the words of translations are aligned, against human alignments, in every block."""
    from ...alignment.gold_evaluation import Asked, read_methods
    from ...alignment.gold_evaluation import evaluate_alignment as run
    from ...alignment.gold_report import write_report, write_sentences
    from ...alignment.links import read_links, require_parallel
    from ...alignment.parallel_files import read_words

    words = read_words(source, target)
    if gold is None:
        raise InputError("There is no --gold.", "Give a file of human links: talp, pharaoh or naacl.")
    if model is None:
        raise InputError(
            "No model was named.", "Name a translation model, such as -m Helsinki-NLP/opus-mt-zh-en."
        )
    chosen, links = read_methods(methods), read_links(gold, base=base)
    how = "assumed" if links.assumed else "as given"
    tell(f"{gold}: {links.form}, {len(links.sentences)} sentences, words count from {links.base} ({how})")
    numbers = _read_numbers(sentences, len(words))
    if limit is not None:
        require_parallel(links, str(gold), len(words))
        words, links = words[:limit], links.first(limit)
    asked = Asked(words, links, chosen, (source_language, target_language), str(gold))
    models = list(
        open_models([name for name in (model, reverse_model) if name], dtype=dtype, allow=allow or ())
    )
    kept = out / "sentences.jsonl"
    with (
        when_stopped(lambda: say_kept(out, count_lines(kept), "sentences")),
        show_progress(f"Aligning with {models[0].name} …"),
    ):
        report = run(models[0], asked, out, models[1] if len(models) > 1 else None)
        paths = [*write_report(report, out), *write_sentences(models[0], asked, out, numbers)]
    if json:
        print_json(_describe(report))
    else:
        _print(report)
    tell(f"{out}: {', '.join(path.name for path in paths)}")


def _describe(report: "AlignmentReport") -> list[dict[str, object]]:
    return [
        {
            "method": each.settings.method,
            "step": each.settings.step,
            "block": each.settings.block,
            "direction": each.direction,
            "aer": each.score.aer,
            "interval": list(each.interval),
            "precision": each.score.precision,
            "recall": each.score.recall,
        }
        for each in report.measured
    ]


def _print(report: "AlignmentReport") -> None:
    from rich.console import Console
    from rich.text import Text

    from ...alignment.gold_report import lay_out
    from ...view.sheet import print_sheet

    console = Console(highlight=False)
    print_sheet(replace(lay_out(report), title="Alignment error rate, %"), console)
    console.print(Text(f"{report.model}, {report.sentences} pairs", style="dim"))


def _read_numbers(sentences: str | None, most: int) -> list[int]:
    written = [each.strip() for each in (sentences or "").split(",") if each.strip()]
    wrong = [each for each in written if not each.isdecimal() or not 1 <= int(each) <= most]
    if wrong:
        raise InputError(f"--sentences has {wrong[0]!r}.", f"Name lines from 1 to {most}, with commas.")
    return [int(each) for each in written]
