"""Options of commands whose work an engine does: where, by how many workers, with what."""

from enum import Enum
from typing import Annotated

import typer

__all__ = ["ClusterAddress", "EngineChoice", "EngineName", "Resources", "WorkerCount", "WorkerThreads"]


class EngineName(str, Enum):
    """The names of runs.engine.ENGINES."""

    local = "local"
    ray = "ray"


EngineChoice = Annotated[
    EngineName,
    typer.Option("--engine", metavar="ENGINE", help="local: this machine; ray: a Ray cluster."),
]
WorkerCount = Annotated[
    int, typer.Option("--workers", min=1, metavar="N", help="How many work at once; each has a model.")
]
WorkerThreads = Annotated[
    int,
    typer.Option(
        "--threads", min=1, metavar="N", help="Threads of each worker; another number changes last digits."
    ),
]
ClusterAddress = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="ADDRESS",
        help="The Ray cluster: auto, or HOST:PORT.",
        show_default="Ray is started on this machine",
    ),
]
Resources = Annotated[
    str | None,
    typer.Option(
        "--resources", metavar="LIST", help="What Ray reserves for each worker: num_gpus=1,num_cpus=2."
    ),
]
