"""Files that are whole or as they were: written aside, then renamed."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import InputError

__all__ = ["write_aside", "write_file"]


@contextmanager
def write_aside(path: Path) -> Iterator[Path]:
    """Give a path to write to; what is there afterwards takes the place of `path`, all at once."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield aside
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


def write_file(path: Path, content: str | bytes) -> None:
    """Write a file in one step; a pipe or a device is written to as it is."""
    # A lone surrogate becomes \\ud800: valid in JSON, harmless elsewhere.
    data = content.encode("utf-8", errors="backslashreplace") if isinstance(content, str) else content
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(data)
            return
        with write_aside(path) as aside:
            aside.write_bytes(data)
    except OSError as error:
        raise InputError(
            f"{path} cannot be written: {error.strerror}.",
            "Save where you may write and where there is room.",
        ) from None
