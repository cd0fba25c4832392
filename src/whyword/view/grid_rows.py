"""Rows of numbers over columns of tokens: what every picture of an explanation shows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from .wording import signed

__all__ = ["Grid", "Row"]


@dataclass(frozen=True)
class Row:
    """One row of numbers."""

    label: str
    values: tuple[float | None, ...]
    """One per column; None: the row cannot see that token."""
    unit: str | None = None
    """Its own unit, where its numbers are not to be added up: it stands in place of their sum."""
    note: str = ""
    """What is written beside the sum."""
    whole: float | None = None
    """The sum over all columns, where not all are shown."""

    @property
    def end(self) -> str:
        """What stands at the end of the row: the sum, or the unit."""
        if self.unit is not None:
            return self.unit
        return f"{signed(self.total):<6}  {self.note}" if self.note else signed(self.total)

    @property
    def largest(self) -> float:
        """The largest absolute number."""
        return max((abs(value) for value in self.values if value is not None), default=0.0)

    @property
    def total(self) -> float:
        """The sum over its tokens, those that are not shown among them."""
        if self.whole is not None:
            return self.whole
        return sum(value for value in self.values if value is not None)


@dataclass(frozen=True)
class Grid:
    """Rows over columns, and their sum."""

    by: str
    """What a row is."""
    columns: tuple[str, ...]
    """The tokens or words, as they are shown."""
    rows: tuple[Row, ...]
    """From the top; empty where only the sum is shown."""
    sum: Row | None
    """The sum of *all* rows, also of those that are not shown; None where they have no common unit."""
    unit: str = "logits"
    """What the numbers are, with the power of ten that they were divided by."""
    split: int | None = None
    """The first column of the prefix, where those before it are the source of a translation."""
    hidden: int = 0
    """How many rows (blocks, heads, depths) or columns (tokens, words) are not shown."""
    kept: tuple[int, ...] = ()
    """Columns that are always shown: biases."""
    tint: Row | None = None
    """The row whose colours the running prompt has, where it is neither the sum nor the first row."""

    @property
    def every_row(self) -> tuple[Row, ...]:
        """The rows, and their sum where there is one."""
        return self.rows if self.sum is None else (*self.rows, self.sum)

    def scale_of(self, row: Row) -> float:
        """Give the end of a row's colour scale: one for all; rows with a unit have their own."""
        return row.largest if row.unit is not None else self.strongest

    @cached_property
    def largest(self) -> float:
        """The largest absolute number of the rows."""
        return max((row.largest for row in self.rows), default=0.0)

    @cached_property
    def strongest(self) -> float:
        """The largest absolute number of the rows and their sum."""
        return max((row.largest for row in self.every_row), default=0.0)

    def strength(self, column: int) -> float:
        """Give how strongly a column is coloured in any row; columns that are always shown come first."""
        if column in self.kept:
            return float("inf")
        if self.sum is None and any(row.unit is not None for row in self.rows):
            return max(abs(row.values[column] or 0.0) / (row.largest or 1.0) for row in self.rows)
        return max(abs(row.values[column] or 0.0) for row in self.every_row)

    def pick(self, columns: Sequence[int]) -> "Grid":
        """Give the grid with some of its columns; sums stay those of all."""

        def cut(row: Row) -> Row:
            return replace(row, values=tuple(row.values[index] for index in columns), whole=row.total)

        return Grid(
            self.by,
            tuple(self.columns[index] for index in columns),
            tuple(cut(row) for row in self.rows),
            None if self.sum is None else cut(self.sum),
            self.unit,
            None if self.split is None else sum(index < self.split for index in columns),
            len(self.columns) - len(columns),
        )
