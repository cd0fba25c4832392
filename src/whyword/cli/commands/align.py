"""whyword align: which word of the source each word of a translation comes from."""

import sys
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...errors import InputError
from ..interruption import count_lines, say_kept, when_stopped
from ..options import SourceFile, SourceLanguage, TargetFile, TargetLanguage, TranslationModel
from ..reporting import Allow, Debug, Dtype, Json, print_json, reporting, show_progress, tell
from ..sources import open_models

if TYPE_CHECKING:
    from ...alignment.aligner import Settings
    from ...models import Model

__all__ = ["align"]


class AlignmentMethod(str, Enum):
    """The names of alignment.aligner.ALIGNMENT_METHODS, which is not imported for --help."""

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

    intersection = "intersection"
    union = "union"
    grow_diag = "grow-diag"
    grow_diag_final = "grow-diag-final"


class Choice(str, Enum):
    """The names of alignment.alignment.CHOICES."""

    best = "best"
    mutual = "mutual"


class LinkFormat(str, Enum):
    """How links are written, a line per sentence."""

    pharaoh = "pharaoh"
    talp = "talp"


@reporting
def align(
    text: Annotated[str | None, typer.Argument(metavar="SOURCE", help="A sentence.")] = None,
    translation: Annotated[str | None, typer.Argument(metavar="TRANSLATION", help="Its translation.")] = None,
    model: TranslationModel = None,
    source: SourceFile = None,
    target: TargetFile = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write links of files here; one pair as .json, .html, .png, .svg, .csv, .talp or .pharaoh.",
        ),
    ] = None,
    method: Annotated[
        AlignmentMethod,
        typer.Option(
            "--method",
            metavar="METHOD",
            help="attention, vector-norms, distance, smoothgrad, logit, logit-raw or alti-logit.",
        ),
    ] = AlignmentMethod.logit,
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
            metavar="best|mutual",
            help="Link every word of the translation, or only words that are each other's best.",
        ),
    ] = Choice.best,
    form: Annotated[
        LinkFormat, typer.Option("--format", metavar="pharaoh|talp", help="How links of files are written.")
    ] = LinkFormat.pharaoh,
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
            help="How both directions are symmetrised: intersection, union, grow-diag or grow-diag-final.",
        ),
    ] = Way.grow_diag_final,
    source_language: SourceLanguage = None,
    target_language: TargetLanguage = None,
    dtype: Dtype = None,
    allow: Allow = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Align the words of a translation with those of its source: of two texts, or of files line by line."""
    from ...alignment.parallel_files import read_words
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
    languages = source_language, target_language
    if files:
        words = read_words(source, target)
        if output is None:
            raise InputError("There is no output.", "Name a file for the links: -o FILE.")
        if not output.parent.is_dir():
            raise InputError(
                f"There is no folder {output.parent}.", "Make it first, or write somewhere else."
            )
    else:
        if translation is None:
            raise InputError(
                "There is no translation.", 'Give it second: whyword align "..." "..." -m MODEL.'
            )
        if output is not None:
            require_format(output, ALIGNMENT_SCHEMA)
    loaded = list(
        open_models([model, *([reverse_model] if reverse_model else [])], dtype=dtype, allow=allow or [])
    )
    with show_progress(f"Aligning with {loaded[0].name} …"):
        settings = _settings(loaded[0], method, block, step, links)
        if files:
            assert output is not None
            from ...alignment.file_runs import Reverse, align_files

            other = None
            if len(loaded) == 2:
                turned = languages[::-1]
                other = Reverse(
                    loaded[1], _settings(loaded[1], method, block, step, links), symmetrise.value, turned
                )
            part = output.with_name(f"{output.name}.part")
            with when_stopped(lambda: say_kept(part, max(0, count_lines(part) - 1), "lines")):
                done = align_files(
                    loaded[0], words, output, settings, form=form.value, languages=languages, reverse=other
                )
            tell(f"Saved {output}: {done} lines, {form.value}")
            return
        _align_texts(
            loaded, (text or "", translation or ""), settings, languages, (symmetrise.value, output, json)
        )


def _settings(
    model: "Model", method: AlignmentMethod, block: int | None, step: Step, links: Choice
) -> "Settings":
    from ...alignment.aligner import choose_settings
    from ...pipeline.one_translation import require_translator

    return choose_settings(require_translator(model), method.value, block, step.value, links.value)


def _align_texts(
    models: "list[Model]",
    texts: tuple[str, str],
    settings: "Settings",
    languages: tuple[str | None, str | None],
    shown: tuple[str, Path | None, bool],
) -> None:
    """Align one pair and show it."""
    from ...alignment.aligner import align_pair

    way, output, json = shown
    found = align_pair(models, texts, settings, languages, way)
    if output is not None:
        found.save(output)
        tell(f"Saved {output}")
    if json:
        print_json(found.to_dict())
    else:
        found.show()
        sys.stdout.flush()
