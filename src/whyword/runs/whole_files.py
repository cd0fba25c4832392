"""Files that are written atomically: to a temporary name, then renamed."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

from ..errors import InputError

__all__ = ["write_aside", "write_file"]


@contextmanager
def write_aside(path: Path) -> Iterator[Path]:
    """Yield a path to write to; the file written there then replaces `path` in one step."""
    # A name of its own: ranks on several machines, or threads, may write the same file at once.
    aside = path.with_name(f".{path.name[:100]}.{os.getpid()}.{token_hex(4)}")
    try:
        yield aside
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


def write_file(path: Path, content: str | bytes) -> None:
    """Write a file atomically; a pipe or a device is written to directly."""
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
            "Choose a place that you may write to and that has free space.",
        ) from None
