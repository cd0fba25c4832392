"""Shards as files: Parquet by pyarrow, or JSONL; the same bytes for the same records."""

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import InputError
from .row_columns import Column
from .row_sources import require_arrow

__all__ = ["FORMS", "encode_shard", "name_shard", "read_records", "require_form"]

FORMS = ("parquet", "jsonl")
_CHOICE = ("id", "text", "logit", "probability", "capped", "rank", "special")
_COMPRESSION = "zstd"


def require_form(form: str) -> str:
    """Refuse a format that is not known, or that cannot be written here."""
    if form not in FORMS:
        raise InputError(f"format is {form!r}.", f"Formats: {', '.join(FORMS)}.")
    if form == "parquet":
        require_arrow()
    return form


def name_shard(number: int, form: str) -> str:
    """Name the file of a shard."""
    return f"rows-{number:06}.{form}"


def encode_shard(records: Sequence[Mapping[str, Any]], columns: Mapping[str, Column], form: str) -> bytes:
    """Write records as the bytes of a file."""
    if form == "jsonl":
        lines = ({name: _to_plain(record.get(name)) for name in columns} for record in records)
        text = "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)
        return text.encode("utf-8", errors="backslashreplace")
    arrow, sink = require_arrow(), io.BytesIO()
    types = {name: _find_type(arrow, column.kind) for name, column in columns.items()}
    arrays = [arrow.array([record.get(name) for record in records], types[name]) for name in columns]
    table = arrow.Table.from_arrays(arrays, schema=arrow.schema(list(types.items())))
    arrow.parquet.write_table(table, sink, compression=_COMPRESSION)
    return sink.getvalue()


def read_records(path: Path, wanted: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
    """Read the records of a shard one by one; `wanted`: only some columns."""
    try:
        if path.suffix == ".jsonl":
            with path.open(encoding="utf-8") as file:
                for line in file:
                    found = json.loads(line)
                    yield found if wanted is None else {name: found.get(name) for name in wanted}
            return
        arrow = require_arrow()
        with arrow.parquet.ParquetFile(path) as file:
            names = None if wanted is None else [name for name in wanted if name in file.schema_arrow.names]
            for batch in file.iter_batches(64, columns=names):
                yield from batch.to_pylist()
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path} cannot be read: {error}.",
            "Delete it and run the same command again: it is computed anew.",
        ) from None


def _to_plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value


def _find_type(arrow: Any, kind: str) -> Any:
    """Give the type of Arrow for a kind of column."""
    if kind.startswith("["):
        return arrow.list_(_find_type(arrow, kind[1:-1]))
    if kind == "choices":
        return arrow.list_(_find_type(arrow, "choice"))
    if kind == "choice":
        types = (arrow.int64(), arrow.string(), *[arrow.float64()] * 3, arrow.int64(), arrow.bool_())
        return arrow.struct(list(zip(_CHOICE, types, strict=True)))
    return {
        "text": arrow.string,
        "json": arrow.string,
        "int": arrow.int64,
        "float": arrow.float64,
        "float32": arrow.float32,
        "bool": arrow.bool_,
    }[kind]()
