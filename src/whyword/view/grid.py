"""What every picture of an explanation shows: rows of numbers over columns of tokens.

Blocks and heads are counted from 1, as the paper does.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from ..document.kinds import Document, is_comparison, is_continuation, read_measure
from ..errors import InputError
from .answer_sentences import group_words
from .flow_grid import lay_out_depths
from .grid_rows import Grid, Row
from .wording import label, token_labels, word_labels

__all__ = ["VIEWS", "Grid", "Row", "lay_out", "name_unit"]

VIEWS = ("block", "head", "depth", "token", "word")
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def lay_out(document: Document, by: str = "block", top: int | None = None) -> Grid:
    """Lay out a document: by block (the paper's first table), head, depth, token or word.

    `top`: only the N rows with the largest absolute sums; by head, the N that raise most and the N that lower
    most; by token or word, and of a continuation, the N strongest columns.
    """
    if by not in VIEWS:
        raise InputError(f"by is {by!r}.", f"What can be shown: by {', '.join(VIEWS)}.")
    if top is not None and top < 1:
        raise InputError(f"top is {top}.", "Show at least one.")
    if by == "depth":
        return lay_out_depths(document, top)
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
    measure = read_measure(document)
    if by != "block" or measure.by_block:
        return None
    return _lay_out_sum(document, "word" if measure.sum_of == "difference" else "token")


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
    """Return the indices of the largest absolute values, in their own order."""
    ranked = sorted(range(len(values)), key=lambda index: -abs(values[index] or 0.0))
    return sorted(ranked[:count])
