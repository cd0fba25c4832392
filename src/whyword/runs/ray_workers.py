"""What Ray's workers are given and what they do: pieces are read, worked on, and sent back."""

import pickle
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from ..errors import InputError, WhywordError, first_line
from .remote_errors import telling_own

__all__ = ["Shared", "Working", "call_function", "make_source", "open_result"]

Result = TypeVar("Result")
_SMALL = 1 << 20
"""Bytes that are sent with every task."""
_AGAIN = "Run the same command again: what is finished is kept."


class Shared:
    """What all workers are given: small things by value, a model in memory once into the object store."""

    def __init__(self, ray: Any, what: Any) -> None:
        written = pickle.dumps(what)
        small = len(written) < _SMALL
        self.value: bytes | None = written if small else None
        self.reference: Any = None if small else ray.put(written)

    def find(self) -> Any:
        """Give it to a worker."""
        if self.value is not None:
            return pickle.loads(self.value)
        import ray

        return pickle.loads(ray.get(self.reference))


def make_source(reading: Shared, numbers: Sequence[int]) -> Any:
    """Make what Ray Data reads: one task for each piece, run on the node of this process."""
    from ray.data.block import BlockMetadata
    from ray.data.datasource import Datasource, ReadTask

    class Pieces(Datasource):  # type: ignore[misc]
        def estimate_inmemory_data_size(self) -> int | None:
            return None

        def get_read_tasks(self, parallelism: int, *_: Any, **__: Any) -> list[Any]:
            about = BlockMetadata(num_rows=1, size_bytes=None, exec_stats=None)
            return [ReadTask(partial(_read_piece, reading, number), about) for number in numbers]

    return Pieces()


def _read_piece(reading: Shared, number: int) -> list[Any]:
    import pyarrow

    item = _close_piece(reading, number)
    return [pyarrow.table({"number": [number], "item": pyarrow.array([item], pyarrow.large_binary())})]


def _close_piece(reading: Shared, number: int) -> bytes:
    """Read a piece; what goes wrong is sent on with it."""
    try:
        return pickle.dumps((True, reading.find()(number)))
    except WhywordError as error:  # a file that changed is no death of a worker
        return pickle.dumps((False, error))


class Working:
    """Holds what a worker makes ready once: an actor of Ray Data."""

    def __init__(self, working: Shared, reading: Shared, threads: int) -> None:
        import torch

        torch.set_num_threads(threads)
        self.reading = reading
        with telling_own():
            self.work = working.find()()

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Do the pieces of a batch, read before or, where the files are within reach, here."""
        numbers = batch["number"]
        items = (
            batch["item"] if "item" in batch else [_close_piece(self.reading, int(each)) for each in numbers]
        )
        return {"number": numbers, "result": [self._close(item) for item in items]}

    def _close(self, item: bytes) -> bytes:
        """Do a piece; what goes wrong with it is sent back, and is no death of a worker."""
        sound, read = pickle.loads(item)
        if not sound:
            return item
        try:
            return pickle.dumps((True, self.work(read)))
        except Exception as error:
            own = isinstance(error, WhywordError)
            said = f"A worker failed: {type(error).__name__}: {first_line(error)}."
            return pickle.dumps((False, error if own else InputError(said, _AGAIN)))


def open_result(result: bytes) -> Any:
    """Open what was sent back."""
    sound, found = pickle.loads(result)
    if not sound:
        raise found
    return found


def call_function(function: Callable[[], Result], threads: int) -> Result:
    """Call a function with so many threads."""
    import torch

    torch.set_num_threads(threads)
    return function()
