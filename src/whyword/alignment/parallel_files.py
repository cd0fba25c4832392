"""Parallel files, read line by line: one sentence per line; a line that cannot be read says why."""

import hashlib
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import BinaryIO

from ..errors import InputError

__all__ = [
    "STANDARD",
    "LinePair",
    "Survey",
    "read_lines",
    "read_words",
    "require_sides",
    "stream_pairs",
    "survey",
]

STANDARD = Path("-")
"""Standard input, or output."""
_BOM = b"\xef\xbb\xbf"
_CHUNK = 1 << 20


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


def require_sides(source: Path | None, target: Path | None) -> tuple[Path, Path]:
    """Refuse one file without the other."""
    if source is None or target is None:
        missing = "source" if source is None else "target"
        raise InputError(
            f"There is no --{missing}.", "Pass both --source and --target, parallel line by line."
        )
    return source, target


def stream_pairs(source: Path, target: Path) -> Iterator[LinePair]:
    """Read parallel files line by line; `-` is standard input, for both sides with a tab between them."""
    if source == target == STANDARD:
        for number, line in enumerate(_split_lines(sys.stdin.buffer), 1):
            own, tab, other = line.partition(b"\t")
            yield _pair_lines(number, own, other if tab else None, "there is no tab between the sides")
        return
    with _open(source) as first, _open(target) as second:
        for number, (own, other) in enumerate(zip_longest(_split_lines(first), _split_lines(second)), 1):
            alone = "translation" if own is None else "source"
            yield _pair_lines(number, own, other, f"only the {alone} has this line")


def survey(source: Path, target: Path) -> Survey:
    """Count the lines of parallel files, and digest what they hold."""
    if STANDARD in (source, target):
        return Survey(None, "standard input")
    digest, counts = hashlib.sha256(), []
    for path in (source, target):
        lines, last = 0, b"\n"
        with _open(path) as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
                lines, last = lines + chunk.count(b"\n"), chunk[-1:]
        counts.append(lines + (last != b"\n"))
        digest.update(f"\n{counts[-1]}\n".encode())
    return Survey(max(counts), digest.hexdigest())


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


def _split_lines(file: Iterable[bytes]) -> Iterator[bytes]:
    """Yield lines without their ends; only a line feed ends a line."""
    for number, line in enumerate(file):
        whole = line.removeprefix(_BOM) if number == 0 else line
        yield whole.removesuffix(b"\n").rstrip(b"\r")


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
