"""What every picture of an explanation shows: rows of numbers over columns of tokens.

Blocks and heads are counted from 1, as the paper does.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..document import Document, is_continuation
from ..errors import InputError
from .wording import label, word_labels

__all__ = ["VIEWS", "Grid", "Row", "lay_out"]

VIEWS = ("block", "head", "token", "word")


@dataclass(frozen=True)
class Row:
    """One row of numbers."""

    label: str
    values: tuple[float | None, ...]
    """One per column; None: the row cannot see that token."""

    @property
    def total(self) -> float:
        """The sum over its tokens."""
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
    sum: Row
    """The sum of *all* rows, also of those that are not shown."""

    @property
    def largest(self) -> float:
        """The largest absolute number of the rows: the end of their colour scale."""
        return _largest(self.rows)

    @property
    def largest_sum(self) -> float:
        """The same of the sum."""
        return _largest([self.sum])

    def pick(self, columns: Sequence[int]) -> "Grid":
        """Give the grid with some of its columns."""

        def cut(row: Row) -> Row:
            return replace(row, values=tuple(row.values[index] for index in columns))

        return Grid(
            self.by,
            tuple(self.columns[index] for index in columns),
            tuple(cut(row) for row in self.rows),
            cut(self.sum),
        )


def lay_out(document: Document, by: str = "block", top: int | None = None) -> Grid:
    """Lay out a document: by block (the paper's first table), head, token or word.

    `top`: only so many rows, those with the largest absolute sums; by head, so many that raise and so many
    that lower; by token or word, and of a continuation, so many columns.
    """
    if by not in VIEWS:
        raise InputError(f"by is {by!r}.", f"What can be shown: by {', '.join(VIEWS)}.")
    if top is not None and top < 1:
        raise InputError(f"top is {top}.", "Show at least one.")
    if is_continuation(document):
        grid = _lay_out_continuation(document)
        return grid if top is None else grid.pick(_strongest(grid.sum.values, top))
    if by in ("token", "word"):
        grid = _lay_out_sum(document, by)
        return grid if top is None else grid.pick(_strongest(grid.sum.values, top))
    rows = _block_rows(document) if by == "block" else _head_rows(document)
    columns = tuple(label(token["text"]) for token in document["tokens"])
    if by == "head":
        rows = _rank_heads(rows, top)
    elif top is not None:
        rows = [rows[index] for index in _strongest([row.total for row in rows], top)]
    total = _sum_row(document, by)
    return Grid(by, columns, tuple(rows), total if top is None else replace(total, label="all"))


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
    tokens, scores = document["tokens"], document["scores"]
    if by == "token":
        return Grid(by, tuple(label(token["text"]) for token in tokens), (), Row("sum", tuple(scores)))
    sums: dict[int, float] = {}
    for token, score in zip(tokens, scores, strict=True):
        sums[token["word"]] = sums.get(token["word"], 0.0) + score
    return Grid(by, tuple(word_labels(document)), (), Row("sum", tuple(sums.values())))


def _lay_out_continuation(document: Document) -> Grid:
    """Lay out a continuation: one row per token that was explained, over all it could see."""
    parts = document["explanations"]
    columns = tuple(label(token["text"]) for token in parts[-1]["tokens"])
    rows = tuple(
        Row(label(part["target"]["text"]), (*part["scores"], *[None] * (len(columns) - len(part["scores"]))))
        for part in parts
    )
    sums = [sum(row.values[index] or 0.0 for row in rows) for index in range(len(columns))]
    return Grid("token", columns, rows, Row("sum", tuple(sums)))


def _strongest(values: Sequence[float | None], count: int) -> list[int]:
    """Give the indices of the largest absolute values, in their own order."""
    ranked = sorted(range(len(values)), key=lambda index: -abs(values[index] or 0.0))
    return sorted(ranked[:count])


def _largest(rows: Sequence[Row]) -> float:
    return max((abs(value) for row in rows for value in row.values if value is not None), default=0.0)
