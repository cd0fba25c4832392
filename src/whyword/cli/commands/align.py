"""whyword align: which word of the source each word of a translation comes from."""

import sys
from enum import Enum
from pathlib import Path
from shutil import copyfile
from typing import TYPE_CHECKING, Annotated

import typer

from ...errors import InputError
from ..interruption import count_lines, say_kept, when_stopped
from ..options import SourceLanguage, TargetLanguage, TranslationModel
from ..reporting import Allow, Debug, Dtype, Json, print_json, reporting, show_progress, tell
from ..sources import open_models, read_text

if TYPE_CHECKING:
    from ...alignment.word_scores import Settings
    from ...models import Model

__all__ = ["align"]


class AlignmentMethod(str, Enum):
    """The names of alignment.method_choice.ALIGNMENT_METHODS, which is not imported for --help."""

    combined = "combined"
    attention = "attention"
    vector_norms = "vector-norms"
    distance = "distance"
    smoothgrad = "smoothgrad"
    logit = "logit"
    logit_raw = "logit-raw"
    alti_logit = "alti-logit"


class Step(str, Enum):
    """The names of alignment.token_scores.STEPS."""

    output = "output"
    input = "input"


class Way(str, Enum):
    """The names of alignment.symmetry.SYMMETRISATIONS."""

    scores = "scores"
    intersection = "intersection"
    union = "union"
    grow_diag = "grow-diag"
    grow_diag_final = "grow-diag-final"


class Choice(str, Enum):
    """The names of alignment.linking.CHOICES."""

    mutual = "mutual"
    best = "best"


_STDOUT = "-"


class Words(str, Enum):
    """The names of alignment.words.WORDS."""

    auto = "auto"
    spaces = "spaces"
    characters = "characters"


class LineFormat(str, Enum):
    """The names of alignment.line_formats.LINE_FORMATS."""

    pharaoh = "pharaoh"
    pharaoh_1 = "pharaoh-1"
    talp = "talp"
    naacl = "naacl"
    jsonl = "jsonl"


@reporting
def align(
    text: Annotated[str | None, typer.Argument(metavar="SOURCE", help="A sentence.")] = None,
    translation: Annotated[str | None, typer.Argument(metavar="TRANSLATION", help="Its translation.")] = None,
    model: TranslationModel = None,
    source: Annotated[
        Path | None,
        typer.Option("--source", metavar="FILE", help="Sentences, one per line; - is standard input."),
    ] = None,
    target: Annotated[
        Path | None,
        typer.Option(
            "--target", metavar="FILE", help="Their translations; if both are -, with a tab between."
        ),
    ] = None,
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Links of files, - is standard output; one pair as .json, .html, .png, .svg, .csv, .talp or "
            ".pharaoh. May be given several times.",
        ),
    ] = None,
    method: Annotated[
        AlignmentMethod,
        typer.Option(
            "--method",
            metavar="METHOD",
            help="combined, attention, vector-norms, distance, smoothgrad, logit, logit-raw or alti-logit.",
        ),
    ] = AlignmentMethod.combined,
    block: Annotated[
        int | None,
        typer.Option(
            "--block", min=1, metavar="N", help="Read one decoder block.", show_default="all, or the best"
        ),
    ] = None,
    step: Annotated[
        Step,
        typer.Option(
            "--step",
            metavar="output|input",
            help="Read attention where a word is produced, or where it is consumed.",
        ),
    ] = Step.output,
    links: Annotated[
        Choice,
        typer.Option(
            "--links",
            metavar="mutual|best",
            help="Link words that are each other's best, and more by --recall; or every word.",
        ),
    ] = Choice.mutual,
    recall: Annotated[
        float | None,
        typer.Option(
            "--recall",
            metavar="R",
            help="From 0, only words that are each other's best, to 1: more links, fewer of them right.",
            show_default="0.6",
        ),
    ] = None,
    null: Annotated[
        float | None,
        typer.Option(
            "--null",
            metavar="N",
            help="Words with less evidence than this, 0 to 1, have no counterpart.",
            show_default="0.2",
        ),
    ] = None,
    words: Annotated[
        Words | None,
        typer.Option(
            "--words",
            metavar="auto|spaces|characters",
            help="Where words end: by what a text looks like, at spaces, or after each character of scripts "
            "without spaces.",
            show_default="auto, of files spaces",
        ),
    ] = None,
    form: Annotated[
        LineFormat,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="Of links of files: pharaoh (words count from 0), pharaoh-1, talp, naacl (from 1) or jsonl.",
        ),
    ] = LineFormat.pharaoh,
    reverse_model: Annotated[
        str | None,
        typer.Option(
            "--reverse-model", metavar="MODEL", help="One of the other direction, to symmetrise with."
        ),
    ] = None,
    symmetrise: Annotated[
        Way,
        typer.Option(
            "--symmetrise",
            metavar="WAY",
            help="How both directions are symmetrised: by scores, or by links (intersection, union, "
            "grow-diag, grow-diag-final).",
        ),
    ] = Way.scores,
    source_language: SourceLanguage = None,
    target_language: TargetLanguage = None,
    dtype: Dtype = None,
    allow: Allow = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Align the words of a translation with those of its source: of two texts, or of files line by line."""
    from ...document.kinds import ALIGNMENT_SCHEMA
    from ...view.saving import require_format

    files = source is not None or target is not None
    if files == (text is not None):
        raise InputError(
            "There are a sentence and files." if files else "There is nothing to align.",
            "Give a source and its translation, or --source, --target and -o.",
        )
    if model is None:
        raise InputError(
            "No model was named.", "Name a translation model, such as -m Helsinki-NLP/opus-mt-zh-en."
        )
    if files:
        sides, files_written = _require_files(source, target, output)
    else:
        if translation is None:
            raise InputError(
                "There is no translation.", 'Give it second: whyword align "..." "..." -m MODEL.'
            )
        read_text(f"{text} {translation}")
        for path in output or []:
            require_format(path, ALIGNMENT_SCHEMA)
    loaded = list(
        open_models([model, *([reverse_model] if reverse_model else [])], dtype=dtype, allow=allow or [])
    )
    from ...alignment.aligner import align_pair
    from ...alignment.linking import read_linking
    from ...alignment.method_choice import choose_settings
    from ...pipeline.one_translation import require_translator

    linking = read_linking(links.value, recall, null)
    languages = source_language, target_language
    with show_progress(f"Aligning with {loaded[0].name} …"):
        settings = choose_settings(require_translator(loaded[0]), method.value, block, step.value, linking)
        if files:
            split = Words.spaces if words is None else words
            _align_files(
                loaded, sides, files_written, settings, (form.value, languages, symmetrise.value, split.value)
            )
            return
        split = Words.auto if words is None else words
        pair = text or "", translation or ""
        found = align_pair(loaded, pair, settings, languages, symmetrise.value, split.value)
    for path in output or []:
        found.save(path)
        tell(f"Saved {path}")
    if json:
        print_json(found.to_dict())
    else:
        found.show()
        sys.stdout.flush()


def _require_files(
    source: Path | None, target: Path | None, output: list[Path] | None
) -> tuple[tuple[Path, Path], list[Path]]:
    from ...alignment.parallel_files import require_sides

    sides = require_sides(source, target)
    if not output:
        raise InputError(
            "There is no output.", "Name a file for the links: -o FILE, or -o - for standard output."
        )
    if len(output) > 1 and _STDOUT in map(str, output):
        raise InputError("Links go to standard output and to files.", "Give -o - alone, or name all files.")
    for path in output:
        if not path.parent.is_dir():
            raise InputError(f"There is no folder {path.parent}.", "Make it first, or write somewhere else.")
    return sides, output


def _align_files(
    models: "list[Model]",
    sides: tuple[Path, Path],
    outputs: list[Path],
    settings: "Settings",
    written: tuple[str, tuple[str | None, str | None], str, str],
) -> None:
    """Align files, and say how fast it was and what was skipped."""
    from rich.markup import escape

    from ...alignment.file_runs import align_files

    form, languages, way, words = written
    output, *copies = outputs
    part = output.with_name(f"{output.name}.part")
    with when_stopped(lambda: say_kept(part, max(0, count_lines(part) - 1), "lines")):
        done = align_files(
            models, sides, output, settings, form=form, languages=languages, way=way, words=words
        )
    for copied in copies:
        copyfile(output, copied)
    for path in outputs if str(output) != _STDOUT else ():
        tell(f"Saved {path}: {done.lines:,} lines, {form}")
    tell(str(done.speed))
    if done.skipped.count:
        more = "" if done.listed is None else f"; all are in {done.listed}"
        tell(f"{done.skipped.count:,} lines have no links because they cannot be aligned{more}:")
        for number, reason in done.skipped.first:
            tell(escape(f"  line {number:,}: {reason}"))
