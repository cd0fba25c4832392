"""From the examples of a run to its table: means by dataset and by group, with bootstrap intervals."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import nan
from pathlib import Path
from statistics import fmean as mean
from typing import Any

import numpy as np
from jaxtyping import Float

from ..data import Skipped
from ..runs.journal import read_lines
from ..runs.whole_files import write_file
from .conventions import find_conventions
from .metrics import CORRELATIONS, METRICS, draw_means, expect_by_chance
from .positions import PositionTable, measure_positions
from .reading_depth import DepthTable, measure_depths
from .records import Record, read_run

__all__ = [
    "CHANCE",
    "FAITHFULNESS",
    "Cell",
    "Report",
    "Row",
    "read_report",
    "read_skipped",
    "summarise",
    "write_skipped",
]

DRAWS = 1000
FAITHFULNESS = ("comprehensiveness", "sufficiency")
CHANCE = "random"
"""The method with random scores."""


@dataclass(frozen=True)
class Cell:
    """A mean with its 95 % bootstrap interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Row:
    """A dataset, or the mean of the datasets of a group."""

    name: str
    title: str
    group: str
    used: int
    skipped: Mapping[str, int]
    """Number of skipped rows, by reason."""
    accuracy: float
    """Share of examples in which the model prefers the target."""
    distance: float
    """How many tokens before the explained one the last evidence is, on average."""
    cells: Mapping[str, Mapping[str, Cell]]
    """By metric and method; random scores count as a method for MRR."""


@dataclass(frozen=True)
class Report:
    """The table of a run."""

    settings: Mapping[str, Any]
    rows: tuple[Row, ...]
    """One per dataset; without cells where none of its examples could be used."""
    groups: tuple[Row, ...]
    """Means of the datasets of each group."""
    depths: tuple[DepthTable, ...] = ()
    """MRR by depth, of methods that have depths."""
    positions: tuple[PositionTable, ...] = ()
    """How often the right part comes first, by its position, of datasets that rank parts."""

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods, in the order of the columns."""
        return tuple(self.settings["methods"])

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document."""
        return {"schema": "whyword.table/1", **asdict(self)}


@dataclass(frozen=True)
class _Sample:
    """The values of one dataset, a row for each metric and method, and their bootstrap means."""

    keys: list[tuple[str, str]]
    values: Float[np.ndarray, "metric example"]
    draws: Float[np.ndarray, "metric draw"]


def read_report(folder: str | Path) -> Report:
    """Read the records of a run and summarise them."""
    return summarise(*read_run(folder), read_skipped(Path(folder)))


def summarise(settings: Mapping[str, Any], records: Sequence[Record], skipped: Sequence[Skipped]) -> Report:
    """Summarise the records of a run."""
    rows: list[Row] = []
    samples: dict[str, _Sample] = {}
    for name, about in settings["datasets"].items():
        own = [record for record in records if record.dataset == name]
        reasons = Counter(each.reason for each in skipped if each.dataset == name)
        if own:
            samples[name] = _sample(own, settings)
        rows.append(_row(name, about, own, dict(reasons), samples.get(name)))
    groups = tuple(_groups([row for row in rows if row.used], samples))
    depths, positions = measure_depths(settings, records), measure_positions(settings, records)
    return Report(settings, tuple(rows), groups, depths, positions)


def write_skipped(folder: Path, skipped: Sequence[Skipped]) -> None:
    """List the rows that could not be used, with the reason."""
    lines = [json.dumps(asdict(each), ensure_ascii=False) + "\n" for each in skipped]
    write_file(folder / "skipped.jsonl", "".join(lines))


def read_skipped(folder: Path) -> list[Skipped]:
    """Read that list."""
    return list(read_lines(folder / "skipped.jsonl", _read_skipped_line))


def _read_skipped_line(line: Mapping[str, Any]) -> Skipped:
    return Skipped(str(line["dataset"]), int(line["row"]), str(line["reason"]))


def _sample(records: Sequence[Record], settings: Mapping[str, Any]) -> _Sample:
    """Measure every example by every metric and method."""
    conventions = find_conventions(settings["conventions"])
    metrics = {**METRICS, "MRR": conventions.rank}
    table: dict[tuple[str, str], list[float]] = {}
    for method in settings["methods"]:
        ranked = [record.ranked(method) for record in records]
        for metric, measure in metrics.items():
            table[metric, method] = [measure(*each) for each in ranked]
        for place, metric in enumerate(FAITHFULNESS):
            if any(record.faithfulness for record in records):
                table[metric, method] = [
                    record.faithfulness[method][place] if record.faithfulness else np.nan
                    for record in records
                ]
        for place in settings.get("swapped at", ()):
            for metric, correlate in CORRELATIONS.items():
                name = metric if place == "input" else f"{metric} at {place}"
                table[name, method] = [
                    correlate(own, record.swaps[place])
                    for record, (own, _) in zip(records, ranked, strict=True)
                ]
    if conventions.drawn:
        generator = np.random.default_rng(settings["seed"])
        table["MRR", CHANCE] = [
            conventions.rank(generator.random(record.tokens).tolist(), record.evidence) for record in records
        ]
    else:
        table["MRR", CHANCE] = [
            expect_by_chance(record.tokens - len(record.left_out), len(record.evidence)) for record in records
        ]
    values = np.array(list(table.values()))
    draws = np.empty((len(values), DRAWS))
    masks, kinds = np.unique(~np.isnan(values), axis=0, return_inverse=True)
    for kind, there in enumerate(masks):
        own = kinds.reshape(-1) == kind
        draws[own] = draw_means(values[own][:, there], DRAWS, settings["seed"]) if there.any() else nan
    return _Sample(list(table), values, draws)


def _row(
    name: str,
    about: Mapping[str, Any],
    records: Sequence[Record],
    skipped: dict[str, int],
    sample: _Sample | None,
) -> Row:
    return Row(
        name=name,
        title=about["title"],
        group=about["group"],
        used=len(records),
        skipped=skipped,
        accuracy=mean(record.correct for record in records) if records else nan,
        distance=mean(record.distance for record in records) if records else nan,
        cells={} if sample is None else _cells(sample.keys, _average(sample.values, 1), sample.draws),
    )


def _groups(rows: Sequence[Row], samples: Mapping[str, _Sample]) -> list[Row]:
    """Average over the datasets of each group; every dataset has the same weight."""
    means = []
    for group in dict.fromkeys(row.group for row in rows):
        own = [row for row in rows if row.group == group]
        parts = [samples[row.name] for row in own]
        values = _average(np.array([_average(part.values, 1) for part in parts]), 0)
        draws = _average(np.array([part.draws for part in parts]), 0)
        skipped: Counter[str] = Counter()
        for row in own:
            skipped.update(row.skipped)
        means.append(
            Row(
                name=group,
                title=f"mean of {len(own)} datasets" if len(own) > 1 else own[0].title,
                group=group,
                used=sum(row.used for row in own),
                skipped=dict(skipped),
                accuracy=mean(row.accuracy for row in own),
                distance=mean(row.distance for row in own),
                cells=_cells(parts[0].keys, values, draws),
            )
        )
    return means


def _average(values: Float[np.ndarray, "*any"], axis: int) -> Float[np.ndarray, "*fewer"]:
    """Average over one axis what is defined; NaN where nothing is."""
    counts = (~np.isnan(values)).sum(axis)
    means: Float[np.ndarray, "*fewer"] = np.nansum(values, axis) / np.where(counts, counts, nan)
    return means


def _cells(
    keys: Sequence[tuple[str, str]],
    means: Float[np.ndarray, " metric"],
    draws: Float[np.ndarray, "metric draw"],
) -> dict[str, dict[str, Cell]]:
    low, high = np.percentile(draws, [2.5, 97.5], axis=1)
    cells: dict[str, dict[str, Cell]] = {}
    for index, (metric, method) in enumerate(keys):
        cells.setdefault(metric, {})[method] = Cell(
            float(means[index]), float(low[index]), float(high[index])
        )
    return cells
