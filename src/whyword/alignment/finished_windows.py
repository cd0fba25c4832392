"""What is finished of a run over files: a file next to its output, which the run resumes from.

Its first line has the settings, every other a window of lines: its number, and what the output has of each of
its lines. Windows are appended whole and in any order, as workers finish them, and read back in order.
"""

import json
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..runs.journal import append_lines, repair, require_same
from .parallel_files import Survey

__all__ = ["FinishedWindows", "Written", "count_finished", "name_part", "open_windows"]

Written = tuple[str, str | None]
"""What the output has of a line, and why the line was skipped."""
_NOWHERE = -1


@dataclass
class FinishedWindows:
    """The windows that are finished, and where each begins in the file."""

    path: Path
    lines: int = 0
    """Of all of them."""
    places: "array[int]" = field(default_factory=lambda: array("q"))

    def __contains__(self, number: int) -> bool:
        return number < len(self.places) and self.places[number] != _NOWHERE

    def append(self, number: int, written: Sequence[Written]) -> None:
        """Append a window."""
        place = self.path.stat().st_size
        append_lines(self.path, [json.dumps([number, written])])
        self.note(number, place, len(written))

    def note(self, number: int, place: int, lines: int) -> None:
        """Note where a window begins."""
        self.places.extend([_NOWHERE] * (number + 1 - len(self.places)))
        self.places[number] = place
        self.lines += lines

    def read(self) -> Iterator[Written]:
        """Read the lines of all windows, in order."""
        with self.path.open("rb") as file:
            for place in self.places:
                file.seek(place)
                yield from _read_window(file.readline())[1]


def name_part(output: Path) -> Path:
    """Name the file of what is finished of an output."""
    return output.with_name(f"{output.name}.part")


def open_windows(path: Path, about: Mapping[str, Any], known: Survey) -> FinishedWindows:
    """Read which windows are finished; refuse those of other settings. A new file begins with these."""
    repair(path)
    found = FinishedWindows(path)
    if not path.exists() or not path.stat().st_size:
        append_lines(path, [json.dumps(about)])
        return found
    try:
        with path.open("rb") as file:
            settings = {**json.loads(file.readline().decode("ascii"))}
    except (ValueError, TypeError, RecursionError) as error:
        raise _refuse(path, error) from None
    require_same(path, settings, about)
    try:
        for number, place, written in _list_windows(path):
            most = len(found.places) + 1 if known.lines is None else known.windows
            if number in found or number >= most:
                raise ValueError(f"there is no other window {number}")
            found.note(number, place, len(written))
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise _refuse(path, error) from None
    return found


def count_finished(path: Path) -> int:
    """Count the lines of finished windows; 0 where there is no file."""
    return sum(len(written) for _, _, written in _list_windows(path)) if path.exists() else 0


def _list_windows(path: Path) -> Iterator[tuple[int, int, list[Written]]]:
    """Yield number, place and lines of the windows as they were appended; one that was cut is not read."""
    with path.open("rb") as file:
        place = len(file.readline())
        for line in file:
            if line.endswith(b"\n"):
                number, written = _read_window(line)
                yield number, place, written
            place += len(line)


def _read_window(line: bytes) -> tuple[int, list[Written]]:
    number, lines = json.loads(line.decode("ascii"))
    if not isinstance(number, int) or number < 0:
        raise ValueError(f"a window has the number {number!r}")
    written = [(text, reason) for text, reason in lines]
    for text, _ in written:
        text.encode()
    return number, written


def _refuse(path: Path, error: Exception) -> InputError:
    return InputError(f"{path} cannot be read: {error}.", "Delete it, or name another output: -o FILE.")
