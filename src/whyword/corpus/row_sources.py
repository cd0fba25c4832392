"""Files of rows, read from any place on: JSONL, CSV, Parquet, a Hugging Face dataset on disk.

A place is what reading can begin at: an offset in bytes of text, the number of a row otherwise. Memory does
not grow with the file.
"""

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xxhash

from ..errors import InputError

__all__ = ["FORMATS", "RawRow", "RowSource", "hash_source", "open_source", "require_arrow", "stamp"]

FORMATS = (".jsonl", ".ndjson", ".csv", ".tsv", ".parquet")
_CHUNK = 1 << 20
_BATCH = 256
"""Rows of Parquet and Arrow that are decoded at a time."""
_NOT_A_ROW = "it is not a JSON object"


@dataclass(frozen=True)
class RawRow:
    """A row as the file has it."""

    values: dict[str, Any]
    following: int
    """The place of the next row."""
    wrong: str | None = None
    """Why it cannot be read."""


@dataclass(frozen=True)
class RowSource:
    """A file, or a folder of Arrow files."""

    path: Path
    form: str
    """jsonl, csv, tsv, parquet or arrow."""

    @property
    def files(self) -> list[Path]:
        """The files that hold the rows, in order."""
        return _list_arrow(self.path) if self.form == "arrow" else [self.path]

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The names of the columns; None where each row has its own."""
        if self.form in ("csv", "tsv"):
            return tuple(self._read_header()[0])
        if self.form == "parquet":
            return tuple(require_arrow().parquet.read_schema(self.path).names)
        return None

    def stream(self, place: int = 0) -> Iterator[RawRow]:
        """Read rows from a place on."""
        if self.form == "jsonl":
            return self._stream_json(place)
        if self.form in ("csv", "tsv"):
            return self._stream_csv(place)
        return self._stream_arrow(place)

    def _stream_json(self, place: int) -> Iterator[RawRow]:
        with self.path.open("rb") as file:
            file.seek(place)
            for line in file:
                place += len(line)
                bare = line.removeprefix(b"\xef\xbb\xbf") if place == len(line) else line
                if not bare.strip():
                    continue
                try:
                    values = json.loads(bare)
                except (ValueError, RecursionError) as error:
                    yield RawRow({}, place, f"it is not JSON: {error}")
                    continue
                sound = isinstance(values, dict)
                yield RawRow(values if sound else {}, place, None if sound else _NOT_A_ROW)

    def _stream_csv(self, place: int) -> Iterator[RawRow]:
        header, first = self._read_header()
        with self.path.open("rb") as file:
            place = max(place, first)
            file.seek(place)
            lines = _CountedLines(file, place)
            for cells in csv.reader(lines, dialect=self._dialect):
                if not cells:
                    continue
                wrong = lines.wrong or _misfit_cells(cells, header)
                values = {} if wrong else dict(zip(header, cells, strict=True))
                lines.wrong = None
                yield RawRow(values, lines.place, wrong)

    @property
    def _dialect(self) -> type[csv.Dialect]:
        return csv.excel_tab if self.form == "tsv" else csv.excel

    def _read_header(self) -> tuple[list[str], int]:
        """Read the names of the columns, and where the rows begin."""
        with self.path.open("rb") as file:
            lines = _CountedLines(file, 0)
            header = next(csv.reader(lines, dialect=self._dialect), [])
        if len({*header}) < len(header) or not all(header):
            raise InputError(
                f"The first line of {self.path} does not name its columns: {', '.join(header[:6])}.",
                "Name every column once, `prompt` among them.",
            )
        return header, lines.place

    def _stream_arrow(self, place: int) -> Iterator[RawRow]:
        number = place
        for batch in _batches(self, place):
            for values in batch.to_pylist():
                number += 1
                yield RawRow(values, number)


class _CountedLines:
    """Lines of a file as text, and the place after the last one that was asked for."""

    def __init__(self, file: Any, place: int) -> None:
        self.file, self.place, self.wrong = file, place, None

    wrong: str | None

    def __iter__(self) -> "_CountedLines":
        return self

    def __next__(self) -> str:
        line = next(self.file)
        bare = line.removeprefix(b"\xef\xbb\xbf") if self.place == 0 else line
        self.place += len(line)
        try:
            return str(bare.decode("utf-8"))
        except UnicodeDecodeError as error:
            self.wrong = f"it is not UTF-8 (byte {error.start + 1})"
            return str(bare.decode("utf-8", errors="replace"))


def _misfit_cells(cells: list[str], header: list[str]) -> str | None:
    if len(cells) == len(header):
        return None
    return f"it has {len(cells)} cells, and there are {len(header)} columns"


def _batches(source: RowSource, place: int) -> Iterator[Any]:
    """Read batches of rows from the number of a row on."""
    arrow = require_arrow()
    for path in source.files:
        if source.form == "parquet":
            file = arrow.parquet.ParquetFile(path)
            first = 0
            for group in range(file.num_row_groups):
                rows = file.metadata.row_group(group).num_rows
                if place < first + rows:
                    for batch in file.iter_batches(_BATCH, row_groups=[group]):
                        if place < first + len(batch):
                            yield batch.slice(max(0, place - first))
                        first += len(batch)
                else:
                    first += rows
            continue
        with arrow.memory_map(str(path)) as mapped, arrow.ipc.open_stream(mapped) as stream:
            for batch in stream:
                if place < len(batch):
                    for start in range(place, len(batch), _BATCH):
                        yield batch.slice(start, _BATCH)
                place = max(0, place - len(batch))


def open_source(path: str | Path) -> RowSource:
    """Open a file of rows, by its ending; a folder is a Hugging Face dataset that was saved to disk."""
    path = Path(path)
    if path.is_dir():
        if not _list_arrow(path):
            raise InputError(
                f"{path} is a folder without Arrow files.",
                "Name a file, or a folder that `dataset.save_to_disk` of Hugging Face datasets wrote.",
            )
        require_arrow()
        return RowSource(path.resolve(), "arrow")
    if not path.exists():
        raise InputError(f"There is no file {path}.", f"Name a file that ends in {', '.join(FORMATS)}.")
    ending = path.suffix.lower()
    if ending not in FORMATS:
        raise InputError(
            f"{path} ends in {ending or 'nothing'!r}.", f"Files of rows end in {', '.join(FORMATS)}."
        )
    form = {".ndjson": "jsonl"}.get(ending, ending[1:])
    if form == "parquet":
        try:
            require_arrow().parquet.read_schema(path)
        except (OSError, ValueError) as error:
            raise InputError(f"{path} is not a Parquet file: {error}.", "Write it again.") from None
    return RowSource(path.resolve(), form)


def require_arrow() -> Any:
    """Import pyarrow with its Parquet, or say how to install it."""
    try:
        import pyarrow
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError:
        raise InputError(
            "Parquet needs pyarrow, which is not installed.",
            "Install it: pip install '.[runs]' in a checkout of whyword; or read and write JSONL.",
        ) from None
    return pyarrow


def _list_arrow(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.arrow") if not path.name.startswith("cache-"))


def stamp(source: RowSource) -> tuple[tuple[str, int, int], ...]:
    """Give size and time of every file, by which a change is noticed while a run reads them."""
    found = [(path, path.stat()) for path in source.files]
    return tuple((path.name, about.st_size, about.st_mtime_ns) for path, about in found)


def hash_source(source: RowSource) -> str:
    """Give a fingerprint of all bytes of the files."""
    digest = xxhash.xxh3_128()
    for path in source.files:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
        digest.update(f"\n{path.stat().st_size}\n".encode())
    return digest.hexdigest()
