"""Check many model types, each within a time limit: a worker that hangs or dies is replaced."""

import multiprocessing
from collections.abc import Iterator, Sequence
from contextlib import closing
from multiprocessing.connection import Connection
from typing import Any

from ..errors import InputError
from ..models.testing.random_configs import list_types
from ..runs.progress import report
from .one_type import Outcome, check_type

__all__ = ["SECONDS", "SEEDS", "sweep_types"]

SEEDS = 3
"""Networks of each type: one with the choices of its config class, and others with switches drawn."""
SECONDS = 300.0
"""Seconds that a type may take."""


def sweep_types(
    types: Sequence[str] | None = None, seeds: int = SEEDS, seconds: float = SECONDS
) -> Iterator[Outcome]:
    """Check small networks of model types, by default of all that transformers has, one after the other."""
    known = list_types()
    chosen = known if types is None else list(types)
    if unknown := [each for each in chosen if each not in known]:
        raise InputError(
            f"{unknown[0]!r} is not a causal model type of the installed transformers.",
            f"Model types: {', '.join(known)}.",
        )
    if seeds < 1:
        raise InputError(f"seeds is {seeds}.", "Check at least one network of each type.")
    return _sweep(chosen, seeds, seconds)


def _sweep(types: Sequence[str], seeds: int, seconds: float) -> Iterator[Outcome]:
    worker = _Worker()
    try:
        for done, model_type in enumerate(types):
            report("model types", done, len(types))
            outcome = worker.check(model_type, seeds, seconds)
            if outcome.outcome == "traceback" and not worker.alive:
                worker = _Worker()
            yield outcome
        report("model types", len(types), len(types))
    finally:
        worker.stop()


class _Worker:
    """A process that checks one type after the other."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        self.process = context.Process(target=_work, args=(other,), daemon=True)
        self.process.start()
        other.close()

    @property
    def alive(self) -> bool:
        """Whether it can check another type."""
        return self.process.is_alive()

    def check(self, model_type: str, seeds: int, seconds: float) -> Outcome:
        """Check a type; the process is stopped where it takes too long."""
        try:
            self.connection.send((model_type, seeds))
            if self.connection.poll(seconds):
                found: Outcome = self.connection.recv()
                return found
        except (EOFError, OSError):
            self.stop()
            return Outcome(model_type, "traceback", reason=f"the process died ({self.process.exitcode})")
        self.stop()
        return Outcome(model_type, "traceback", reason=f"not finished after {seconds:g} seconds")

    def stop(self) -> None:
        """Stop the process."""
        self.process.kill()
        self.process.join()
        self.connection.close()


def _work(connection: Connection) -> None:
    """Check types until nothing more is sent."""
    _be_quiet()
    with closing(connection):
        while True:
            try:
                model_type, seeds = connection.recv()
            except (EOFError, KeyboardInterrupt):
                return
            connection.send(check_type(model_type, seeds))


def _be_quiet() -> None:
    """Leave out what transformers and torch remark about small configs."""
    import logging
    import warnings

    import torch
    import transformers

    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    quiet: Any = transformers.logging
    quiet.set_verbosity_error()
    torch.set_num_threads(1)
