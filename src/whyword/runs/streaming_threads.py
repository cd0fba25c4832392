"""Threads in which Ray Data works here, in the process that runs the whole: they end before Ray does.

Ray ends a process at once, with exit code 1, when one of its threads asks for something after
`ray.shutdown`. Ray Data waits two seconds for its threads when it is stopped, which a busy machine exceeds.
"""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["ending_threads"]

_SCHEDULING = "StreamingExecutor-"
_WAITING = "Prefetcher"
_NAMES = (_SCHEDULING, _WAITING, "iter_threaded", "ray-data-metadata-prefetch")
"""How the names of Ray Data's threads begin: one schedules, one waits for ever, the others end with them."""
_PATIENCE = 60.0
"""Seconds that threads may take to end: each waits for parts of a second at a time."""
_logger = logging.getLogger("whyword")


@contextmanager
def ending_threads() -> Iterator[None]:
    """Wait, when what runs inside is over, until the threads that Ray Data began meanwhile have ended."""
    before = {*threading.enumerate()}
    try:
        yield
    finally:
        _end([thread for thread in threading.enumerate() if thread not in before])


def _end(begun: list[threading.Thread]) -> None:
    """Stop the threads of Ray Data among these, and wait for them."""
    threads: list[Any] = [thread for thread in begun if thread.name.startswith(_NAMES)]
    for thread in threads:
        if thread.name.startswith(_SCHEDULING):
            thread._shutdown = True  # its own `shutdown` does nothing where it was interrupted as it began
        elif thread.name == _WAITING:
            owner = getattr(getattr(thread, "_target", None), "__self__", None)
            if owner is not None:
                owner.stop()
    until = time.monotonic() + _PATIENCE
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    left = [thread.name for thread in threads if thread.is_alive()]
    if left:
        _logger.warning("Threads of Ray Data do not end: %s.", ", ".join(left))
