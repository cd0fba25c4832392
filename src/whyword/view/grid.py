"""What every picture of an explanation shows: rows of numbers over columns of tokens.

Blocks and heads are counted from 1, as the paper does.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ..document.kinds import Document, is_comparison, is_continuation, read_measure
from ..errors import InputError
from .answer_sentences import group_words
from .wording import label, signed, token_labels, word_labels

__all__ = ["VIEWS", "Grid", "Row", "lay_out", "name_unit"]

VIEWS = ("block", "head", "token", "word")
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


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
    """How many rows (blocks, heads) or columns (tokens, words) are not shown."""

    @property
    def every_row(self) -> tuple[Row, ...]:
        """The rows, and their sum where there is one."""
        return self.rows if self.sum is None else (*self.rows, self.sum)

    def scale_of(self, row: Row) -> float:
        """Give the end of a row's colour scale: rows share one, sums and rows with a unit have their own."""
        return row.largest if row is self.sum or row.unit is not None else self.largest

    @cached_property
    def largest(self) -> float:
        """The largest absolute number of the rows."""
        return max((row.largest for row in self.rows), default=0.0)

    def strength(self, column: int) -> float:
        """Give how strongly a column is coloured in any row."""
        if self.sum is None:
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


def lay_out(document: Document, by: str = "block", top: int | None = None) -> Grid:
    """Lay out a document: by block (the paper's first table), head, token or word.

    `top`: only the N rows with the largest absolute sums; by head, the N that raise most and the N that lower
    most; by token or word, and of a continuation, the N strongest columns.
    """
    if by not in VIEWS:
        raise InputError(f"by is {by!r}.", f"What can be shown: by {', '.join(VIEWS)}.")
    if top is not None and top < 1:
        raise InputError(f"top is {top}.", "Show at least one.")
    grid = _lay_out_columns(document, by)
    if grid is not None:
        strengths = [grid.strength(column) for column in range(len(grid.columns))]
        return grid if top is None else grid.pick(_strongest(strengths, top))
    rows = _block_rows(document) if by == "block" else _head_rows(document)
    columns, count = tuple(token_labels(document)), len(rows)
    if by == "head":
        rows = _rank_heads(rows, top)
    elif top is not None:
        rows = [rows[index] for index in _strongest([row.total for row in rows], top)]
    total = _sum_row(document, by)
    total = total if top is None else replace(total, label="all")
    return Grid(by, columns, tuple(rows), total, hidden=count - len(rows))


def _lay_out_columns(document: Document, by: str) -> Grid | None:
    """Lay out views whose columns can be chosen: those without rows of blocks or heads."""
    if is_comparison(document):
        return _lay_out_comparison(document, by)
    if is_continuation(document):
        return _lay_out_continuation(document)
    if by in ("token", "word"):
        return _lay_out_sum(document, by)
    return _lay_out_sum(document, "token") if by == "block" and not read_measure(document).by_block else None


def _block_rows(document: Document) -> list[Row]:
    """List the blocks from last to first."""
    return [Row(str(index + 1), tuple(values)) for index, values in enumerate(document["by_block"])][::-1]


def _head_rows(document: Document) -> list[Row]:
    return [
        Row(f"{block + 1}.{head + 1}", tuple(values))
        for block, heads in enumerate(document["by_head"])
        for head, values in enumerate(heads)
    ]


def _rank_heads(rows: Sequence[Row], top: int | None) -> list[Row]:
    """Sort heads by strength; or give those that raise most, then those that lower most."""
    if top is None:
        return sorted(rows, key=lambda row: -abs(row.total))
    ranked = sorted(rows, key=lambda row: -row.total)
    raising = [row for row in ranked if row.total > 0][:top]
    lowering = [row for row in reversed(ranked) if row.total < 0][:top]
    return [*raising, *lowering]


def _sum_row(document: Document, by: str) -> Row:
    """Add up: the method's scores; by head, the updates before mixing."""
    if by == "block":
        return Row("sum", tuple(document["scores"]))
    columns = zip(*(values for heads in document["by_head"] for values in heads), strict=True)
    return Row("all", tuple(sum(column) for column in columns))


def _lay_out_sum(document: Document, by: str) -> Grid:
    measure, values = read_measure(document), _sum_columns(document, by, document["scores"])
    power = _power(document, [values])
    unit, shown = name_unit(measure.unit, power), tuple(value / 10**power for value in values)
    row = Row("sum", shown) if measure.adds_up else Row("score", shown, unit)
    return Grid(by, _columns(document, by), (), row, unit)


def _lay_out_comparison(document: Document, by: str) -> Grid:
    """Lay out a comparison: one row per method, each in its own unit."""
    if by == "head":
        raise InputError("by is 'head'.", "A comparison is shown by token or word.")
    by, rows = "word" if by == "word" else "token", []
    for each in document["methods"]:
        values = _sum_columns(document, by, each["scores"])
        power = _power(each, [values])
        unit = name_unit(read_measure(each).unit, power)
        rows.append(Row(each["method"], tuple(value / 10**power for value in values), unit))
    return Grid(by, _columns(document, by), tuple(rows), None)


def _columns(document: Document, by: str) -> tuple[str, ...]:
    if by == "word":
        return tuple(word_labels(document))
    return tuple(token_labels(document))


def _sum_columns(document: Document, by: str, scores: Sequence[float]) -> list[float]:
    """Add up the scores of the tokens of each word."""
    if by == "token":
        return list(scores)
    return [sum(scores[place] for place in places) for places in group_words(document)]


def _power(measured: Document, rows: Sequence[Sequence[float]]) -> int:
    """Choose a power of ten that leaves numbers for two decimals; logits that add up stay as they are."""
    largest = max(abs(value) for row in rows for value in row)
    if read_measure(measured).adds_up or largest == 0 or 0.1 <= largest < 10:
        return 0
    return math.floor(math.log10(largest))


def name_unit(unit: str, power: int) -> str:
    """Name a unit with the power of ten that numbers were divided by."""
    shown = "" if unit == "none" else unit
    factor = "" if power == 0 else "10" + str(power).translate(_SUPERSCRIPTS)
    return " × ".join(part for part in (shown, factor) if part) or "no unit"


def _lay_out_continuation(document: Document) -> Grid:
    """Lay out a continuation: one row per token that was explained, over all it could see."""
    parts = document["explanations"]
    columns = tuple(token_labels(parts[-1]))
    power = _power(parts[0], [part["scores"] for part in parts])
    unseen = [(None,) * (len(columns) - len(part["scores"])) for part in parts]
    rows = tuple(
        Row(label(part["target"]["text"]), tuple(score / 10**power for score in part["scores"]) + rest)
        for part, rest in zip(parts, unseen, strict=True)
    )
    sums = [sum(row.values[index] or 0.0 for row in rows) for index in range(len(columns))]
    unit = name_unit(read_measure(parts[0]).unit, power)
    return Grid("token", columns, rows, Row("sum", tuple(sums)), unit)


def _strongest(values: Sequence[float | None], count: int) -> list[int]:
    """Give the indices of the largest absolute values, in their own order."""
    ranked = sorted(range(len(values)), key=lambda index: -abs(values[index] or 0.0))
    return sorted(ranked[:count])
