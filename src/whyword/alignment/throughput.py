"""How fast a run aligns: pairs per second, and its time as a multiple of plain forward passes.

Of a few batches the plain teacher-forced pass is run as well; their share of the time stays below 2 %.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..models.model import Model
from ..trace.running import run
from .preparing import Prepared

__all__ = ["Meter", "Throughput"]

_SAMPLED = 0.02
"""Most time spent on plain passes, as a share of the time of all batches."""


@dataclass(frozen=True)
class Throughput:
    """How fast a run was."""

    pairs: int
    seconds: float
    multiple: float | None
    """Seconds of the whole run ÷ seconds of the plain passes of its batches, estimated; None: no batch."""

    def __str__(self) -> str:
        if self.multiple is None:
            return f"{self.pairs:,} pairs"
        speed = f"{self.pairs / self.seconds:.1f} pairs/s"
        return f"{self.pairs:,} pairs, {speed}, {self.multiple:.2f} × teacher-forced forward passes"


@dataclass
class Meter:
    """Adds up the time of batches, and of plain passes over some of them."""

    began: float = field(default_factory=time.perf_counter)
    pairs: int = 0
    batches: float = 0.0
    """Seconds of all batches."""
    _aligned: float = 0.0
    _plain: float = 0.0

    def note(self, model: Model, batch: Sequence[Prepared], seconds: float) -> None:
        """Count a batch, and run its plain pass where that was rarely done so far."""
        self.pairs += len(batch)
        self.batches += seconds
        if self._plain > _SAMPLED * self.batches:
            return
        start = time.perf_counter()
        run(model, [list(pair.read) for pair in batch], [pair.pair.source.ids for pair in batch])
        self._plain += time.perf_counter() - start
        self._aligned += seconds

    def read(self) -> Throughput:
        """Return the throughput so far, without the time of the plain passes."""
        seconds = time.perf_counter() - self.began - self._plain
        if not self._plain or not self._aligned:
            return Throughput(self.pairs, seconds, None)
        forward = self.batches * self._plain / self._aligned
        return Throughput(self.pairs, seconds, seconds / forward)
