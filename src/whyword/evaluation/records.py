"""Records of a run: one line per example, appended as it is finished."""

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from annotated_types import Ge, Len

from ..errors import InputError
from ..runs.journal import append_lines, open_run, read_lines, read_settings

if TYPE_CHECKING:
    from pydantic import TypeAdapter

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
    """Number of tokens of its context; where parts of it are ranked, of these: all else counts them then."""
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
    settings = read_settings(folder, SCHEMA)
    try:
        methods = _validate(_Settings, settings, strict=True).methods
        places = settings.get("swapped at", [])
        if not (isinstance(places, list) and all(isinstance(place, str) for place in places)):
            raise ValueError("swapped at: it is not a list of places")
    except ValueError as error:
        raise InputError(
            f"{folder / 'settings.json'} is damaged: {error}.", "Name a folder that whyword evaluate wrote."
        ) from None

    def read(line: Mapping[str, Any]) -> Record:
        record = _from_dict(line)
        if missing := [name for name in methods if name not in record.scores]:
            raise ValueError(f"it has no scores by {missing[0]}")
        if missing := [place for place in places if place not in record.swaps]:
            raise ValueError(f"it has no swaps at {missing[0]}")
        return record

    return settings, list(read_lines(folder / _NAME, read))


def _to_dict(record: Record) -> dict[str, Any]:
    return {name: _round(value) for name, value in asdict(record).items()}


def _from_dict(line: Mapping[str, Any]) -> Record:
    """Read a record; ValueError where a field has another type, or its numbers do not fit each other."""
    record = _validate(Record, line)
    places = (*record.evidence, *record.left_out)
    if not record.evidence or not all(0 <= place < record.tokens for place in places):
        raise ValueError("evidence is outside the tokens")
    if {*record.evidence} & {*record.left_out}:
        raise ValueError("evidence is left out")
    if any(len(scores) != record.tokens for scores in record.scores.values()):
        raise ValueError(f"there is not one score for each of {record.tokens} tokens")
    ranked = record.tokens - len({*record.left_out})
    if any(len(losses) != ranked for losses in record.swaps.values()):
        raise ValueError(f"there is not one swap for each of {ranked} ranked tokens")
    if record.faithfulness and record.faithfulness.keys() != record.scores.keys():
        raise ValueError("faithfulness is not by the methods of the scores")
    return record


@dataclass(frozen=True)
class _DatasetSettings:
    """What the settings of a run say of a dataset."""

    title: str
    group: str
    hash: str


@dataclass(frozen=True)
class _Settings:
    """What tables and figures read of the settings of a run."""

    model: str
    weights: str
    dtype: str
    datasets: Mapping[str, _DatasetSettings]
    methods: Annotated[tuple[str, ...], Len(1)]
    conventions: str
    evidence: str
    limit: int | None
    faithfulness: float | None
    seed: Annotated[int, Ge(0)]
    versions: Mapping[str, str]


_Kind = TypeVar("_Kind")


def _validate(kind: type[_Kind], found: Any, strict: bool = False) -> _Kind:
    """Make a dataclass from JSON; ValueError where a field has another type. `strict`: "3" is not 3."""
    from pydantic import ValidationError

    try:
        adapter = _make_adapter(kind)  # type: ignore[arg-type]
        made: _Kind = (
            adapter.validate_json(json.dumps(found), strict=True)
            if strict
            else adapter.validate_python(found)
        )
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    return made


@cache
def _make_adapter(kind: Any) -> "TypeAdapter[Any]":
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


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
