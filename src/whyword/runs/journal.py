"""Runs on disk that can be stopped at any time, kill −9 included, and resumed.

Lines are appended whole. If a process dies while it writes, at most the last line is cut; that line is
dropped and computed again. The settings are written once and compared when a run is resumed: results of
different settings are never mixed.
"""

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from ..errors import InputError
from .whole_files import write_aside

__all__ = ["append_lines", "open_run", "read_lines", "read_settings", "repair", "require_same"]

Entry = TypeVar("Entry")
_logger = logging.getLogger("whyword")


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
            with write_aside(about) as aside:
                aside.write_text(written + "\n", encoding="utf-8")
        repair(journal)
    except OSError as error:
        raise InputError(
            f"{folder} cannot be used: {error.strerror}.", "Name a folder where you may write: --out RUN."
        ) from None


def read_settings(folder: Path, schema: str) -> dict[str, Any]:
    """Read the settings of a run."""
    try:
        settings: dict[str, Any] = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
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
        if name != "versions" and found.get(name) != wanted[name]:
            raise InputError(
                f"{folder} holds a run with other settings: {name} is {_short(found.get(name))} there, "
                f"{_short(wanted[name])} here.",
                "Name another folder, or delete this one: runs are not mixed.",
            )


def repair(path: Path) -> None:
    """Cut off a last line that was not written completely."""
    if not path.exists():
        return
    with path.open("rb+") as file:
        content = file.read()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            _logger.warning("%s: the last line is incomplete; it is computed again.", path)
            file.truncate(whole)


def append_lines(path: Path, lines: Iterable[str]) -> None:
    """Append lines as they come, each in one write."""
    with path.open("ab", buffering=0) as file:
        for line in lines:
            file.write(f"{line}\n".encode())


def read_lines(path: Path, read: Callable[[Any], Entry]) -> Iterator[Entry]:
    """Read the finished entries line by line; `read` turns a line's JSON into an entry."""
    if not path.exists():
        return
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            try:
                entry = read(json.loads(line))
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                raise InputError(
                    f"Line {number} of {path} cannot be read: {error}.",
                    "Delete it and the lines after it: they are computed again when the run is resumed.",
                ) from None
            yield entry


def _short(value: object) -> str:
    shown = json.dumps(value, ensure_ascii=False)
    return shown if len(shown) <= 80 else shown[:77] + "..."
