"""Work off the event loop: one run per model at a time, a bounded queue, progress, and a way to stop.

A run is stopped where the library reports progress: the listener raises, and hooks are removed as after any
other error. So a client that disconnects costs the time of one block, not of a whole run.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Event

from ..errors import WhywordError
from ..runs.progress import listen

__all__ = ["BusyError", "Cancelled", "Desk", "Job", "Progress", "follow"]

Work = Callable[[], bytes]
"""Returns the encoded document: encoding takes a while, and the event loop must not wait for it."""

_POLL = 0.2
"""Seconds between checks whether anyone still waits for an answer."""
_EVERY = 0.05
"""Seconds between two reports of progress: a reader would not see more."""


class Cancelled(Exception):  # noqa: N818
    """Nobody waits for the run any more."""


class BusyError(WhywordError):
    """Too many runs are waiting."""

    def __init__(self, waiting: int, seconds: int) -> None:
        super().__init__(f"{waiting} runs are waiting already.", f"Try again in {seconds} s.")
        self.seconds = seconds


@dataclass(frozen=True)
class Progress:
    """The progress of a run."""

    what: str
    done: int
    total: int | None


@dataclass(frozen=True, eq=False)
class Job:
    """A run that is waiting, running or done."""

    future: "Future[bytes]"
    events: "asyncio.Queue[Progress | None]"
    """Progress, then None when the run is done."""
    stopped: Event

    def stop(self) -> None:
        """Stop the run: it does not start, or ends at its next report of progress."""
        self.stopped.set()
        self.future.cancel()


@dataclass(eq=False)
class Desk:
    """Where runs are submitted: one thread per model, at most `room` runs in total."""

    names: Iterable[str]
    room: int
    _workers: dict[str, ThreadPoolExecutor] = field(init=False)
    _inside: "dict[Future[bytes], Job]" = field(init=False, default_factory=dict)
    _lasted: float = field(init=False, default=1.0)

    def __post_init__(self) -> None:
        self._workers = {name: ThreadPoolExecutor(1, f"whyword {name}") for name in self.names}

    def submit(self, name: str, work: Work) -> Job:
        """Submit work on a model, from the event loop; refuse it if the queue is full."""
        if len(self._inside) >= self.room:
            raise BusyError(self.room, max(1, round(self._lasted * len(self._inside))))
        loop = asyncio.get_running_loop()
        events: asyncio.Queue[Progress | None] = asyncio.Queue()
        stopped = Event()

        def tell(event: Progress | None) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(events.put_nowait, event)

        if self._inside:
            events.put_nowait(Progress("waiting", len(self._inside), None))
        # Emptied when the run is over: a thread's queue keeps a reference to cancelled work.
        handed_in = [work]
        future = self._workers[name].submit(self._perform, handed_in, stopped, tell)
        job = Job(future, events, stopped)
        self._inside[future] = job

        def leave(_: "Future[bytes]") -> None:
            handed_in.clear()
            self._inside.pop(future, None)
            tell(None)

        future.add_done_callback(leave)
        return job

    def stop(self) -> None:
        """Stop every run."""
        for job in list(self._inside.values()):
            job.stop()

    def close(self) -> None:
        """Stop every run, and accept no more."""
        self.stop()
        for worker in self._workers.values():
            worker.shutdown(wait=False, cancel_futures=True)  # the event loop does not wait for them

    def _perform(self, handed_in: list[Work], stopped: Event, tell: Callable[[Progress], None]) -> bytes:
        if stopped.is_set():
            raise Cancelled
        began = told = time.monotonic()

        def hear(what: str, done: int, total: int | None) -> None:
            nonlocal told
            if stopped.is_set():
                raise Cancelled
            if (now := time.monotonic()) - told > _EVERY:
                told = now
                tell(Progress(what, done, total))

        with listen(hear):
            document = handed_in.pop()()
        self._lasted = time.monotonic() - began
        return document


async def follow(job: Job, gone: Callable[[], Awaitable[bool]]) -> AsyncIterator[Progress | bytes]:
    """Yield progress, and finally the document; stop the run when the client disconnects."""
    looked = time.monotonic()
    try:
        while not job.future.done() or not job.events.empty():
            try:
                event = await asyncio.wait_for(job.events.get(), _POLL)
            except asyncio.TimeoutError:
                event = None
            if event is not None:
                yield event
            if time.monotonic() - looked >= _POLL:  # also while progress keeps coming
                looked = time.monotonic()
                if await gone():
                    raise Cancelled
        if job.future.cancelled():
            raise Cancelled
        yield job.future.result()
    finally:
        job.stop()
