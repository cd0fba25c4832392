"""A run on disk: what was asked for, and one line for every example as it is done.

A run may be stopped at any time, kill −9 included. Lines are appended whole; of a process that dies while it
writes at most the last line is cut, and that one is dropped and done again. What was asked for is written
once and compared when a run goes on: results of different settings are never mixed.
"""

import json
import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..errors import InputError

__all__ = ["Journal", "Record", "open_journal", "read_run"]

SCHEMA = "whyword.run/1"
_logger = logging.getLogger("whyword")


@dataclass(frozen=True)
class Record:
    """What is kept of one example."""

    dataset: str
    row: int
    tokens: int
    """How many tokens its context has."""
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
    """The reciprocal rank of the scores of each block alone, for methods that have blocks."""
    faithfulness: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Comprehensiveness and sufficiency, by method; empty where they were not asked for or make no sense."""

    @property
    def correct(self) -> bool:
        """Whether the model prefers the target."""
        return self.difference > 0

    @property
    def distance(self) -> int:
        """How far before the explained token the last evidence is."""
        return self.tokens - max(self.evidence)

    def ranked(self, method: str) -> tuple[list[float], list[int]]:
        """Give the scores that are ranked, and where evidence is among them."""
        kept = [index for index in range(self.tokens) if index not in self.left_out]
        return [self.scores[method][index] for index in kept], [kept.index(index) for index in self.evidence]


@dataclass(frozen=True)
class Journal:
    """The file to which examples are appended."""

    path: Path
    done: frozenset[tuple[str, int]]
    """Datasets and rows that are in it."""

    def append(self, records: Iterable[Record]) -> None:
        """Append examples that are not there yet, each in one write."""
        with self.path.open("ab", buffering=0) as file:
            for record in records:
                if (record.dataset, record.row) not in self.done:
                    file.write((json.dumps(_to_dict(record), ensure_ascii=False) + "\n").encode())


def open_journal(folder: Path, settings: Mapping[str, Any]) -> Journal:
    """Begin a run in a folder, or go on with the one that is there."""
    folder.mkdir(parents=True, exist_ok=True)
    path, about = folder / "examples.jsonl", folder / "settings.json"
    if about.exists():
        _require_same(folder, _read_settings(folder), settings)
    elif path.exists():
        raise InputError(f"{folder} has examples but no settings.json.", "Name another folder: --out RUN.")
    else:
        partial = about.with_suffix(".partial")
        partial.write_text(json.dumps({"schema": SCHEMA, **settings}, indent=1, ensure_ascii=False) + "\n")
        os.replace(partial, about)
    _repair(path)
    done = frozenset((record.dataset, record.row) for record in _read_records(path))
    if done:
        _logger.info("%s: %d examples are done, going on.", folder, len(done))
    return Journal(path, done)


def read_run(folder: str | Path) -> tuple[dict[str, Any], list[Record]]:
    """Read the settings and all examples of a run."""
    folder = Path(folder)
    return _read_settings(folder), list(_read_records(folder / "examples.jsonl"))


def _read_settings(folder: Path) -> dict[str, Any]:
    try:
        settings: dict[str, Any] = json.loads((folder / "settings.json").read_text())
    except (OSError, ValueError):
        raise InputError(
            f"{folder} is no folder of a run: it has no settings.json that can be read.",
            "Name a folder that whyword evaluate --out wrote.",
        ) from None
    if settings.pop("schema", None) != SCHEMA:
        raise InputError(f"{folder} was written by another version.", f"This version reads {SCHEMA!r}.")
    return settings


def _require_same(folder: Path, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    for name in wanted:
        if name != "versions" and found.get(name) != wanted[name]:
            raise InputError(
                f"{folder} holds a run with other settings: {name} is {_short(found.get(name))} there, "
                f"{_short(wanted[name])} here.",
                "Name another folder, or delete this one: runs are not mixed.",
            )


def _repair(path: Path) -> None:
    """Cut off a last line that was not written to its end."""
    if not path.exists():
        return
    with path.open("rb+") as file:
        content = file.read()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            _logger.warning("%s: the last line is cut off; that example is done again.", path)
            file.truncate(whole)


def _read_records(path: Path) -> Iterator[Record]:
    if not path.exists():
        return
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            yield _from_dict(json.loads(line))
        except (ValueError, TypeError, KeyError) as error:
            raise InputError(
                f"Line {number} of {path} cannot be read: {error}.",
                "Delete the line: its example is done again when the run goes on.",
            ) from None


def _to_dict(record: Record) -> dict[str, Any]:
    return {name: _round(value) for name, value in asdict(record).items()}


def _from_dict(line: Mapping[str, Any]) -> Record:
    return Record(**{name: _freeze(value) for name, value in line.items()})


def _round(value: Any) -> Any:
    """Write numbers with 7 digits: what float32 holds."""
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


def _short(value: object) -> str:
    shown = json.dumps(value, ensure_ascii=False)
    return shown if len(shown) <= 80 else shown[:77] + "..."
