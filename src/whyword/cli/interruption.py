"""Ctrl-C: one line that says what was kept, and how to resume."""

import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

__all__ = ["count_lines", "keeping_interrupts", "name_command", "say_kept", "say_stopped", "when_stopped"]

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


@contextmanager
def keeping_interrupts() -> Iterator[None]:
    """Let Ctrl-C be an interrupt whatever becomes of it on its way.

    Python drops one that is raised while an object is finalised, and one that breaks the tidying up of a
    library comes out as that library's error.
    """
    noted: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return

    def note(number: int, frame: FrameType | None) -> None:
        noted.append(number)
        before(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield
    except Exception:
        if noted:
            raise KeyboardInterrupt from None
        raise
    finally:
        signal.signal(signal.SIGINT, before)
    if noted:
        raise KeyboardInterrupt


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
