"""Runs on disk that can be stopped at any time, kill −9 included, and resumed.

Lines are appended whole. If a process dies while it writes, at most the last line is cut; that line is
dropped and computed again. The settings are written once and compared when a run is resumed: results of
different settings are never mixed.
"""

import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from io import FileIO
from pathlib import Path
from typing import Any, TypeVar

from ..errors import InputError
from .whole_files import write_file

__all__ = ["append_lines", "open_run", "read_lines", "read_settings", "repair", "require_same"]

Entry = TypeVar("Entry")
_logger = logging.getLogger("whyword")
_ABSENT = object()
"""Marks a setting that is not set."""
_SHOWN = 80
"""Most characters shown of a value."""
_CHUNK = 1 << 20
_BEFORE = 20
"""Characters shown before the first one that differs."""


def open_run(journal: Path, schema: str, settings: Mapping[str, Any]) -> None:
    """Start a run in the folder of its journal, or resume the one that is there."""
    folder, about = journal.parent, journal.with_name("settings.json")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if about.exists():
            require_same(folder, read_settings(folder, schema), settings)
        elif journal.exists():
            raise InputError(
                f"{folder} has {journal.name} but no settings.json.", "Name another folder: --out RUN."
            )
        else:
            written = json.dumps({"schema": schema, **settings}, indent=1, ensure_ascii=False)
            write_file(about, written + "\n")
        repair(journal)
    except OSError as error:
        raise InputError(
            f"{folder} cannot be used: {error.strerror}.",
            "Name a folder where you may write and that has free space: --out RUN.",
        ) from None


def read_settings(folder: Path, schema: str) -> dict[str, Any]:
    """Read the settings of a run."""
    try:
        settings: dict[str, Any] = {**json.loads((folder / "settings.json").read_text(encoding="utf-8"))}
    except (OSError, ValueError, TypeError, RecursionError):
        raise InputError(
            f"{folder} is not the folder of a run: it has no readable settings.json.",
            "Name a folder that whyword evaluate --out wrote.",
        ) from None
    if (found := settings.pop("schema", None)) != schema:
        raise InputError(
            f"{folder} was written by another version, or holds another kind of run: {found}.",
            f"This reads {schema!r}.",
        )
    return settings


def require_same(folder: Path, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Refuse to resume a run that has other settings; versions of packages may differ."""
    for name in wanted:
        # As JSON keeps it: a tuple that was written is a list when it is read.
        there, here = found.get(name), json.loads(json.dumps(wanted[name]))
        if name != "versions" and there != here:
            place, there, here = _find_difference(name, there, here)
            raise InputError(
                f"{folder} holds a run with other settings: {place} is {there} there, {here} here.",
                "Write somewhere else, or delete it: runs are not mixed.",
            )


def _find_difference(place: str, there: Any, here: Any) -> tuple[str, str, str]:
    """Find the first nested value that differs; return its path, and both values around the difference.

    Where one list is the start of another, their lengths differ.
    """
    if isinstance(there, dict) and isinstance(here, dict):
        key = next(key for key in {**there, **here} if there.get(key, _ABSENT) != here.get(key, _ABSENT))
        return _find_difference(f"{place}.{key}", there.get(key, _ABSENT), here.get(key, _ABSENT))
    if isinstance(there, list) and isinstance(here, list):
        pairs = enumerate(zip(there, here, strict=False), start=1)
        for number, (one, other) in pairs:
            if one != other:
                return _find_difference(f"entry {number} of {place}", one, other)
        return f"the number of entries of {place}", str(len(there)), str(len(here))
    return place, *_cut_around_difference(_write(there), _write(here))


def _write(value: Any) -> str:
    return "not set" if value is _ABSENT else json.dumps(value, ensure_ascii=False)


def _cut_around_difference(there: str, here: str) -> tuple[str, str]:
    """Cut two long texts to the part around the first character that differs."""
    pairs = enumerate(zip(there, here, strict=False))
    same = next((place for place, (one, other) in pairs if one != other), min(len(there), len(here)))
    start = max(0, same - _BEFORE) if max(len(there), len(here)) > _SHOWN else 0
    return _cut(there, start), _cut(here, start)


def _cut(text: str, start: int) -> str:
    end = start + _SHOWN
    return ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")


def repair(path: Path) -> None:
    """Cut off a last line that was not written completely."""
    if not path.exists():
        return
    with path.open("rb+") as file:
        end = start = file.seek(0, os.SEEK_END)
        whole = 0
        while start and not whole:  # from its end, since it may not fit into memory
            before, start = start, max(0, start - _CHUNK)
            file.seek(start)
            found = file.read(before - start).rfind(b"\n") + 1
            whole = start + found if found else 0
        if whole < end:
            _logger.warning("%s: the last line is incomplete; it is computed again.", path)
            file.truncate(whole)


def append_lines(path: Path, lines: Iterable[str]) -> None:
    """Append lines as they come; where the disk is full, none is left incomplete."""
    with path.open("ab", buffering=0) as file:
        for line in lines:
            start = file.tell()
            try:
                # A lone surrogate becomes \\ud800, which JSON reads back.
                _write_whole(file, f"{line}\n".encode(errors="backslashreplace"))
            except OSError as error:
                file.truncate(start)
                raise InputError(
                    f"{path} cannot be written: {error.strerror}.",
                    "Make room and run the same command again: what is finished is kept.",
                ) from None


def _write_whole(file: FileIO, content: bytes) -> None:
    """Write all bytes: on a disk that is nearly full one write takes only some of them."""
    while content:
        content = content[file.write(content) :]


def read_lines(path: Path, read: Callable[[Any], Entry]) -> Iterator[Entry]:
    """Read the finished entries line by line; `read` turns a line's JSON into an entry.

    A last line without its end is one that is being written, or that a killed process left: it is not read.
    """
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return
            try:
                entry = read(json.loads(line.decode("utf-8")))
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
                raise InputError(
                    f"Line {number} of {path} cannot be read: {error}.",
                    "Delete it and the lines after it: they are computed again when the run is resumed.",
                ) from None
            yield entry
