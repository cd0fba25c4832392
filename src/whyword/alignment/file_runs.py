"""Align files line by line, in runs that can be stopped and resumed; memory does not grow with the files.

What is written of each line is collected in a file next to the output, after a line with the settings; when
all lines are done it becomes the output. So the output is complete or absent, and results of different
settings are never mixed. Lines that cannot be aligned have no links; they are listed with their numbers.
"""

import json
import logging
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..models.model import Model
from ..pipeline.one_translation import require_translator
from ..runs.fingerprint import fingerprint_weights
from ..runs.journal import append_lines, repair, require_same
from ..runs.progress import report
from ..runs.single_writer import write_file_alone
from ..runs.whole_files import write_aside
from ..tokens.languages import speak
from .aligner import align_each
from .line_formats import LINE_FORMATS
from .parallel_files import STANDARD, LinePair, Survey, stream_pairs, survey
from .symmetry import SCORES
from .throughput import Meter, Throughput
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
class _Work:
    """What is done with every pair of lines."""

    models: Sequence[Model]
    settings: Settings
    languages: tuple[str | None, str | None]
    way: str
    words: str
    form: str


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
) -> FileRun:
    """Align parallel files and write the links of every line, in the order of the lines.

    `models`: one, or one of each direction, which are symmetrised by `way`. `-` is standard input or output;
    a run that writes to standard output cannot be resumed.
    """
    if form not in LINE_FORMATS:
        raise InputError(f"The format is {form!r}.", f"Formats: {', '.join(LINE_FORMATS)}.")
    for model, codes in zip(models, (languages, languages[::-1]), strict=False):
        _require_languages(require_translator(model), codes)
    work, known = _Work(models, settings, languages, way, words, form), survey(*sides)
    if output == STANDARD:
        return _pass_through(work, sides, known)
    part = output.with_name(f"{output.name}.part")
    with write_file_alone(output):
        done, meter = _resume(part, _describe(work, known)), Meter()
        if done:
            _logger.info(f"{part}: {done:,} lines are done, resuming.")
        for written in _align_lines(work, islice(stream_pairs(*sides), done, None), meter):
            append_lines(part, map(json.dumps, written))
            done += len(written)
            report("pairs", done, known.lines)
        try:
            skipped, listed = _finish(part, output)
        except OSError as error:
            raise InputError(
                f"{output} cannot be written: {error.strerror}.",
                "Choose a place that you may write to and that has free space.",
            ) from None
    return FileRun(done, skipped, meter.read(), listed)


_Written = tuple[str, str | None]
"""What the output has of a line, and why it was skipped."""


def _align_lines(work: _Work, lines: Iterable[LinePair], meter: Meter) -> Iterator[list[_Written]]:
    """Align lines, so many at a time that batches are of similar length."""
    ahead, rest = look_ahead([work.settings.method]), iter(lines)
    while window := list(islice(rest, ahead)):
        sound = [line for line in window if line.wrong is None]
        pairs = [(line.source, line.target) for line in sound]
        aligned = align_each(
            work.models, pairs, work.settings, work.languages, work.way, work.words, meter=meter
        )
        found = dict(zip((line.number for line in sound), aligned, strict=True))
        write, written = LINE_FORMATS[work.form], []
        for line in window:
            alignment = found.get(line.number)
            refused = alignment.error.wrong if isinstance(alignment, Refused) else line.wrong
            links = None if isinstance(alignment, Refused) else alignment
            written.append((write(line.number, links, refused), refused))
        yield written


def _pass_through(work: _Work, sides: tuple[Path, Path], known: Survey) -> FileRun:
    """Write links to standard output as they are found."""
    skipped, meter, done = Skipped(), Meter(), 0
    for written in _align_lines(work, stream_pairs(*sides), meter):
        for text, wrong in written:
            done += 1
            if wrong is not None:
                skipped.add(done, wrong)
            sys.stdout.write(text)
        sys.stdout.flush()
        report("pairs", done, known.lines)
    return FileRun(done, skipped, meter.read(), None)


def _finish(part: Path, output: Path) -> tuple[Skipped, Path | None]:
    """Write the output, and the list of what was skipped, from the collected lines."""
    skipped, listed = Skipped(), output.with_name(f"{output.name}.skipped")
    with (
        write_aside(output) as whole,
        write_aside(listed) as wrong,
        whole.open("w", encoding="utf-8", newline="\n") as links,
        wrong.open("w", encoding="utf-8", newline="\n") as why,
    ):
        for number, (text, reason) in enumerate(_read_part(part), 1):
            links.write(text)
            if reason is not None:
                skipped.add(number, reason)
                why.write(f"{number}\t{reason}\n")
    part.unlink()
    if skipped.count:
        return skipped, listed
    listed.unlink()
    return skipped, None


def _read_part(part: Path) -> Iterator[_Written]:
    with part.open("rb") as file:
        next(file)
        for line in file:
            text, reason = json.loads(line)
            yield text, reason


def _require_languages(model: Model, codes: tuple[str | None, str | None]) -> None:
    """Refuse language codes that the model does not know, once and not for every line."""
    if model.tokenizer is not None:
        with speak(model.tokenizer, *codes):
            pass


def _describe(work: _Work, known: Survey) -> dict[str, Any]:
    """Describe a run: it is only resumed with the same settings."""
    return {
        "models": [
            [model.name, fingerprint_weights(model.network)[:12], str(model.dtype)] for model in work.models
        ],
        **asdict(work.settings),
        "symmetrised": work.way if len(work.models) > 1 else None,
        "format": work.form,
        "languages": work.languages,
        "words": work.words,
        "sentences": known.content,
    }


def _resume(part: Path, about: Mapping[str, Any]) -> int:
    """Count the finished lines, after the first, which has the settings; write that where there is none."""
    repair(part)
    if not part.exists() or not part.stat().st_size:
        append_lines(part, [json.dumps(about)])
        return 0
    done = -1
    try:
        with part.open("rb") as file:
            for done, line in enumerate(file):
                read = json.loads(line.decode("ascii"))
                if done == 0:
                    found = {**read}
                else:
                    text, _ = read
                    text.encode()
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(
            f"{part} cannot be read: {error}.", "Delete it, or name another output: -o FILE."
        ) from None
    require_same(part, found, about)
    return done
