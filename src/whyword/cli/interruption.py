"""Ctrl-C: one line that says what was kept, and how to resume."""

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["count_lines", "name_command", "say_kept", "say_stopped", "when_stopped"]

_NOTHING = "nothing was kept."


class _StoppedError(KeyboardInterrupt):
    """An interrupt of a command that has something to say about it."""


@contextmanager
def when_stopped(say: Callable[[], str]) -> Iterator[None]:
    """Let a command say what is kept when what runs inside is interrupted."""
    try:
        yield
    except KeyboardInterrupt:
        raise _StoppedError(say()) from None


def say_kept(where: Path, count: int, what: str) -> str:
    """Say how much of a run was kept and where, and the command that resumes it."""
    if count == 0:
        return f"{_NOTHING} Start again with: {name_command()}"
    return f"{where} keeps {count:,} {what}. Go on with: {name_command()}"


def name_command() -> str:
    """Return the command that runs, as it was typed."""
    return shlex.join(["whyword", *sys.argv[1:]])


def say_stopped(interrupt: KeyboardInterrupt) -> str:
    """Return the line that an interrupted command leaves with."""
    return f"Stopped: {interrupt if isinstance(interrupt, _StoppedError) else _NOTHING}"


def count_lines(path: Path) -> int:
    """Count the whole lines of a file; 0 where it is not there."""
    return path.read_bytes().count(b"\n") if path.exists() else 0
