"""The plan of a run: one pass over a file that counts its rows and cuts them into shards, before any work.

What is kept of a row is eight bytes: duplicate ids are found by their hashes. What cannot be asked (a row
without a prompt, wrong types, an id that is there twice) is known before a model is loaded.
"""

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import xxhash

from ..errors import InputError
from ..runs.progress import report
from .row_questions import ASKED, find_id, read_question
from .row_sources import RawRow, RowSource, hash_source, stamp

__all__ = ["Index", "ShardRow", "index_rows", "read_shard", "require_sound"]

_NAMED = 5
"""Bad rows that a message names."""
_TOLD = 10_000
"""Rows between two reports of progress."""
_KINDS: Mapping[type, str] = {bool: "bool", int: "int", float: "float", str: "text"}
_WIDEST = 2**63


@dataclass(frozen=True)
class ShardRow:
    """A row of a shard."""

    number: int
    """In the file, counted from 1."""
    id: str
    values: Mapping[str, Any]
    wrong: str | None = None
    """Why it cannot be asked."""


@dataclass(frozen=True)
class Index:
    """What is known of a file before its rows are explained."""

    source: RowSource
    rows: int
    size: int
    """Rows of a shard; the last has the rest."""
    places: tuple[int, ...]
    """Where every shard begins."""
    content: str
    """A fingerprint of the file."""
    stamp: tuple[tuple[str, int, int], ...]
    """Size and time of the file when it was read."""
    carried: Mapping[str, str]
    """Columns that are carried along, and what they hold: int, float, bool, text or json."""
    bad: tuple[tuple[int, str], ...]
    """The first rows that cannot be asked, and why."""
    bad_rows: int = 0
    """How many there are."""

    @property
    def shards(self) -> int:
        """How many shards there are."""
        return len(self.places)


@dataclass
class _Seen:
    """What the pass has found so far."""

    hashes: array = field(default_factory=lambda: array("Q"))  # type: ignore[type-arg]
    places: array = field(default_factory=lambda: array("Q"))  # type: ignore[type-arg]
    carried: dict[str, str] = field(default_factory=dict)
    bad: list[tuple[int, str]] = field(default_factory=list)
    bad_rows: int = 0

    def refuse(self, number: int, reason: str) -> None:
        self.bad_rows += 1
        if len(self.bad) < _NAMED:
            self.bad.append((number, reason))


def index_rows(source: RowSource, size: int, limit: int | None = None) -> Index:
    """Read a file once: count its rows, check what each asks, and note where shards begin."""
    if size < 1 or (limit is not None and limit < 1):
        name, given = ("shard_rows", size) if size < 1 else ("limit", limit)
        raise InputError(f"{name} is {given}.", "Pass a number of rows, at least 1.")
    before, seen, place, rows = stamp(source), _Seen(), 0, 0
    _require_columns(source)
    for rows, raw in enumerate(islice(source.stream(), limit), 1):
        if (rows - 1) % size == 0:
            seen.places.append(place)
        place = raw.following
        row = _check(raw, rows)
        if row.wrong is not None:
            seen.refuse(rows, row.wrong)
        seen.hashes.append(xxhash.xxh3_64_intdigest(row.id.encode(errors="backslashreplace")))
        _note_kinds(raw, seen.carried)
        if rows % _TOLD == 0:
            report("rows read", rows, None)
    if not rows:
        raise InputError(f"{source.path} has no rows.", "Give a file with at least one prompt.")
    _require_single_ids(source, seen.hashes, limit)
    content = hash_source(source)
    _require_unchanged(source, before)
    kinds = {name: "text" if kind == "none" else kind for name, kind in seen.carried.items()}
    return Index(
        source, rows, size, tuple(seen.places), content, before, kinds, tuple(seen.bad), seen.bad_rows
    )


def require_sound(index: Index) -> None:
    """Refuse a file with rows that cannot be asked, naming the first."""
    if not index.bad_rows:
        return
    named = "; ".join(f"row {number}: {reason}" for number, reason in index.bad)
    more = f" … ({index.bad_rows:,} rows in all)" if index.bad_rows > len(index.bad) else ""
    raise InputError(
        f"{index.source.path.name} has rows that cannot be asked: {named}{more}.",
        "Mend them, or go on and have them written with their reason: bad_rows='write'.",
    )


def read_shard(index: Index, number: int) -> list[ShardRow]:
    """Read the rows of a shard; refuse a file that is no longer what was planned."""
    _require_unchanged(index.source, index.stamp)
    first = number * index.size
    count = min(index.size, index.rows - first)
    raws = islice(index.source.stream(index.places[number]), count)
    rows = [_check(raw, first + place) for place, raw in enumerate(raws, 1)]
    _require_unchanged(index.source, index.stamp)
    return rows


def _check(raw: RawRow, number: int) -> ShardRow:
    if raw.wrong is not None:
        return ShardRow(number, str(number), raw.values, raw.wrong)
    name = str(number)
    try:
        name = find_id(raw.values, number)
        read_question(raw.values)
    except InputError as error:
        return ShardRow(number, name, raw.values, error.wrong.rstrip("."))
    return ShardRow(number, name, raw.values)


def _require_columns(source: RowSource) -> None:
    """Refuse a table that has no prompts at all."""
    columns = source.columns
    if columns is not None and len(columns) == 1 and any(mark in columns[0] for mark in ";\t,"):
        raise InputError(
            f"{source.path.name} has one column, named {columns[0]!r}.",
            "Separate the cells by commas in a .csv file, and by tabs in a .tsv file.",
        )
    if columns is not None and not {"prompt", "messages"} & {*columns}:
        raise InputError(
            f"{source.path.name} has no column prompt or messages: {', '.join(columns[:8])}.",
            "Name the column of the prompts `prompt`, or that of chat turns `messages`.",
        )


def _require_unchanged(source: RowSource, before: Any) -> None:
    try:
        same = stamp(source) == before
    except OSError:
        same = False
    if not same:
        raise InputError(
            f"{source.path.name} changed while it was being read.",
            "Run it again on the file as it was: what is finished is kept; or write to another folder.",
        )


def _note_kinds(raw: RawRow, carried: dict[str, str]) -> None:
    """Note what columns hold that are not asked."""
    for name, value in raw.values.items():
        if name in ASKED:
            continue
        kind = "none" if value is None else _KINDS.get(type(value), "json")
        if kind == "int" and not -_WIDEST <= value < _WIDEST:
            kind = "json"
        before = carried.get(name, "none")
        if before == "none" or kind in ("none", before):
            carried[name] = before if kind == "none" else kind
        else:
            carried[name] = "float" if {before, kind} == {"int", "float"} else "json"


def _require_single_ids(source: RowSource, hashes: Any, limit: int | None) -> None:
    """Refuse an id that two rows have; equal hashes are looked up in the file."""
    ordered = np.sort(np.frombuffer(hashes, dtype=np.uint64))
    twice = {int(each) for each in ordered[1:][ordered[1:] == ordered[:-1]]}
    if not twice:
        return
    first: dict[str, int] = {}
    for number, name in _list_ids(source, limit):
        if xxhash.xxh3_64_intdigest(name.encode(errors="backslashreplace")) in twice:
            if name in first:
                raise InputError(
                    f"Two rows of {source.path.name} have the id {name!r}: {first[name]} and {number}.",
                    "Give every row an id of its own, or leave the column out: rows are then numbered.",
                )
            first[name] = number


def _list_ids(source: RowSource, limit: int | None) -> Iterator[tuple[int, str]]:
    for number, raw in enumerate(islice(source.stream(), limit), 1):
        yield number, _check(raw, number).id
