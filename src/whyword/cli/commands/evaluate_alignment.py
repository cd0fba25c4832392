"""whyword evaluate alignment: every method in every decoder block against human alignments."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...errors import InputError
from ..reporting import print_json, show_progress, tell
from ..sources import open_models

if TYPE_CHECKING:
    from ...alignment.gold_evaluation import AlignmentReport

__all__ = [
    "AlignmentFiles",
    "Gold",
    "Languages",
    "Reverse",
    "Sentences",
    "Sources",
    "Targets",
    "evaluate_files",
]

Sources = Annotated[
    Path | None,
    typer.Option("--source", metavar="FILE", help="alignment: sentences, spaces between words."),
]
Targets = Annotated[
    Path | None, typer.Option("--target", metavar="FILE", help="alignment: their translations.")
]
Gold = Annotated[
    Path | None,
    typer.Option("--gold", metavar="FILE", help="alignment: human links, as talp, pharaoh or naacl."),
]
Reverse = Annotated[
    str | None,
    typer.Option(
        "--reverse-model", metavar="MODEL", help="alignment: of the other direction, to symmetrise with."
    ),
]
Sentences = Annotated[
    str | None,
    typer.Option(
        "--sentences", metavar="N,N", help="alignment: which to draw.", show_default="three short ones"
    ),
]
Languages = Annotated[
    str | None,
    typer.Option(
        "--languages", metavar="CODE,CODE", help="alignment: of source and target, of a model of many."
    ),
]


@dataclass(frozen=True)
class AlignmentFiles:
    """What `evaluate alignment` reads."""

    source: Path | None
    target: Path | None
    gold: Path | None
    sentences: str | None
    languages: str | None
    limit: int | None


def evaluate_files(
    names: tuple[str | None, str | None],
    files: AlignmentFiles,
    out: Path,
    methods: str,
    *,
    loading: tuple[str | None, list[str]],
    json: bool,
) -> None:
    """Evaluate a model (names: and one of the other direction), write the run, print the table."""
    from ...alignment.gold_evaluation import Asked, evaluate_alignment, read_methods
    from ...alignment.gold_report import write_report, write_sentences
    from ...alignment.links import read_links
    from ...alignment.parallel_files import read_words

    words = read_words(files.source, files.target)
    if files.gold is None:
        raise InputError("There is no --gold.", "Give a file of human links: talp, pharaoh or naacl.")
    if names[0] is None:
        raise InputError(
            "No model was named.", "Name a translation model, such as -m Helsinki-NLP/opus-mt-zh-en."
        )
    chosen, gold = read_methods(methods), read_links(files.gold)
    tell(
        f"{files.gold}: {gold.form}, {len(gold.sentences)} sentences, words count from {gold.base} (assumed)"
    )
    numbers = _read_numbers(files.sentences, len(words))
    if files.limit is not None:
        from ...alignment.links import require_parallel

        require_parallel(gold, str(files.gold), len(words))
        words, gold = words[: files.limit], gold.first(files.limit)
    first, _, second = (files.languages or "").partition(",")
    asked = Asked(words, gold, chosen, (first.strip() or None, second.strip() or None), str(files.gold))
    models = list(open_models([name for name in names if name], dtype=loading[0], allow=loading[1]))
    with show_progress(f"Aligning with {models[0].name} …"):
        report = evaluate_alignment(models[0], asked, out, models[1] if len(models) > 1 else None)
        paths = [*write_report(report, out), *write_sentences(models[0], asked, out, numbers)]
    if json:
        print_json(
            [
                {
                    "method": each.settings.method,
                    "step": each.settings.step,
                    "block": each.settings.block,
                    "direction": each.direction,
                    "aer": each.score.aer,
                    "precision": each.score.precision,
                    "recall": each.score.recall,
                }
                for each in report.measured
            ]
        )
    else:
        _print(report)
    tell(f"{out}: {', '.join(path.name for path in paths)}")


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
