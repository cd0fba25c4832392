"""The work of a run on a Ray cluster: Ray Data streams pieces to actors, restarts dead ones, and retries.

Pieces are read on the node of this process and travel through Ray's object store, and so do results: neither
the files of a run nor its folder need be reachable from other nodes.
"""

import logging
import os
import pickle
import socket
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from ..errors import InputError, WhywordError, first_line
from .engine import Job, Workers
from .remote_errors import explain_connection, forgiving_deaths, telling_own, unwrapping

__all__ = ["RayEngine"]

Result = TypeVar("Result")
_logger = logging.getLogger("whyword")
_PATIENCE = 5.0
"""Seconds within which a cluster must answer."""
_AGAIN = "Run the same command again: what is finished is kept."
_ROUNDS = 6
"""How often in a row nothing may come of the pieces that are left."""
_SMALL = 1 << 20
"""Bytes that are sent with every task."""
_READERS = 2
"""Pieces that are read at the same time: reading is quick beside the work, and each takes a process."""
_NAMED = ("num_cpus", "num_gpus", "memory")
"""Resources that Ray has a parameter for; all others are names of a cluster's own."""


@dataclass(frozen=True)
class RayEngine:
    """Works on the nodes of a Ray cluster."""

    workers: Workers

    @contextmanager
    def working(self) -> Iterator[None]:
        """Connect to the cluster, or start one on this machine; what was started here is stopped here."""
        ray = _import_ray()
        if ray.is_initialized():  # by whoever calls the library
            with _quiet(ray):
                yield
            return
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        if self.workers.address is None:
            os.environ.setdefault("RAY_worker_niceness", "0")  # workers are the run itself, nothing beside it
            options |= {"num_cpus": _count_processors(self.workers), "include_dashboard": False}
            options["address"] = "local"  # a cluster that happens to run here is used where it is named
        else:
            _require_reachable(self.workers.address)
            options["address"] = self.workers.address
        try:
            ray.init(**options)
        except Exception as error:
            raise explain_connection(error, self.workers.address or "this machine") from None
        try:
            _warn_of_room(ray.nodes(), self._reserve())
            with _quiet(ray):
                yield
        finally:
            ray.shutdown()

    def call(self, function: Callable[[], Result]) -> Result:
        """Call a function on a node that has what a worker needs."""
        ray = _import_ray()
        task = ray.remote(_call).options(**self._reserve(), max_retries=3)
        with unwrapping():
            result: Result = ray.get(task.remote(ray.put(function), self.workers.threads or 1))
        return result

    def map(self, job: Job[Any, Result], numbers: Sequence[int]) -> Generator[tuple[int, Result], None, None]:
        """Let actors do the pieces, and yield what they send back.

        A piece whose actor or node died is not sent back. Ray Data goes on with the others, and those that
        are missing are done once more.
        """
        waiting, vain = [*numbers], 0
        while waiting:
            done: set[int] = set()
            ray = _import_ray()
            with unwrapping(), forgiving_deaths(ray):
                for batch in self._stream(ray, job, waiting):
                    for number, result in zip(batch["number"], batch["result"], strict=True):
                        done.add(int(number))
                        yield int(number), _open(result)
            waiting = [number for number in waiting if number not in done]
            vain = 0 if done else vain + 1
            if vain:
                time.sleep(vain)  # a dead node is known to the cluster after some seconds
            if vain > _ROUNDS:
                raise InputError(
                    f"All workers of Ray died: {len(waiting):,} pieces are left.",
                    "Run the same command again: what is finished is kept. `ray status` shows the cluster.",
                )

    def _stream(self, ray: Any, job: Job[Any, Any], numbers: Sequence[int]) -> Any:
        """Give the finished pieces as Ray Data streams them."""
        here = ray.get_runtime_context().get_node_id()
        reading, working = _Shared(ray, job.read), _Shared(ray, job.begin)
        # Reading takes no processor of Ray's: with all of them given to workers it would never begin.
        read = ray.data.read_datasource(
            _make_source(reading, numbers),
            override_num_blocks=len(numbers),
            num_cpus=0,
            concurrency=min(_READERS, len(numbers)),  # otherwise all pieces at once
            label_selector={"ray.io/node-id": here},
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # max_restarts is no named parameter yet
            worked = self._send(ray, read, working, len(numbers))
        return worked.iter_batches(batch_size=1, prefetch_batches=0)

    def _send(self, ray: Any, read: Any, working: "_Shared", pieces: int) -> Any:
        """Send pieces to a pool of actors, each of which has made ready once.

        One that died is not restarted: it would wait for a place that may be gone.
        """
        size = min(self.workers.count, pieces)
        return read.map_batches(
            _Working,
            fn_constructor_args=(working, self.workers.threads or 1),
            batch_size=1,
            compute=ray.data.ActorPoolStrategy(size=size, max_tasks_in_flight_per_actor=1),
            max_restarts=0,
            **self._reserve(),
        )

    def _reserve(self) -> dict[str, Any]:
        """Say what Ray reserves for a worker: as many processors as it has threads, unless told otherwise."""
        given = {"num_cpus": float(self.workers.threads or 1), **self.workers.resources}
        named = {name: given.pop(name) for name in _NAMED if name in given}
        return {**named, **({"resources": given} if given else {})}


class _Shared:
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


def _make_source(reading: _Shared, numbers: Sequence[int]) -> Any:
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


def _read_piece(reading: _Shared, number: int) -> list[Any]:
    import pyarrow

    try:
        item = pickle.dumps((True, reading.find()(number)))
    except WhywordError as error:  # a file that changed is no death of a worker
        item = pickle.dumps((False, error))
    return [pyarrow.table({"number": [number], "item": pyarrow.array([item], pyarrow.large_binary())})]


class _Working:
    """Holds what a worker makes ready once: an actor of Ray Data."""

    def __init__(self, working: _Shared, threads: int) -> None:
        import torch

        torch.set_num_threads(threads)
        with telling_own():
            self.work = working.find()()

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"number": batch["number"], "result": [self._close(item) for item in batch["item"]]}

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


def _open(result: bytes) -> Any:
    """Open what was sent back."""
    sound, found = pickle.loads(result)
    if not sound:
        raise found
    return found


def _call(function: Callable[[], Result], threads: int) -> Result:
    import torch

    torch.set_num_threads(threads)
    return function()


def _import_ray() -> Any:
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise InputError(
            f"The engine ray needs Ray Data, which is not installed ({error.name}).",
            "Install it: pip install '.[cluster]' in a checkout of whyword.",
        ) from None
    return ray


def _count_processors(workers: Workers) -> int:
    """Count what Ray may use of this machine: at least what the workers ask for."""
    each = float(workers.resources.get("num_cpus", workers.threads or 1))
    return max(os.cpu_count() or 1, round(each * workers.count))


def _require_reachable(address: str) -> None:
    """Refuse a cluster that does not answer at once: Ray itself would try for minutes."""
    if address in ("auto", "local"):
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        if not host or not port.isdecimal():
            raise OSError("it is not HOST:PORT")
        socket.create_connection((host.strip("[]"), int(port)), _PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise InputError(
            f"There is no Ray cluster at {address}: {getattr(error, 'strerror', None) or error}.",
            "Give auto or HOST:PORT of a running cluster (`ray start --head` prints it).",
        ) from None


def _warn_of_room(nodes: Sequence[Mapping[str, Any]], reserved: Mapping[str, Any]) -> None:
    """Say that no node has what a worker needs: workers wait until the cluster has grown."""
    spelt = {"num_cpus": "CPU", "num_gpus": "GPU", "memory": "memory"}
    needed = {spelt[name]: reserved[name] for name in spelt if name in reserved} | reserved.get(
        "resources", {}
    )
    alive = [node["Resources"] for node in nodes if node["Alive"]]
    if not any(all(node.get(name, 0) >= amount for name, amount in needed.items()) for node in alive):
        wanted = ", ".join(f"{amount:g} {name}" for name, amount in needed.items())
        _logger.warning("No node of the cluster has %s: workers wait until one has.", wanted)


@contextmanager
def _quiet(ray: Any) -> Iterator[None]:
    """Let Ray Data show no bars of its own and log errors only, for a while."""
    context, logger = ray.data.DataContext.get_current(), logging.getLogger("ray.data")
    wanted = {
        "enable_progress_bars": False,
        "print_on_execution_start": False,
        "raise_original_map_exception": True,
        "max_errored_blocks": -1,  # what died with its worker is done once more, by `map`
    }
    before, level = {name: getattr(context, name) for name in wanted}, logger.level
    for name, value in wanted.items():
        setattr(context, name, value)
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for name, kept in before.items():
            setattr(context, name, kept)
        logger.setLevel(level)
