"""Records of a run: one line per example, appended as it is finished."""

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..runs.journal import append_lines, open_run, read_lines, read_settings

__all__ = ["Journal", "Record", "open_journal", "read_run"]

SCHEMA = "whyword.run/1"
_NAME = "examples.jsonl"
_logger = logging.getLogger("whyword")


@dataclass(frozen=True)
class Record:
    """The record of one example."""

    dataset: str
    row: int
    tokens: int
    """Number of tokens of its context."""
    evidence: tuple[int, ...]
    left_out: tuple[int, ...]
    """Tokens that are not ranked."""
    difference: float
    """Logit of the target − logit of the foil."""
    attention: tuple[float, ...]
    """What attention adds to the difference, by block."""
    mlp: tuple[float, ...]
    """What MLPs add to it, by block."""
    scores: Mapping[str, tuple[float, ...]]
    """A number per token, by method."""
    rank_by_block: Mapping[str, tuple[float, ...]]
    """The reciprocal rank by the scores of each block alone, for methods that have blocks."""
    rank_by_depth: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """The reciprocal rank by the scores at each depth, for methods that have depths."""
    faithfulness: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Comprehensiveness and sufficiency, by method; empty where not requested or not defined."""
    swaps: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """What the difference loses when a ranked token is another word, by place; empty where not requested."""

    @property
    def correct(self) -> bool:
        """Whether the model prefers the target."""
        return self.difference > 0

    @property
    def distance(self) -> int:
        """How many tokens before the explained one the last evidence is."""
        return self.tokens - max(self.evidence)

    def ranked(self, method: str) -> tuple[list[float], list[int]]:
        """Return the scores that are ranked, and the indices of the evidence among them."""
        kept = [index for index in range(self.tokens) if index not in self.left_out]
        return [self.scores[method][index] for index in kept], [kept.index(index) for index in self.evidence]


@dataclass(frozen=True)
class Journal:
    """The file that records are appended to."""

    path: Path
    done: frozenset[tuple[str, int]]
    """Datasets and rows that it contains."""

    def append(self, records: Iterable[Record]) -> None:
        """Append the records that it does not contain yet."""
        new = (record for record in records if (record.dataset, record.row) not in self.done)
        append_lines(self.path, (json.dumps(_to_dict(record), ensure_ascii=False) for record in new))


def open_journal(folder: Path, settings: Mapping[str, Any]) -> Journal:
    """Start a run in a folder, or resume the one that is there."""
    path = folder / _NAME
    open_run(path, SCHEMA, settings)
    done = frozenset((record.dataset, record.row) for record in read_lines(path, _from_dict))
    if done:
        _logger.info("%s: %d examples are done, resuming.", folder, len(done))
    return Journal(path, done)


def read_run(folder: str | Path) -> tuple[dict[str, Any], list[Record]]:
    """Read the settings and all examples of a run."""
    folder = Path(folder)
    return read_settings(folder, SCHEMA), list(read_lines(folder / _NAME, _from_dict))


def _to_dict(record: Record) -> dict[str, Any]:
    return {name: _round(value) for name, value in asdict(record).items()}


def _from_dict(line: Mapping[str, Any]) -> Record:
    return Record(**{name: _freeze(value) for name, value in line.items()})


def _round(value: Any) -> Any:
    """Round numbers to 7 digits, the precision of float32."""
    if isinstance(value, float):
        return float(f"{value:.7g}")
    if isinstance(value, Mapping):
        return {name: _round(each) for name, each in value.items()}
    return (
        [_round(each) for each in value]
        if isinstance(value, Sequence) and not isinstance(value, str)
        else value
    )


def _freeze(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _freeze(each) for name, each in value.items()}
    return tuple(map(_freeze, value)) if isinstance(value, list) else value
