"""How fast a run aligns: pairs per second, and its time as a multiple of plain forward passes.

Every worker has a meter; what each has counted is added up by whoever runs the whole.
Of a few batches the plain teacher-forced pass is run as well; their share of the time stays below 2 %.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..models.model import Model
from ..trace.running import run
from .preparing import Prepared

__all__ = ["Counted", "Meter", "Throughput"]

_SAMPLED = 0.02
"""Most time spent on plain passes, as a share of the time of all batches."""


@dataclass(frozen=True)
class Throughput:
    """How fast a run was."""

    pairs: int
    seconds: float
    multiple: float | None
    """Seconds of all workers ÷ seconds of the plain passes of their batches, estimated; None: no batch."""
    workers: int = 1

    def __str__(self) -> str:
        if self.multiple is None:
            return f"{self.pairs:,} pairs"
        speed = f"{self.pairs / self.seconds:.1f} pairs/s"
        each = "" if self.workers == 1 else f" by {self.workers} workers"
        return f"{self.pairs:,} pairs, {speed}{each}, {self.multiple:.2f} × teacher-forced forward passes"


@dataclass(frozen=True)
class Counted:
    """What was counted of some batches."""

    pairs: int = 0
    batches: float = 0.0
    """Seconds of all of them."""
    aligned: float = 0.0
    """Seconds of those whose plain pass was run as well."""
    plain: float = 0.0
    """Seconds of these plain passes."""

    def __add__(self, other: "Counted") -> "Counted":
        return Counted(
            self.pairs + other.pairs,
            self.batches + other.batches,
            self.aligned + other.aligned,
            self.plain + other.plain,
        )

    def __sub__(self, other: "Counted") -> "Counted":
        return self + Counted(-other.pairs, -other.batches, -other.aligned, -other.plain)

    def read(self, seconds: float, workers: int = 1) -> Throughput:
        """Return the throughput of a run that took so many seconds, without the time of the plain passes."""
        own = seconds - self.plain / workers
        if not self.plain or not self.aligned:
            return Throughput(self.pairs, own, None, workers)
        forward = self.batches * self.plain / self.aligned
        return Throughput(self.pairs, own, workers * own / forward, workers)


@dataclass
class Meter:
    """Adds up the time of a worker's batches, and of plain passes over some of them."""

    counted: Counted = field(default_factory=Counted)

    def note(self, model: Model, batch: Sequence[Prepared], seconds: float) -> None:
        """Count a batch, and run its plain pass where that was rarely done so far."""
        self.counted += Counted(len(batch), seconds)
        if self.counted.plain > _SAMPLED * self.counted.batches:
            return
        start = time.perf_counter()
        run(model, [list(pair.read) for pair in batch], [pair.pair.source.ids for pair in batch])
        self.counted += Counted(aligned=seconds, plain=time.perf_counter() - start)
