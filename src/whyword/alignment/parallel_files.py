"""Parallel files, one sentence per line: read line by line, or in windows. What cannot be read says why.

A first pass over files notes where windows begin, so that any of them can be read by itself; it keeps sixteen
bytes of each.
"""

import hashlib
import sys
from array import array
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice, zip_longest
from pathlib import Path
from typing import BinaryIO

from ..errors import InputError
from ..runs.engine import Workers

__all__ = [
    "STANDARD",
    "LinePair",
    "Survey",
    "read_lines",
    "read_window",
    "read_words",
    "require_shareable",
    "require_sides",
    "stream_pairs",
    "survey",
]

STANDARD = Path("-")
"""Standard input, or output."""
_BOM = b"\xef\xbb\xbf"
_WINDOW = 256
_Stamp = tuple[int, int]


@dataclass(frozen=True)
class LinePair:
    """A line of both files."""

    number: int
    """Counted from 1."""
    source: str
    target: str
    wrong: str | None = None
    """Why it cannot be aligned."""


@dataclass(frozen=True)
class Survey:
    """What is known of files before they are read line by line."""

    lines: int | None
    """Of the longer file; None: not known, since they come from standard input."""
    content: str
    """A digest of both files; of standard input, its name."""
    window: int = _WINDOW
    """Lines of a window; the last has the rest."""
    places: tuple["array[int]", "array[int]"] = field(default_factory=lambda: (array("Q"), array("Q")))
    """Where the windows of each file begin, in bytes."""
    stamps: tuple[_Stamp, ...] = ()
    """Size and time of each file when it was read."""

    @property
    def windows(self) -> int:
        """How many windows there are."""
        return max(map(len, self.places))


def require_sides(source: Path | None, target: Path | None) -> tuple[Path, Path]:
    """Refuse one file without the other."""
    if source is None or target is None:
        missing = "source" if source is None else "target"
        raise InputError(
            f"There is no --{missing}.", "Pass both --source and --target, parallel line by line."
        )
    return source, target


def require_shareable(sides: tuple[Path, Path], engine: str, workers: Workers) -> None:
    """Refuse standard input where several workers read: only files can be read from any place on."""
    if STANDARD in sides and (engine != "local" or workers.count > 1):
        who = f"{workers.count} workers" if engine == "local" else f"the engine {engine}"
        raise InputError(
            f"Lines come from standard input, which {who} cannot share.",
            "Write them to files first, or use engine='local' with one worker.",
        )


def stream_pairs(source: Path, target: Path) -> Iterator[LinePair]:
    """Read parallel files line by line; `-` is standard input, for both sides with a tab between them."""
    if source == target == STANDARD:
        for number, line in enumerate(_split_lines(sys.stdin.buffer), 1):
            own, tab, other = line.partition(b"\t")
            yield _pair_lines(number, own, other if tab else None, "there is no tab between the sides")
        return
    with _open(source) as first, _open(target) as second:
        yield from _pair_sides(_split_lines(first), _split_lines(second))


def survey(source: Path, target: Path, window: int = _WINDOW) -> Survey:
    """Count the lines of parallel files, digest what they hold, and note where windows begin."""
    if STANDARD in (source, target):
        return Survey(None, "standard input", window)
    digest, counts, places = hashlib.sha256(), [], (array("Q"), array("Q"))
    stamps = tuple(_stamp(path) for path in (source, target))
    for path, begins in zip((source, target), places, strict=True):
        lines = place = 0
        with _open(path) as file:
            for lines, line in enumerate(file, 1):
                if (lines - 1) % window == 0:
                    begins.append(place)
                place += len(line)
                digest.update(line)
        counts.append(lines)
        digest.update(f"\n{lines}\n".encode())
    return Survey(max(counts), digest.hexdigest(), window, places, stamps)


def read_window(sides: tuple[Path, Path], known: Survey, number: int) -> list[LinePair]:
    """Read the lines of a window; refuse files that are no longer what was surveyed."""
    first, read = number * known.window, list[list[bytes]]()
    for path, begins in zip(sides, known.places, strict=True):
        if number >= len(begins):
            read.append([])
            continue
        with _open(path) as file:
            file.seek(begins[number])
            read.append([*islice(_split_lines(file, first), known.window)])
    for path, before in zip(sides, known.stamps, strict=True):
        if _stamp(path) != before:
            raise InputError(
                f"{path} changed while it was being read.",
                "Run the same command on the file as it was: what is finished is kept.",
            )
    return [*_pair_sides(read[0], read[1], first)]


def read_lines(path: Path) -> list[str]:
    """Read the lines of a file; only a line feed ends a line."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path} cannot be read: {error}.", "Pass a text file with one sentence per line."
        ) from None
    lines = text.split("\n")
    return [line.rstrip("\r") for line in (lines[:-1] if lines[-1] == "" else lines)]


def read_words(source: Path | None, target: Path | None) -> list[tuple[list[str], list[str]]]:
    """Read the words of parallel files whole; files of different length are refused."""
    one, two = require_sides(source, target)
    sources, targets = read_lines(one), read_lines(two)
    if len(sources) != len(targets):
        raise InputError(
            f"{source} has {len(sources)} lines, but {target} has {len(targets)}.",
            "Pass files that are parallel line by line; an empty line is an empty sentence.",
        )
    return [(own.split(), other.split()) for own, other in zip(sources, targets, strict=True)]


@contextmanager
def _open(path: Path) -> Iterator[BinaryIO]:
    if path == STANDARD:
        yield sys.stdin.buffer
        return
    try:
        file = path.open("rb")
    except OSError as error:
        raise InputError(
            f"{path} cannot be read: {error.strerror}.", "Pass a text file with one sentence per line."
        ) from None
    with file:
        yield file


def _stamp(path: Path) -> _Stamp:
    try:
        found = path.stat()
    except OSError:
        return (-1, -1)  # why it cannot be read is said when it is opened
    return found.st_size, found.st_mtime_ns


def _split_lines(file: Iterable[bytes], first: int = 0) -> Iterator[bytes]:
    """Yield lines without their ends; only a line feed ends a line. `first`: how many were before."""
    for number, line in enumerate(file, first):
        whole = line.removeprefix(_BOM) if number == 0 else line
        yield whole.removesuffix(b"\n").rstrip(b"\r")


def _pair_sides(sources: Iterable[bytes], targets: Iterable[bytes], first: int = 0) -> Iterator[LinePair]:
    """Pair the lines of both files; `first`: how many were before."""
    for number, (own, other) in enumerate(zip_longest(sources, targets), first + 1):
        alone = "translation" if own is None else "source"
        yield _pair_lines(number, own, other, f"only the {alone} has this line")


def _pair_lines(number: int, own: bytes | None, other: bytes | None, alone: str) -> LinePair:
    texts, wrong = [], None if own is not None and other is not None else alone
    for line, what in ((own, "source"), (other, "translation")):
        try:
            texts.append((line or b"").decode("utf-8"))
        except UnicodeDecodeError as error:
            texts.append("")
            wrong = wrong or f"the {what} is not UTF-8 (byte {error.start + 1})"
    empty = [what for what, text in zip(("source", "translation"), texts, strict=True) if not text.strip()]
    if wrong is None and empty:
        wrong = "both sides are empty" if len(empty) == 2 else f"the {empty[0]} is empty"
    return LinePair(number, texts[0], texts[1], wrong)
