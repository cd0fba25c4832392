"""A Ray of this machine alone, started for one run, with no more processes than the run needs.

Ray is made for clusters: it starts a dashboard, an autoscaler and what gathers logs, and Ray Data three
actors that keep statistics, ask for nodes and note where workers are. Each is a Python process that imports
for seconds, on the processors that workers wait for, and has nothing to do where one machine works for one
run. So there is none of them, and workers begin to import as soon as Ray is there.
"""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from typing import Any

from .engine import Workers

__all__ = ["is_own", "start_own", "without_helpers"]

_NAMESPACE = "whyword-run"
_EARLY = ("torch", "transformers", "ray.data")
"""What every worker imports in the end."""
_NEEDLESS = ("start_api_server", "start_monitor", "start_log_monitor")
"""What a node of Ray starts that only clusters need; `ray.init` has no options for them."""


def _start_nothing(*_: Any, **__: Any) -> None:
    """Stand for what would start a process."""


def start_own(ray: Any, workers: Workers) -> None:
    """Start Ray on this machine, with a process for every worker."""
    os.environ.setdefault("RAY_worker_niceness", "0")  # workers are the run itself, nothing beside it
    config: dict[str, Any] = {"enable_metrics_collection": False}
    if not workers.resources:  # what runs on a GPU imports when it knows on which
        config["preload_python_modules"] = list(_EARLY)
    with _replaced("ray._private.node:Node", **dict.fromkeys(_NEEDLESS, _start_nothing)):
        ray.init(
            address="local",  # a cluster that happens to run here is used where it is named
            namespace=_NAMESPACE,
            num_cpus=_count_processors(workers),
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            _system_config=config,
        )


def is_own(ray: Any) -> bool:
    """Tell whether Ray was started here for one run: then its workers are where the files are."""
    return bool(ray.get_runtime_context().namespace == _NAMESPACE)


def _count_processors(workers: Workers) -> int:
    """Count the processors that Ray may give away: it starts a process for each at once."""
    each = float(workers.resources.get("num_cpus", 1.0))
    return max(1, round(each * workers.count))


@contextmanager
def without_helpers(ray: Any) -> Iterator[None]:
    """Let Ray Data do without its three actors."""
    data = "ray.data._internal"
    with (
        _replaced(f"{data}.stats", get_or_create_stats_actor=_Idle),
        _replaced(f"{data}.execution.streaming_executor", create_cluster_autoscaler=partial(_Fixed, ray)),
        _replaced(
            f"{data}.execution.operators.actor_pool_map_operator",
            get_or_create_actor_location_tracker=_Idle,
            get_actor_locations=_know_no_places,
        ),
    ):
        yield


class _Idle:
    """Stands for an actor: takes every call and does nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def remote(self, *_: Any, **__: Any) -> None:
        """Do nothing."""


def _know_no_places(_: Any) -> dict[str, str]:
    """Give the places of actors that have moved: there is one machine."""
    return {}


class _Fixed:
    """Stands for an autoscaler: the machine is as large as it is."""

    def __init__(self, ray: Any, *_: Any, **__: Any) -> None:
        resources = import_module("ray.data._internal.execution.interfaces").ExecutionResources
        self.total = resources.from_resource_dict(ray.cluster_resources())

    def try_trigger_scaling(self) -> None:
        """Do nothing."""

    def on_executor_shutdown(self) -> None:
        """Do nothing."""

    def get_total_resources(self) -> Any:
        """Give what there is."""
        return self.total


@contextmanager
def _replaced(place: str, **others: Any) -> Iterator[None]:
    """Put something else in the place of names of a module, or class in it, for a while.

    What is not there is left: with another Ray a run takes longer to start, and goes well.
    """
    before: dict[str, Any] = {}
    with suppress(ImportError, AttributeError):
        module, _, kind = place.partition(":")
        home = import_module(module)
        home = getattr(home, kind) if kind else home
        before = {name: getattr(home, name) for name in others if hasattr(home, name)}
    for name in before:
        setattr(home, name, others[name])
    try:
        yield
    finally:
        for name, kept in before.items():
            setattr(home, name, kept)
