"""MRR by depth, and the depth at which flow is read best: chosen on even rows, reported on odd ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
from jaxtyping import Float

from .metrics import draw_means
from .records import Record

__all__ = ["DepthTable", "measure_depths"]

_DRAWS = 1000


@dataclass(frozen=True)
class DepthTable:
    """MRR at every depth, from one pull-back of each example."""

    method: str
    by_group: Mapping[str, tuple[float, ...]]
    """By group of datasets; every dataset has the same weight."""
    even: tuple[float, ...]
    """Mean over all datasets, of their even rows."""
    odd: tuple[float, ...]
    """The same of their odd rows."""
    default: int
    """The depth at which the method is read: a tenth of the blocks."""
    chosen: int
    """The depth with the highest mean on even rows."""
    chosen_on_odd: tuple[float, float, float]
    """Its mean on odd rows, with the 95 % bootstrap interval."""
    default_on_odd: tuple[float, float, float]
    """The same for the default."""


def measure_depths(settings: Mapping[str, Any], records: Sequence[Record]) -> tuple[DepthTable, ...]:
    """Measure MRR by depth for every method that has depths; none where no row, or no other, is odd."""
    methods = dict.fromkeys(method for record in records for method in record.rank_by_depth)
    tables = []
    for method in methods:
        ranks = {
            name: [record for record in records if record.dataset == name] for name in settings["datasets"]
        }
        used = {name: own for name, own in ranks.items() if {record.row % 2 for record in own} == {0, 1}}
        if used:
            tables.append(_measure(method, settings, used))
    return tuple(tables)


def _measure(method: str, settings: Mapping[str, Any], records: Mapping[str, Sequence[Record]]) -> DepthTable:
    groups: dict[str, list[np.ndarray]] = {}
    for name, own in records.items():
        groups.setdefault(settings["datasets"][name]["group"], []).append(_ranks(method, own).mean(0))
    halves = [
        [_ranks(method, [record for record in own if record.row % 2 == half]) for own in records.values()]
        for half in (0, 1)
    ]
    even, odd = (np.mean([ranks.mean(0) for ranks in half], axis=0) for half in halves)
    default, chosen = ceil((len(even) - 1) / 10), int(np.argmax(even))
    draws = np.mean([draw_means(ranks.T, _DRAWS, settings["seed"]) for ranks in halves[1]], axis=0)
    return DepthTable(
        method=method,
        by_group={group: _plain(np.mean(means, axis=0)) for group, means in groups.items()},
        even=_plain(even),
        odd=_plain(odd),
        default=default,
        chosen=chosen,
        chosen_on_odd=_bound(odd, draws, chosen),
        default_on_odd=_bound(odd, draws, default),
    )


def _ranks(method: str, records: Sequence[Record]) -> Float[np.ndarray, "example depth"]:
    return np.array([record.rank_by_depth[method] for record in records])


def _bound(
    means: Float[np.ndarray, " depth"], draws: Float[np.ndarray, "depth draw"], depth: int
) -> tuple[float, float, float]:
    low, high = np.percentile(draws[depth], [2.5, 97.5])
    return float(means[depth]), float(low), float(high)


def _plain(numbers: Float[np.ndarray, " depth"]) -> tuple[float, ...]:
    return tuple(float(number) for number in numbers)
