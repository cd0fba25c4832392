"""Where the work of a run is done: one interface, and the choice between its implementations.

A run is cut into numbered pieces. An engine reads each piece near the files, hands it to a worker that has
made ready once (loaded its model), and yields results as they are finished, in any order. What a piece is and
what becomes of it is the run's own business: engines know nothing of models.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from ..errors import InputError

__all__ = [
    "ENGINES",
    "Engine",
    "Job",
    "Workers",
    "choose_engine",
    "count_threads",
    "put_in_order",
    "read_resources",
]

Item = TypeVar("Item")
Result = TypeVar("Result")
ENGINES = ("local", "ray")


@dataclass(frozen=True)
class Job(Generic[Item, Result]):
    """What is done with every piece; both are pickled, each by itself, where workers are other processes."""

    read: Callable[[int], Item]
    """Reads a piece; called where the files are."""
    begin: Callable[[], Callable[[Item], Result]]
    """Makes a worker ready, once; returns what it does with a piece."""


class Engine(Protocol):
    """Does the work of a run."""

    @property
    def alone(self) -> bool:
        """Whether all is done in this process."""

    def working(self) -> AbstractContextManager[None]:
        """Hold what the engine needs while it works."""

    def call(self, function: Callable[[], Result]) -> Result:
        """Call a function once, where a worker would be: with what a worker has."""

    def map(self, job: Job[Any, Result], numbers: Sequence[int]) -> Generator[tuple[int, Result], None, None]:
        """Yield the number and the result of every piece, as they are finished; closed, it stops workers."""


@dataclass(frozen=True)
class Workers:
    """How many workers there are, and what each has."""

    count: int = 1
    threads: int | None = None
    """Threads of each; None: those of this process, and one where there are several processes."""
    address: str | None = None
    """Of a Ray cluster: "auto", HOST:PORT; None: Ray is started on this machine."""
    resources: Mapping[str, float] = field(default_factory=dict)
    """What Ray reserves for each: num_gpus, num_cpus, or names of your own."""


def choose_engine(name: str, workers: Workers | int) -> Engine:
    """Choose an engine by its name; `workers`: how many, or with all that they have."""
    workers = Workers(workers) if isinstance(workers, int) else workers
    if workers.count < 1:
        raise InputError(f"workers is {workers.count}.", "Pass the number of workers, at least 1.")
    if workers.threads is not None and workers.threads < 1:
        raise InputError(f"threads is {workers.threads}.", "Pass the threads of each worker, at least 1.")
    if name == "ray":
        from .ray_cluster import RayEngine

        return RayEngine(workers)
    if name != "local":
        raise InputError(f"engine is {name!r}.", f"Engines: {', '.join(ENGINES)}.")
    if workers.address is not None or workers.resources:
        given = "address" if workers.address is not None else "resources"
        raise InputError(
            f"{given} is given, and the engine is local.", f"It is of Ray: pass engine='ray', or no {given}."
        )
    from .local_processes import LocalEngine

    return LocalEngine(workers)


def count_threads(name: str, workers: Workers) -> int:
    """Count the threads that each worker of an engine computes with: last digits depend on them."""
    if workers.threads is not None or name != "local" or workers.count > 1:
        return workers.threads or 1
    import torch

    return torch.get_num_threads()


def read_resources(text: str | None) -> dict[str, float]:
    """Read what Ray reserves for each worker: "num_gpus=1,num_cpus=2"."""
    found: dict[str, float] = {}
    for part in (text or "").replace(" ", "").split(",") if text else ():
        name, _, amount = part.partition("=")
        try:
            found[name] = float(amount)
        except ValueError:
            found[name] = -1.0
        if not name or found[name] < 0:
            raise InputError(f"resources is {text!r}.", "Give names and numbers: num_gpus=1,num_cpus=2.")
    return found


def put_in_order(
    numbers: Sequence[int], finished: Iterable[tuple[int, Result]]
) -> Generator[tuple[int, Result], None, None]:
    """Yield results in the order of `numbers`; one that is early waits for those before it."""
    early: dict[int, Result] = {}
    waiting = iter(numbers)
    following = next(waiting, None)
    for number, result in finished:
        early[number] = result
        while following in early:
            yield following, early.pop(following)
            following = next(waiting, None)
