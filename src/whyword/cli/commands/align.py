"""whyword align: which word of the source each word of a translation comes from."""

import sys
from pathlib import Path
from shutil import copyfile
from typing import TYPE_CHECKING, Annotated

import typer

from ...errors import InputError
from ..alignment_options import (
    AlignedFiles,
    AlignmentMethod,
    BlockNumber,
    Choice,
    FileThreads,
    FormatChoice,
    LineFormat,
    LinkChoice,
    MethodChoice,
    NullShare,
    RecallShare,
    ReverseModel,
    SourceFile,
    Step,
    StepChoice,
    TargetFile,
    Way,
    WayChoice,
    WordChoice,
    Words,
)
from ..engine_options import ClusterAddress, EngineChoice, EngineName, Resources, WorkerCount
from ..interruption import keeping_interrupts, say_kept, when_stopped
from ..options import SourceLanguage, TargetLanguage, TranslationModel
from ..reporting import Allow, Debug, Dtype, Json, print_json, reporting, show_progress, tell
from ..sources import open_models, read_text

if TYPE_CHECKING:
    from ...alignment.word_scores import Settings
    from ...models import Model
    from ...pipeline.model_source import ModelSource
    from ...runs.engine import Workers

__all__ = ["align"]

_STDOUT = "-"


@reporting
def align(
    text: Annotated[str | None, typer.Argument(metavar="SOURCE", help="A sentence.")] = None,
    translation: Annotated[str | None, typer.Argument(metavar="TRANSLATION", help="Its translation.")] = None,
    model: TranslationModel = None,
    source: SourceFile = None,
    target: TargetFile = None,
    output: AlignedFiles = None,
    method: MethodChoice = AlignmentMethod.combined,
    block: BlockNumber = None,
    step: StepChoice = Step.output,
    links: LinkChoice = Choice.mutual,
    recall: RecallShare = None,
    null: NullShare = None,
    words: WordChoice = None,
    form: FormatChoice = LineFormat.pharaoh,
    reverse_model: ReverseModel = None,
    symmetrise: WayChoice = Way.scores,
    source_language: SourceLanguage = None,
    target_language: TargetLanguage = None,
    engine: EngineChoice = EngineName.local,
    workers: WorkerCount = 1,
    threads: FileThreads = None,
    address: ClusterAddress = None,
    resources: Resources = None,
    dtype: Dtype = None,
    allow: Allow = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Align the words of a translation with those of its source: of two texts, or of files line by line."""
    from ...document.kinds import ALIGNMENT_SCHEMA
    from ...runs.engine import Workers, read_resources
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
    crew = Workers(workers, threads, address, read_resources(resources))
    if files:
        sides, files_written = _require_files(source, target, output)
        _require_engine(sides, engine.value, crew)
    else:
        if crew != Workers() or engine is not EngineName.local:
            raise InputError(
                "There are options of workers, and one sentence.",
                "They are for files: leave --engine, --workers, --threads, --address and --resources out.",
            )
        if translation is None:
            raise InputError(
                "There is no translation.", 'Give it second: whyword align "..." "..." -m MODEL.'
            )
        read_text(f"{text} {translation}")
        for path in output or []:
            require_format(path, ALIGNMENT_SCHEMA)
    names = [model, *([reverse_model] if reverse_model else [])]
    loaded = list(open_models(names, dtype=dtype, allow=allow or []))
    from ...alignment.aligner import align_pair
    from ...alignment.linking import read_linking
    from ...alignment.method_choice import choose_settings
    from ...pipeline.model_source import find_model
    from ...pipeline.one_translation import require_translator

    linking = read_linking(links.value, recall, null)
    languages = source_language, target_language
    with show_progress(f"Aligning with {loaded[0].name} …"):
        settings = choose_settings(require_translator(loaded[0]), method.value, block, step.value, linking)
        if files:
            split = Words.spaces if words is None else words
            written = form.value, languages, symmetrise.value, split.value
            opened = [find_model(name, crew, dtype=dtype, allow=allow or ()) for name in names]
            _align_files((loaded, opened), sides, files_written, settings, written, (engine.value, crew))
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


def _require_engine(sides: tuple[Path, Path], engine: str, workers: "Workers") -> None:
    """Refuse what no engine does, before a model is loaded."""
    from ...alignment.parallel_files import require_shareable
    from ...runs.engine import choose_engine

    choose_engine(engine, workers)
    require_shareable(sides, engine, workers)


def _align_files(
    models: "tuple[list[Model], list[ModelSource]]",
    sides: tuple[Path, Path],
    outputs: list[Path],
    settings: "Settings",
    written: tuple[str, tuple[str | None, str | None], str, str],
    where: "tuple[str, Workers]",
) -> None:
    """Align files, and say how fast it was and what was skipped."""
    from rich.markup import escape

    from ...alignment.file_runs import align_files
    from ...alignment.finished_windows import count_finished, name_part

    form, languages, way, words = written
    output, *copies = outputs
    part = name_part(output)
    with when_stopped(lambda: say_kept(part, count_finished(part), "lines")), keeping_interrupts():
        done = align_files(
            models[0],
            sides,
            output,
            settings,
            form=form,
            languages=languages,
            way=way,
            words=words,
            engine=where[0],
            workers=where[1],
            sources=models[1],
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
