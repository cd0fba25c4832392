"""Files in the published layouts: finding and reading csv, tsv with and without a header, and jsonl."""

import csv
import hashlib
import io
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import InputError
from .dataset_names import Published

__all__ = ["SUFFIXES", "Table", "find_file", "holds_file", "read_table", "render_table"]

SUFFIXES = (".csv", ".tsv", ".jsonl")
"""Preferred first: csv files are the ones with evidence columns."""

_PAIR = ("one_prefix_prefix", "one_prefix_word_good", "one_prefix_word_bad")
_HEADERLESS = {
    4: ("num_attractors", *_PAIR),
    5: ("num_attractors", "sentence_good", *_PAIR),
}
"""Columns of lgd_dataset.tsv, by how many there are: it has no header."""
_LAYOUTS = (
    _PAIR,
    ("sentence_good", "sentence_bad"),
    ("ioi_sentences",),
)
"""A file has one of these: a pair cut before its difference, two sentences, or an IOI sentence."""


@dataclass(frozen=True)
class Table:
    """The rows of a file, unchanged."""

    rows: tuple[dict[str, str], ...]
    columns: tuple[str, ...]
    hash: str
    source: str


def find_file(known: Published, folder: Path) -> Path:
    """Find the file of a dataset in a folder, at any depth; a file is taken as it is."""
    if folder.is_file():
        return folder
    found = _candidates(known, folder)
    if not found:
        raise InputError(
            f"There is no file of {known.name} in {folder}.",
            f"Expected: {known.files[0]} with one of the extensions {', '.join(SUFFIXES)}.",
        )
    best = [path for rank, path in found if rank == found[0][0]]
    if len(best) > 1:
        raise InputError(
            f"There are several files of {known.name}: {', '.join(str(path) for path in best)}.",
            "Name the folder that one of them is in.",
        )
    return best[0]


def holds_file(known: Published, folder: Path) -> bool:
    """Whether a folder has a file of a dataset."""
    return folder.is_file() or bool(_candidates(known, folder))


def _candidates(known: Published, folder: Path) -> list[tuple[int, Path]]:
    """List the files with a name of a dataset, the preferred ones first."""
    if not folder.is_dir():
        raise InputError(f"There is no folder {folder}.", "Name the folder that the files are in.")
    names = [f"{stem}{suffix}" for stem in known.files for suffix in SUFFIXES]
    return sorted(
        (names.index(name.lower()), Path(place, name))
        for place, _, files in os.walk(folder)
        for name in files
        if name.lower() in names
    )


def read_table(path: Path) -> Table:
    """Read the rows of a file; refuse one that has other columns."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(
            f"{path.name!r} does not end in a known format.", f"Known endings: {', '.join(SUFFIXES)}."
        )
    try:
        data = path.read_bytes()
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.", "Name an existing file.") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8: {error.reason}.", "Convert it to UTF-8 first.") from None
    rows = _read_jsonl(path, text) if suffix == ".jsonl" else _read_separated(text, suffix == ".tsv")
    columns = tuple(dict.fromkeys(name for row in rows for name in row))
    _require_columns(path.name, columns)
    return Table(tuple(rows), columns, hashlib.sha256(data).hexdigest(), str(path))


def render_table(table: Table, suffix: str) -> str:
    """Write rows as text, in the layout of a file extension."""
    if suffix == ".jsonl":
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in table.rows)
    buffer = io.StringIO(newline="")
    dialect: type[csv.Dialect] = _Tabs if suffix == ".tsv" else csv.unix_dialect
    writer = csv.writer(buffer, dialect, quoting=csv.QUOTE_NONE if suffix == ".tsv" else csv.QUOTE_MINIMAL)
    writer.writerow(table.columns)
    writer.writerows([row.get(name, "") for name in table.columns] for row in table.rows)
    return buffer.getvalue()


class _Tabs(csv.Dialect):
    """Tabs and nothing else: quotes in these files are text."""

    delimiter = "\t"
    quoting = csv.QUOTE_NONE
    lineterminator = "\n"
    escapechar = None


def _read_separated(text: str, tabs: bool) -> list[dict[str, str]]:
    lines = io.StringIO(text, newline="")
    records = [row for row in csv.reader(lines, _Tabs if tabs else csv.excel) if row]
    if not records:
        return []
    header: Sequence[str] = records[0]
    if header[0].strip().isdigit() and len(header) in _HEADERLESS:
        header, first = _HEADERLESS[len(header)], 0
    else:
        first = 1
    return [dict(zip(header, row, strict=False)) for row in records[first:]]


def _read_jsonl(path: Path, text: str) -> list[dict[str, str]]:
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise InputError(
                f"Line {number} of {path.name} is not JSON: {error.msg}.", "Each line is one JSON object."
            ) from None
        if not isinstance(row, dict):
            raise InputError(
                f"Line {number} of {path.name} is not a JSON object.", "Each line is one JSON object."
            )
        rows.append({str(name): "" if value is None else str(value) for name, value in row.items()})
    return rows


def _require_columns(name: str, columns: Sequence[str]) -> None:
    if any(set(layout) <= set(columns) for layout in _LAYOUTS):
        return
    shown = ", ".join(column or "(no name)" for column in columns) or "none"
    raise InputError(
        f"{name} does not have the columns of a dataset: {shown}.",
        f"Expected: {', '.join(_PAIR)} (evidence: target, target_phrase); or sentence_good, sentence_bad.",
    )
