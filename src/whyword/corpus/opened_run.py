"""A run, read back lazily: rows as explanations, by id, and as a table."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from .row_columns import rename
from .run_journal import ShardLine, read_corpus_settings, read_shard_lines
from .shard_files import read_records
from .summary import summarise

if TYPE_CHECKING:
    from pandas import DataFrame

    from .kept_explanations import KeptExplanation

__all__ = ["OpenedRun", "open_run"]

_PLAIN = (
    "id",
    "row",
    "method",
    "error",
    "text",
    "difference",
    "words",
    "word_scores",
    "parts",
    "part_scores",
)


@dataclass(frozen=True)
class OpenedRun:
    """A run over a file of prompts; nothing is read until it is asked for."""

    folder: Path
    settings: Mapping[str, Any]
    shards: Mapping[int, ShardLine]
    """Finished shards by number."""
    _places: dict[str, int] = field(default_factory=dict, repr=False, compare=False)
    """Shards by id, of ids that were looked for."""

    def __repr__(self) -> str:
        return (
            f"<Run {self.folder}: {len(self):,} of {self.settings['rows']:,} rows, {', '.join(self.methods)}>"
        )

    def __len__(self) -> int:
        """The number of rows that are finished, those that could not be explained included."""
        return sum(line.rows for line in self.shards.values())

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods, in order."""
        return tuple(self.settings["methods"])

    @property
    def finished(self) -> bool:
        """Whether all rows of the file are there."""
        return bool(len(self) == self.settings["rows"])

    def __iter__(self) -> "Iterator[KeptExplanation]":
        """Yield the explanations in the order of the file, those of one row by every method."""
        for record in self.records():
            if record["error"] is None:
                yield self._read(record)

    def __getitem__(self, name: str | tuple[str, str]) -> "KeptExplanation":
        """Give the explanation of a row by its id; of several methods by one of them: run["7", "logit"]."""
        id_, method = (name, self.methods[0]) if isinstance(name, str) else name
        if method not in self.methods:
            raise InputError(f"The run has no method {method!r}.", f"Methods: {', '.join(self.methods)}.")
        for record in read_records(self.folder / self.shards[self._find(id_)].file):
            if record["id"] == id_ and record["error"] is not None:
                raise InputError(
                    f"Row {id_!r} could not be explained: {record['error']}.", "Mend it and run it again."
                )
            if record["id"] == id_ and record["method"] == method:
                return self._read(record)
        raise AssertionError(id_)

    def __contains__(self, id_: object) -> bool:
        try:
            self._find(str(id_))
        except InputError:
            return False
        return True

    def records(self, columns: list[str] | None = None) -> Iterator[dict[str, Any]]:
        """Yield what is written, row by row: a dictionary by column, or some columns of it."""
        for line in self.shards.values():
            yield from read_records(self.folder / line.file, columns)

    def failures(self) -> Iterator[tuple[str, str]]:
        """Yield the id of every row that could not be explained, and why."""
        for record in self.records(["id", "error"]):
            if record["error"] is not None:
                yield record["id"], record["error"]

    def summary(self) -> dict[str, Any]:
        """Give rows, failures with their reasons, mean differences, time and size."""
        return summarise(self.folder)

    def to_dataframe(self, columns: list[str] | None = None) -> "DataFrame":
        """Return a data frame (pandas): a row for each row of the file and method.

        `columns`: None: what is asked and scored, and the columns that were carried along.
        """
        try:
            import pandas
        except ImportError:
            raise InputError(
                "A data frame needs pandas, which is not installed.",
                "Install it: pip install '.[pandas]' in a checkout of whyword; or use .records().",
            ) from None
        wanted = columns or [*_PLAIN, *map(rename, self.settings["carried"])]
        return pandas.DataFrame.from_records(list(self.records(wanted)), columns=wanted)

    def _read(self, record: Mapping[str, Any]) -> "KeptExplanation":
        from .kept_explanations import read_explanation

        carried = {name: record.get(rename(name)) for name in self.settings["carried"]}
        return read_explanation(record, self.settings["keep"], carried)

    def _find(self, id_: str) -> int:
        """Find the shard of an id."""
        if id_ in self._places:
            return self._places[id_]
        for number, line in self.shards.items():
            for record in read_records(self.folder / line.file, ["id"]):
                if record["id"] == id_:
                    self._places[id_] = number
                    return number
        unfinished = "" if self.finished else f" among the {len(self):,} rows that are finished"
        raise InputError(
            f"There is no row {id_!r} in {self.folder}{unfinished}.",
            f"Ids are those of the file, or row numbers: 1 to {self.settings['rows']:,}.",
        )


def open_run(folder: str | Path) -> OpenedRun:
    """Open a run that `whyword.run` wrote, or is still writing: rows are read when they are asked for."""
    folder = Path(folder)
    settings = read_corpus_settings(folder)
    missing = [name for name in ("rows", "methods", "keep", "carried", "model") if name not in settings]
    if missing:
        raise InputError(
            f"{folder / 'settings.json'} is damaged: it has no {missing[0]}.", "Name a folder of a run."
        )
    return OpenedRun(folder, settings, read_shard_lines(folder))
