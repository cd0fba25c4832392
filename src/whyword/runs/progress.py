"""Progress of long runs: the library reports it, and whoever listens shows it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = ["Listener", "listen", "report", "show_progress"]

Listener = Callable[[str, int, int | None], None]
"""Receives what is counted ("blocks", "prompts"), how many are done, and the total where it is known."""

_listener: ContextVar[Listener | None] = ContextVar("_listener", default=None)


@contextmanager
def listen(listener: Listener) -> Iterator[None]:
    """Receive the progress of the runs inside."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def report(what: str, done: int, total: int | None) -> None:
    """Report progress to whoever listens."""
    listener = _listener.get()
    if listener is not None:
        listener(what, done, total)


@contextmanager
def show_progress(doing: str = "Explaining") -> "Iterator[Progress]":
    """Show the progress of what runs inside on stderr: blocks of a prompt, prompts of a batch.

    There is one bar, and only in a terminal.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

    columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    console = Console(stderr=True, highlight=False)
    progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    with (
        nullcontext() if progress.disable else progress
    ):  # ending one prints a line, with older versions of rich
        bar, counted = progress.add_task(doing, total=None), set()

        def show(what: str, done: int, total: int | None) -> None:
            counted.add(what)
            if what == "blocks" and "prompts" in counted:
                return  # one bar only: prompts say more than blocks
            progress.update(bar, description=f"{doing} · {what}", completed=done, total=total)

        with listen(show):
            yield progress
