"""The rows of a run in an order: as in the file, by difference, or by the share of a part of the prompt."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InputError
from .opened_run import OpenedRun
from .shard_files import read_records

__all__ = ["RowTable", "list_rows"]

_PARTS = 40
"""Names of parts that rows can be sorted by, the commonest first."""
_COLUMNS = ["id", "row", "method", "error", "text", "difference", "target", "foils", "words", "word_scores"]
_SHOWN = 200
"""Characters of a prompt that a row of the table shows: its last ones."""
_MOST = 200


@dataclass(frozen=True, eq=False)
class RowTable:
    """Where every row is, and what it can be sorted by: a few numbers for each."""

    run: OpenedRun
    method: str
    shards: Any
    """The shard of every row."""
    places: Any
    """Its place among the records of that shard."""
    differences: Any
    """NaN where it could not be explained."""
    shares: Mapping[str, Any]
    """By the name of a part: its part of Σ |scores|; NaN where the prompt has no such part."""

    def __len__(self) -> int:
        return len(self.shards)

    def page(self, sort: str, descending: bool, offset: int, count: int) -> list[dict[str, Any]]:
        """Give some rows in an order; `sort`: row, difference or a part; rows without are last."""
        values = self._values(sort)
        order = np.argsort(-values if descending else values, kind="stable")  # NaN is last
        chosen = order[offset : offset + min(count, _MOST)]
        found: dict[int, dict[str, Any]] = {}
        for shard in {int(self.shards[each]) for each in chosen}:
            own = {int(self.places[each]): int(each) for each in chosen if self.shards[each] == shard}
            records = read_records(
                self.run.folder / self.run.shards[shard].file, [*_COLUMNS, "parts", "part_scores"]
            )
            for place, record in enumerate(records):
                if place in own:
                    found[own[place]] = _describe(record)
        return [found[int(each)] for each in chosen]

    def _values(self, sort: str) -> Any:
        if sort == "row":
            return np.arange(len(self), dtype=np.float64)
        if sort == "difference":
            return self.differences
        if sort not in self.shares:
            known = ", ".join(["row", "difference", *self.shares])
            raise InputError(f"Rows cannot be sorted by {sort!r}.", f"They can be by {known}.")
        return self.shares[sort]


def list_rows(run: OpenedRun, method: str) -> RowTable:
    """Read what rows can be sorted by, of one method and of those that could not be explained."""
    if method not in run.methods:
        raise InputError(f"The run has no method {method!r}.", f"Methods: {', '.join(run.methods)}.")
    shards: list[int] = []
    places: list[int] = []
    differences: list[float] = []
    parts: list[tuple[int, str, float]] = []
    for number, line in run.shards.items():
        wanted = ["method", "error", "difference", "parts", "part_scores"]
        for place, record in enumerate(read_records(run.folder / line.file, wanted)):
            if record["error"] is None and record["method"] != method:
                continue
            if record["parts"]:
                parts += [(len(shards), *each) for each in _share(record)]
            shards.append(number)
            places.append(place)
            differences.append(np.nan if record["difference"] is None else record["difference"])
    common = [name for name, _ in Counter(name for _, name, _ in parts).most_common(_PARTS)]
    shares = {name: np.full(len(shards), np.nan) for name in common}
    for row, name, share in parts:
        if name in shares:
            shares[name][row] = share
    return RowTable(run, method, np.array(shards), np.array(places), np.array(differences), shares)


def _share(record: Mapping[str, Any]) -> list[tuple[str, float]]:
    size = sum(map(abs, record["part_scores"])) or 1.0
    return [(name, score / size) for name, score in zip(record["parts"], record["part_scores"], strict=True)]


def _describe(record: Mapping[str, Any]) -> dict[str, Any]:
    """Give what the table shows of a row."""
    text = record["text"] or ""
    ranked = sorted(
        zip(record["words"] or (), record["word_scores"] or (), strict=True), key=lambda word: -abs(word[1])
    )
    return {
        "id": record["id"],
        "row": record["row"],
        "error": record["error"],
        "text": text if len(text) <= _SHOWN else f"…{text[-_SHOWN:]}",
        "target": None if record["target"] is None else record["target"]["text"],
        "foils": [foil["text"] for foil in record["foils"] or ()],
        "difference": record["difference"],
        "strongest": [list(word) for word in ranked[:3]],
        "parts": [list(each) for each in _share(record)] if record["parts"] else [],
    }
