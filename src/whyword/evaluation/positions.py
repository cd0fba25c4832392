"""How often the right part comes first, by its position among the parts: first, second …, last."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .metrics import draw_means, expect_first
from .records import Record

__all__ = ["PositionRow", "PositionTable", "measure_positions"]

_DRAWS = 1000


@dataclass(frozen=True)
class PositionRow:
    """The examples whose right part is at one position."""

    position: int
    """Counted from 1."""
    used: int
    cells: Mapping[str, tuple[float, float, float]]
    """The share in which it comes first, with the 95 % bootstrap interval, by method."""


@dataclass(frozen=True)
class PositionTable:
    """A dataset whose examples rank parts of a prompt."""

    dataset: str
    parts: int
    rows: tuple[PositionRow, ...]


def measure_positions(settings: Mapping[str, Any], records: Sequence[Record]) -> tuple[PositionTable, ...]:
    """Measure every dataset that ranks parts; positions without an example are left out."""
    tables = []
    for name, about in settings["datasets"].items():
        own = [record for record in records if record.dataset == name]
        if about.get("ranked") == "parts" and own:
            positions = sorted({min(record.evidence) for record in own})
            rows = [_measure(settings, position, own) for position in positions]
            tables.append(PositionTable(name, max(record.tokens for record in own), tuple(rows)))
    return tuple(tables)


def _measure(settings: Mapping[str, Any], position: int, records: Sequence[Record]) -> PositionRow:
    own = [record for record in records if min(record.evidence) == position]
    first = np.array(
        [[expect_first(*record.ranked(method)) for record in own] for method in settings["methods"]]
    )
    low, high = np.percentile(draw_means(first, _DRAWS, settings["seed"]), [2.5, 97.5], axis=1)
    means = first.mean(1)
    cells = {
        method: (float(means[place]), float(low[place]), float(high[place]))
        for place, method in enumerate(settings["methods"])
    }
    return PositionRow(position + 1, len(own), cells)
