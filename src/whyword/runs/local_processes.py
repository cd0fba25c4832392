"""The work of a run on this machine: in this process, or in several."""

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import islice
from multiprocessing import get_context, parent_process
from threading import Thread
from typing import Any, TypeVar

from ..errors import InputError
from .engine import Job, Workers

__all__ = ["LocalEngine", "computing_with"]

Result = TypeVar("Result")
_AHEAD = 2
"""Pieces that are read ahead for each process."""


@dataclass(frozen=True)
class LocalEngine:
    """Works in this process, or in several on this machine."""

    workers: Workers

    @property
    def alone(self) -> bool:
        """Whether there is but one worker: this process."""
        return self.workers.count == 1

    def working(self) -> AbstractContextManager[None]:
        """Hold nothing: processes are begun with the first piece."""
        return nullcontext()

    def call(self, function: Callable[[], Result]) -> Result:
        """Call a function here."""
        with computing_with(self.workers.threads):
            return function()

    def map(self, job: Job[Any, Result], numbers: Sequence[int]) -> Generator[tuple[int, Result], None, None]:
        """Do piece after piece here, or as many at once as there are processes."""
        if not self.alone:
            yield from self._share(job, numbers)
            return
        work = job.begin()
        for number in numbers:
            item = job.read(number)
            with computing_with(self.workers.threads):
                result = work(item)
            yield number, result

    def _share(self, job: Job[Any, Result], numbers: Sequence[int]) -> Iterator[tuple[int, Result]]:
        """Share pieces between processes; what is read ahead does not grow with the run."""
        processes = min(self.workers.count, len(numbers))
        rest, running = iter(numbers), dict[Future[Result], int]()
        if not processes:
            return
        pool = ProcessPoolExecutor(
            processes, get_context("spawn"), _begin, (job.begin, self.workers.threads or 1)
        )
        try:
            for number in islice(rest, _AHEAD * processes):
                running[pool.submit(_work, job.read(number))] = number
            while running:
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    number = running.pop(future)
                    result = future.result()
                    for following in islice(rest, 1):
                        running[pool.submit(_work, job.read(following))] = following
                    yield number, result
        except BrokenProcessPool:
            raise InputError(
                "A worker process died: it was killed, or memory ran out.",
                "Run the same command again: what is finished is kept. Fewer workers take less memory.",
            ) from None
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in list((getattr(pool, "_processes", None) or {}).values()):
                process.terminate()  # a piece takes minutes: whoever stops a run does not wait for it


_held: list[Callable[[Any], Any]] = []
"""What this process does with a piece, where it is a worker."""
_refused: list[Exception] = []


def _begin(begin: Callable[[], Callable[[Any], Any]], threads: int) -> None:
    """Make this process ready; why it cannot be is told with the first piece."""
    import torch

    Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(threads)
    try:
        _held.append(begin())
    except Exception as error:  # an initializer that raises breaks the pool without a word
        _refused.append(error)


def _end_with_parent() -> None:
    """End when the process that runs the whole dies: a killed one cannot end its workers."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(item: Any) -> Any:
    if _refused:
        raise _refused[0]
    return _held[0](item)


@contextmanager
def computing_with(threads: int | None) -> Iterator[None]:
    """Let torch compute with so many threads for a while; None: as it is."""
    import torch

    before = torch.get_num_threads()
    if threads is None or threads == before:
        yield
        return
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
