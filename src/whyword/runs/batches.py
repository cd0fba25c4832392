"""Batches of items of similar length, as many as fit; a batch that runs out of memory is halved."""

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from ..errors import InputError, TooLargeError

__all__ = ["cut_batches", "is_out_of_memory", "run_batches"]

Item = TypeVar("Item")
Result = TypeVar("Result")
_logger = logging.getLogger("whyword")


def cut_batches(
    items: Sequence[Item], measure: Callable[[Item], object], fits: Callable[[Sequence[Item]], bool]
) -> list[list[Item]]:
    """Cut items into batches, from the smallest `measure` to the largest, each as long as `fits` allows."""
    batches: list[list[Item]] = []
    for item in sorted(items, key=measure):  # type: ignore[arg-type]
        if batches and fits([*batches[-1], item]):
            batches[-1].append(item)
        else:
            batches.append([item])
    return batches


def run_batches(
    batches: Sequence[Sequence[Item]],
    run: Callable[[Sequence[Item]], Result],
    name: Callable[[Sequence[Item]], str],
    refuse: Callable[[Item], InputError],
) -> Iterator[Result]:
    """Run batch after batch; one that runs out of memory is halved, and so are those after it.

    `name`: what the warning calls a batch; `refuse`: the error for an item that does not fit on its own.
    """
    waiting, most = deque(batches), max(map(len, batches), default=0)
    while waiting:
        batch = waiting.popleft()
        if len(batch) > most:
            waiting.appendleft(batch[most:])
            batch = batch[:most]
        try:
            result = run(batch)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            if len(batch) == 1:
                raise refuse(batch[0]) from error
            most = len(batch) // 2
            _logger.warning("Out of memory with %s: taking %d at a time.", name(batch), most)
            waiting.appendleft(batch)
            continue
        yield result


def is_out_of_memory(error: Exception) -> bool:
    """Tell whether memory ran out: on a CPU torch raises a plain RuntimeError."""
    if isinstance(error, MemoryError | TooLargeError):
        return True
    told = type(error).__name__ == "OutOfMemoryError" or "allocate memory" in str(error)
    return isinstance(error, RuntimeError) and told
