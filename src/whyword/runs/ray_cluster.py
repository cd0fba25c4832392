"""The work of a run on a Ray cluster: Ray Data streams pieces to actors, restarts dead ones, and retries.

Pieces are read on the node of this process and travel through Ray's object store, and so do results: neither
the files of a run nor its folder need be reachable from other nodes.
"""

import logging
import os
import socket
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar, TypeVar

from ..errors import InputError
from .engine import Job, Workers
from .own_ray import is_own, start_own, without_helpers
from .ray_workers import Shared, Working, call_function, make_source, open_result
from .remote_errors import explain_connection, forgiving_deaths, unwrapping
from .streaming_threads import ending_threads

__all__ = ["RayEngine"]

Result = TypeVar("Result")
_logger = logging.getLogger("whyword")
_PATIENCE = 5.0
"""Seconds within which a cluster must answer."""
_ROUNDS = 6
"""How often in a row nothing may come of the pieces that are left."""
_READERS = 2
"""Pieces that are read at the same time: reading is quick beside the work, and each takes a process."""
_NAMED = ("num_cpus", "num_gpus", "memory")
"""Resources that Ray has a parameter for; all others are names of a cluster's own."""


@dataclass(frozen=True)
class RayEngine:
    """Works on the nodes of a Ray cluster."""

    workers: Workers
    alone: ClassVar[bool] = False

    @contextmanager
    def working(self) -> Iterator[None]:
        """Connect to the cluster, or start one on this machine; what was started here is stopped here."""
        ray = _import_ray()
        if ray.is_initialized():  # by whoever calls the library
            with _quiet():
                yield
            return
        os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # it warns of actors that may be restarted
        address = self.workers.address
        if address is not None:
            _require_reachable(address)
        try:
            with _hushed():
                if address is None:
                    start_own(ray, self.workers)
                else:
                    ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
        except Exception as error:
            raise explain_connection(error, address or "this machine") from None
        try:
            _warn_of_room(ray.nodes(), self._reserve(ray))
            with _quiet(), without_helpers(ray) if is_own(ray) else nullcontext(), ending_threads():
                yield
        finally:
            ray.shutdown()

    def call(self, function: Callable[[], Result]) -> Result:
        """Call a function on a node that has what a worker needs."""
        ray = _import_ray()
        task = ray.remote(call_function).options(**self._reserve(ray), max_retries=3)
        with unwrapping():
            result: Result = ray.get(task.remote(ray.put(function), self.workers.threads or 1))
        return result

    def map(self, job: Job[Any, Result], numbers: Sequence[int]) -> Generator[tuple[int, Result], None, None]:
        """Let actors do the pieces, and yield what they send back.

        A piece whose actor or node died is not sent back. Ray Data goes on with the others, and those that
        are missing are done once more.
        """
        ray = _import_ray()
        shared = Shared(ray, job.read), Shared(ray, job.begin)
        waiting, vain = [*numbers], 0
        while waiting:
            done: set[int] = set()
            with unwrapping(), forgiving_deaths(ray):
                for batch in self._stream(ray, *shared, waiting):
                    for number, result in zip(batch["number"], batch["result"], strict=True):
                        done.add(int(number))
                        yield int(number), open_result(result)
            waiting = [number for number in waiting if number not in done]
            vain = 0 if done else vain + 1
            if vain:
                time.sleep(vain)  # a dead node is known to the cluster after some seconds
            if vain > _ROUNDS:
                raise InputError(
                    f"All workers of Ray died: {len(waiting):,} pieces are left.",
                    "Run the same command again: what is finished is kept. `ray status` shows the cluster.",
                )

    def _stream(self, ray: Any, reading: Shared, working: Shared, numbers: Sequence[int]) -> Any:
        """Give the finished pieces as Ray Data streams them."""
        if is_own(ray):  # workers read where they are
            pieces = ray.data.from_items(
                [{"number": number} for number in numbers], override_num_blocks=len(numbers)
            )
        else:
            pieces = _read_here(ray, reading, numbers)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # max_restarts and its like are no named parameters yet
            worked = self._send(ray, pieces, (working, reading), len(numbers))
        return worked.iter_batches(batch_size=1, prefetch_batches=0)

    def _send(self, ray: Any, read: Any, shared: tuple[Shared, Shared], pieces: int) -> Any:
        """Send pieces to a pool of actors, each of which has made ready once.

        One that died is started again as soon as there is a place for it. Its piece does not wait for that:
        it is given up, and `map` sends it once more.
        """
        size = min(self.workers.count, pieces)
        return read.map_batches(
            Working,
            fn_constructor_args=(*shared, self.workers.threads or 1),
            batch_size=1,
            compute=ray.data.ActorPoolStrategy(size=size, max_tasks_in_flight_per_actor=1),
            max_restarts=-1,
            max_task_retries=0,
            **self._reserve(ray),
        )

    def _reserve(self, ray: Any) -> dict[str, Any]:
        """Say what Ray reserves for a worker: as many processors as it has threads, unless told otherwise."""
        processors = 1 if is_own(ray) else self.workers.threads or 1  # nobody else works on a Ray of ours
        given = {"num_cpus": float(processors), **self.workers.resources}
        named = {name: given.pop(name) for name in _NAMED if name in given}
        return {**named, **({"resources": given} if given else {})}


def _read_here(ray: Any, reading: Shared, numbers: Sequence[int]) -> Any:
    """Let pieces be read on this node, where the files are, in processes of their own."""
    # Reading takes no processor of Ray's: with all of them given to workers it would never begin.
    return ray.data.read_datasource(
        make_source(reading, numbers),
        override_num_blocks=len(numbers),
        num_cpus=0,
        concurrency=min(_READERS, len(numbers)),  # otherwise all pieces at once
        label_selector={"ray.io/node-id": ray.get_runtime_context().get_node_id()},
    )


def _import_ray() -> Any:
    """Import Ray without its Data, which takes seconds: workers can be started before."""
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent to Ray's makers unless asked for
    with _telling_what_is_missing():
        return import_module("ray")


@contextmanager
def _telling_what_is_missing() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise InputError(
            f"The engine ray needs Ray Data, which is not installed ({error.name}).",
            "Install it: pip install '.[cluster]' in a checkout of whyword.",
        ) from None


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
def _hushed() -> Iterator[None]:
    """Drop what is written to stderr outside Python: Ray announces its log level there."""
    with open(os.devnull, "wb") as nowhere:
        kept = os.dup(2)
        os.dup2(nowhere.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)


@contextmanager
def _quiet() -> Iterator[None]:
    """Let Ray Data show no bars of its own and log errors only, for a while."""
    with _telling_what_is_missing():
        context = import_module("ray.data").DataContext.get_current()
    logger = logging.getLogger("ray.data")
    wanted = {
        "enable_progress_bars": False,
        "print_on_execution_start": False,
        "raise_original_map_exception": True,
        "memory_usage_poll_interval_s": None,  # it would be asked for every second, in every worker
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
