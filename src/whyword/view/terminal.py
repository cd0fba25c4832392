"""The terminal view: the paper's first table, with the proof underneath.

With colour, every row repeats the tokens on red (raises) or blue (lowers) ground; without, numbers with signs
stand in their place. Where the tokens do not fit side by side, the strongest are shown, and the whole prompt
stands above.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.console import Console, Group, RenderableType
from rich.style import Style
from rich.text import Text

from ..document import Document, is_continuation
from .account import render_account
from .grid import Grid, Row, lay_out
from .ground import paint_ground
from .matrix import render_matrix, sum_heads
from .wording import after, caution, explain_scores, forced_text, headline, label, prediction, proof, signed

__all__ = ["print_document", "render_terminal"]

_NUMBER = 5
"""Width of a number: +0.12."""
_WIDEST = 16
"""Cells of the longest token that is shown whole."""
_GAP = "… "


def print_document(document: Document, console: Console, by: str = "block", top: int | None = None) -> None:
    """Print a document as wide as a console is, with colour where it has any."""
    numbers = console.color_system is None
    console.print(render_terminal(document, console.width, by=by, top=top, numbers=numbers))
    if "account" in document:
        console.print(Group(*render_account(document, colour=not numbers, top=top)))


def render_terminal(
    document: Document, width: int, *, by: str = "block", top: int | None = None, numbers: bool = False
) -> RenderableType:
    """Render a document for a terminal of some width; `numbers` in the cells instead of tokens."""
    grid = lay_out(document, by, top)
    parts = [*_head(document, by, grid), *(_table(grid, width, numbers) if grid.rows else _list(grid, width))]
    if by == "head" and not is_continuation(document):
        parts += [Text(""), *render_matrix(sum_heads(document), width, numbers=numbers)]
    return Group(*parts, *_foot(document, by), Text(""))


def _head(document: Document, by: str, grid: Grid) -> Iterator[Text]:
    yield Text(headline(document), style="bold")
    if is_continuation(document):
        yield Text(f"{after(document)}: every token by what it could see", style="dim")
    else:
        yield Text(prediction(document))
        if document["forced"]:
            yield Text(f"after “{label(forced_text(document))}”, with which they all begin")
        yield Text(after(document, by), style="dim")
    if by != "head":
        yield from (Text(line, style="dim") for line in explain_scores(document, grid.unit))
    yield Text("")


def _foot(document: Document, by: str) -> Iterator[Text]:
    yield Text("")
    if is_continuation(document):
        worst = max(part["ledger"]["error"] for part in document["explanations"])
        yield Text(f"every ledger adds up to the model's own logit: largest error {worst:.0e}")
    else:
        yield Text(proof(document))
    yield Text(caution(document, by), style="dim")


def _table(grid: Grid, width: int, numbers: bool) -> Iterator[Text]:
    """Lay rows under each other, cut to the columns that fit."""
    labels = max(cell_len(row.label) for row in grid.every_row)
    end = max(_NUMBER, *(cell_len(row.unit or "") for row in grid.rows))
    frame = _Frame(grid, labels, _fit(grid, width - labels - end - 3))
    if len(frame.columns) < len(grid.columns):
        yield from (_running_text(grid), Text(""))
    if numbers:
        yield frame.line("", [grid.columns[index] for index in frame.columns])
    for row in grid.rows:
        yield frame.row(row, numbers=numbers)
    if grid.sum is not None:
        yield Text("")
        yield frame.row(grid.sum, numbers=numbers)
        if not numbers:
            yield frame.line("", [_number(grid.sum.values[index]) for index in frame.columns])
    if len(frame.columns) < len(grid.columns):
        what, how = f"{grid.by}s" if grid.sum is None else "tokens", "--by token --top 20, "
        shown = f"{len(frame.columns)} of {len(grid.columns)} {what} fit"
        added = "" if grid.sum is None else "; rows add up all of them"
        yield Text(f"… {shown}{added}. More: {'' if grid.sum is None else how}-o report.html", style="dim")


@dataclass(frozen=True)
class _Frame:
    """Where the columns of a table stand."""

    grid: Grid
    labels: int
    columns: Sequence[int]

    def row(self, row: Row, *, numbers: bool) -> Text:
        """Give a row of tokens (or numbers) on the colours of their values."""
        cells = [
            ""
            if row.values[index] is None
            else _number(row.values[index])
            if numbers
            else self.grid.columns[index]
            for index in self.columns
        ]
        largest = self.grid.scale_of(row)
        styles = [paint_ground(row.values[index], largest) for index in self.columns]
        return self.line(row.label, cells, styles, row.end)

    def line(
        self, name: str, cells: Sequence[str], styles: Sequence[Style | None] = (), total: str = ""
    ) -> Text:
        """Give one line: label, cells under their columns, total."""
        line = Text(set_cell_size(name.rjust(self.labels), self.labels) + "  ", no_wrap=True, overflow="crop")
        before = -1
        for place, (index, cell) in enumerate(zip(self.columns, cells, strict=True)):
            if index != before + 1:
                line.append(_GAP, style="dim")
            size = _size(self.grid.columns[index])
            line.append(_cut(cell, size), style=(styles[place] if styles else None) or "")
            line.append(" ")
            before = index
        if self.columns and before + 1 < len(self.grid.columns):
            line.append(_GAP, style="dim")
        line.append(total, style="bold")
        return line


def _fit(grid: Grid, width: int) -> list[int]:
    """Choose the columns that fit a width: all, or the strongest."""
    sizes = [_size(column) + 1 for column in grid.columns]
    if sum(sizes) <= width:
        return list(range(len(sizes)))
    chosen: list[int] = []
    for index in sorted(range(len(sizes)), key=lambda index: -grid.strength(index)):
        if sum(sizes[each] + len(_GAP) for each in [*chosen, index]) + len(_GAP) > width:
            break
        chosen.append(index)
    return sorted(chosen)


def _running_text(grid: Grid) -> Text:
    """Give the whole prompt as text, on the colours of the sum, or of the first row."""
    text, row = Text(), grid.rows[0] if grid.sum is None else grid.sum
    for column, value in zip(grid.columns, row.values, strict=True):
        text.append(column, style=paint_ground(value, row.largest) or "")
        text.append(" ")
    return text


def _list(grid: Grid, width: int) -> Iterator[Text]:
    """List tokens or words under each other, with bars."""
    names, total = min(_WIDEST, max(cell_len(column) for column in grid.columns)), grid.every_row[-1]
    room = max(4, min(40, width - names - _NUMBER - 6))
    for column, value in zip(grid.columns, total.values, strict=True):
        share = (value or 0.0) / (total.largest or 1.0)
        bar = ("▇" if share > 0 else "░") * max(1 if share else 0, round(abs(share) * room))
        line = Text(_cut(column, names) + "  ", no_wrap=True, overflow="crop")
        line.append(_number(value).rjust(_NUMBER + 1) + "  ").append(
            bar, style="red" if share > 0 else "blue"
        )
        yield line
    if total.label == "sum":
        yield Text("")
        yield Text(_cut("sum", names) + "  " + f"{total.total:+.2f}".rjust(_NUMBER + 1), style="bold")


def _size(column: str) -> int:
    return max(_NUMBER, min(_WIDEST, cell_len(column)))


def _cut(text: str, size: int) -> str:
    return set_cell_size(text, size) if cell_len(text) <= size else set_cell_size(text, size - 1) + "…"


def _number(value: float | None) -> str:
    return "" if value is None else signed(value)
