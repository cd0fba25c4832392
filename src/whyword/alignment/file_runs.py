"""Align files line by line, in runs that can be stopped and resumed; memory does not grow with the files.

Files are cut into windows of lines, and batches are cut inside a window: links are the same whichever worker
finds them, and after whatever stops. Finished windows are collected in a file next to the output; when all
are done it becomes the output. So the output is complete or absent, and results of different settings are
never mixed. Lines that cannot be aligned have no links; they are listed with their numbers.
"""

import logging
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..models.model import Model
from ..pipeline.model_source import ModelSource, choose_source
from ..pipeline.one_translation import require_translator
from ..runs.engine import Engine, Job, Workers, choose_engine, count_threads, put_in_order
from ..runs.fingerprint import fingerprint_network
from ..runs.progress import report
from ..runs.single_writer import write_file_alone
from ..runs.whole_files import write_aside
from ..tokens.languages import speak
from .aligner import align_each
from .finished_windows import FinishedWindows, Written, name_part, open_windows
from .line_formats import LINE_FORMATS
from .parallel_files import (
    STANDARD,
    LinePair,
    Survey,
    read_window,
    require_shareable,
    stream_pairs,
    survey,
)
from .symmetry import SCORES
from .throughput import Counted, Meter, Throughput
from .word_scores import Refused, Settings, look_ahead

__all__ = ["FileRun", "Skipped", "align_files"]

_LISTED = 10
"""How many skipped lines are named in messages; the file has all of them."""
_logger = logging.getLogger("whyword")


@dataclass
class Skipped:
    """Lines that could not be aligned."""

    count: int = 0
    first: list[tuple[int, str]] = field(default_factory=list)
    """Numbers, counted from 1, and reasons."""

    def add(self, number: int, reason: str) -> None:
        """Count a line."""
        self.count += 1
        if self.count <= _LISTED:
            self.first.append((number, reason))


@dataclass(frozen=True)
class FileRun:
    """What a run did."""

    lines: int
    skipped: Skipped
    speed: Throughput
    listed: Path | None
    """The file that lists all lines that were skipped."""


@dataclass(frozen=True)
class _Aligned:
    """What a worker sends back of a window."""

    written: list[Written]
    counted: Counted


@dataclass(frozen=True)
class _Work:
    """What every worker is given."""

    models: tuple[ModelSource, ...]
    settings: Settings
    languages: tuple[str | None, str | None]
    way: str
    words: str
    form: str

    def begin(self) -> Callable[[list[LinePair]], _Aligned]:
        """Open the models, and return what aligns a window."""
        return partial(self._align, [source.open() for source in self.models], Meter())

    def _align(self, models: Sequence[Model], meter: Meter, window: list[LinePair]) -> _Aligned:
        before, sound = meter.counted, [line for line in window if line.wrong is None]
        pairs = [(line.source, line.target) for line in sound]
        aligned = align_each(models, pairs, self.settings, self.languages, self.way, self.words, meter=meter)
        found = dict(zip((line.number for line in sound), aligned, strict=True))
        write, written = LINE_FORMATS[self.form], []
        for line in window:
            alignment = found.get(line.number)
            refused = alignment.error.wrong if isinstance(alignment, Refused) else line.wrong
            links = None if isinstance(alignment, Refused) else alignment
            written.append((write(line.number, links, refused), refused))
        return _Aligned(written, meter.counted - before)


def align_files(
    models: Sequence[Model],
    sides: tuple[Path, Path],
    output: Path,
    settings: Settings,
    *,
    form: str = "pharaoh",
    languages: tuple[str | None, str | None] = (None, None),
    way: str = SCORES,
    words: str = "spaces",
    engine: str = "local",
    workers: int | Workers = 1,
    sources: Sequence[ModelSource] | None = None,
) -> FileRun:
    """Align parallel files and write the links of every line, in the order of the lines.

    `models`: one, or one of each direction, which are symmetrised by `way`. `-` is standard input or output;
    a run that writes to standard output cannot be resumed. `engine`, `workers`: where lines are aligned (see
    `run`); links are the same for the same number of threads. `sources`: where other processes find the
    models; None: they are sent.
    """
    if form not in LINE_FORMATS:
        raise InputError(f"The format is {form!r}.", f"Formats: {', '.join(LINE_FORMATS)}.")
    for model, codes in zip(models, (languages, languages[::-1]), strict=False):
        _require_languages(require_translator(model), codes)
    crew = Workers(workers) if isinstance(workers, int) else workers
    chosen = choose_engine(engine, crew)
    require_shareable(sides, engine, crew)
    known = survey(*sides, look_ahead([settings.method]))
    named: Sequence[ModelSource | None] = sources or [None] * len(models)
    found = tuple(choose_source(chosen, model, source) for model, source in zip(models, named, strict=True))
    work = _Work(found, settings, languages, way, words, form)
    run = _Run(chosen, work, sides, known, crew.count)
    if output == STANDARD:
        with chosen.working():
            return _pass_through(run)
    about = _describe(models, work, known, count_threads(engine, crew))
    with write_file_alone(output), chosen.working():
        return _write(run, open_windows(name_part(output), about, known), output)


@dataclass(frozen=True)
class _Run:
    """Who aligns which lines."""

    engine: Engine
    work: _Work
    sides: tuple[Path, Path]
    known: Survey
    workers: int
    began: float = field(default_factory=time.perf_counter)

    def align(self, numbers: Sequence[int]) -> Generator[tuple[int, _Aligned], None, None]:
        """Align windows, in any order."""
        return self.engine.map(Job(partial(read_window, self.sides, self.known), self.work.begin), numbers)

    def stream(self, first: int) -> Generator[tuple[int, _Aligned], None, None]:
        """Align what comes from standard input, window after window, without those before `first`."""
        size, align = self.known.window, self.work.begin()
        rest = islice(stream_pairs(*self.sides), first * size, None)
        for number in count(first):
            if not (window := [*islice(rest, size)]):
                return
            yield number, self.engine.call(partial(align, window))

    def read(self, counted: Counted) -> Throughput:
        """Return how fast it was."""
        workers = max(1, min(self.workers, self.known.windows))
        return counted.read(time.perf_counter() - self.began, workers)


def _write(run: _Run, finished: FinishedWindows, output: Path) -> FileRun:
    """Align what is not finished, and write the output when all is."""
    if finished.lines:
        _logger.info(f"{finished.path}: {finished.lines:,} lines are done, resuming.")
    numbers, counted = [each for each in range(run.known.windows) if each not in finished], Counted()
    standard = run.known.lines is None
    results = run.stream(len(finished.places)) if standard else run.align(numbers)
    with closing(results):
        for number, aligned in results:
            finished.append(number, aligned.written)
            counted += aligned.counted
            report("pairs", finished.lines, run.known.lines)
    try:
        skipped, listed = _finish(finished, output)
    except OSError as error:
        raise InputError(
            f"{output} cannot be written: {error.strerror}.",
            "Choose a place that you may write to and that has free space.",
        ) from None
    return FileRun(finished.lines, skipped, run.read(counted), listed)


def _pass_through(run: _Run) -> FileRun:
    """Write links to standard output, in the order of the lines."""
    skipped, counted, done, numbers = Skipped(), Counted(), 0, range(run.known.windows)
    results = run.stream(0) if run.known.lines is None else put_in_order(numbers, run.align(numbers))
    with closing(results):
        for _, aligned in results:
            for text, wrong in aligned.written:
                done += 1
                if wrong is not None:
                    skipped.add(done, wrong)
                sys.stdout.write(text)
            sys.stdout.flush()
            counted += aligned.counted
            report("pairs", done, run.known.lines)
    return FileRun(done, skipped, run.read(counted), None)


def _finish(finished: FinishedWindows, output: Path) -> tuple[Skipped, Path | None]:
    """Write the output, and the list of what was skipped, from the finished windows."""
    skipped, listed = Skipped(), output.with_name(f"{output.name}.skipped")
    with (
        write_aside(output) as whole,
        write_aside(listed) as wrong,
        whole.open("w", encoding="utf-8", newline="\n") as links,
        wrong.open("w", encoding="utf-8", newline="\n") as why,
    ):
        for number, (text, reason) in enumerate(finished.read(), 1):
            links.write(text)
            if reason is not None:
                skipped.add(number, reason)
                why.write(f"{number}\t{reason}\n")
    finished.path.unlink()
    if skipped.count:
        return skipped, listed
    listed.unlink()
    return skipped, None


def _require_languages(model: Model, codes: tuple[str | None, str | None]) -> None:
    """Refuse language codes that the model does not know, once and not for every line."""
    if model.tokenizer is not None:
        with speak(model.tokenizer, *codes):
            pass


def _describe(models: Sequence[Model], work: _Work, known: Survey, threads: int) -> dict[str, Any]:
    """Describe a run: it is only resumed with the same settings."""
    return {
        "models": [
            [model.name, fingerprint_network(model.network)[:12], str(model.dtype)] for model in models
        ],
        **asdict(work.settings),
        "symmetrised": work.way if len(models) > 1 else None,
        "format": work.form,
        "languages": work.languages,
        "words": work.words,
        "sentences": known.content,
        "device": [
            source.device or model.device.type for source, model in zip(work.models, models, strict=True)
        ],
        "lines of a window": known.window,
        "threads": threads,
    }
