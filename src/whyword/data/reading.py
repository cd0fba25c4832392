"""Datasets by name: from files, from the built-in suite, or from the hub."""

from collections.abc import Callable, Sequence
from pathlib import Path

from ..errors import InputError
from .dataset_names import BUILTIN, PUBLISHED, SOURCES, Published, expand_names
from .examples import Dataset, Example, Skipped
from .file_layouts import Table, find_file, read_table
from .rows import read_row

__all__ = ["make_dataset", "read_datasets"]


def read_datasets(names: Sequence[str], folder: str | Path | None = None) -> list[Dataset]:
    """Read datasets by short name, full name or group ("aga", "blimp", "sva", "sva-2", "ioi", "builtin").

    `folder` holds the files, at any depth and in any published layout (or is one file); "builtin" generates
    the examples, and None fetches them from the hub. Names that begin with "builtin" need neither.
    """
    builtin = isinstance(folder, str) and folder == BUILTIN
    wanted = expand_names([names] if isinstance(names, str) else names, builtin)
    tables: dict[Path, Table] = {}

    def from_file(known: Published) -> Table:
        path = find_file(known, Path(folder or "."))
        if path not in tables:
            tables[path] = read_table(path)
        return tables[path]

    read: Callable[[Published], Table] = _read_from_hub if folder is None else from_file
    return [_make_builtin(name) if name not in PUBLISHED else _read(PUBLISHED[name], read) for name in wanted]


def make_dataset(known: Published, table: Table) -> Dataset:
    """Turn the rows of a table into examples, and list those that cannot be used."""
    examples: list[Example] = []
    skipped: list[Skipped] = []
    for row, columns in enumerate(table.rows):
        if known.attractors is not None and _attractors(table, row) != known.attractors:
            continue
        made = read_row(known, row, columns)
        if isinstance(made, Example):
            examples.append(made)
        else:
            skipped.append(made)
    return Dataset(
        name=known.name,
        title=known.title,
        group=known.group,
        phenomenon=known.phenomenon,
        examples=tuple(examples),
        skipped=tuple(skipped),
        hash=table.hash,
        source=table.source,
    )


def _read(known: Published, read: Callable[[Published], Table]) -> Dataset:
    dataset = make_dataset(known, read(known))
    if not dataset.examples:
        reasons = ", ".join(sorted({skipped.reason for skipped in dataset.skipped})) or "there are none"
        raise InputError(
            f"No row of {dataset.source} can be used for {known.name}: {reasons}.",
            "Look at the file: is it the one you mean?",
        )
    return dataset


def _attractors(table: Table, row: int) -> int:
    value = table.rows[row].get("num_attractors", "").strip()
    if not value.isdigit():
        raise InputError(
            f"Row {row} of {table.source} has {value!r} as its number of attractors (num_attractors).",
            "It must be a number, at least 0: the first column of lgd_dataset.tsv.",
        )
    return int(value)


def _make_builtin(name: str) -> Dataset:
    from .builtin_suite import make_builtin
    from .source_suite import make_sources

    return make_sources(name) if name in SOURCES else make_builtin(name)


def _read_from_hub(known: Published) -> Table:
    from .hub import read_from_hub

    return read_from_hub(known)
