"""The terminal view: the paper's first table, with the proof underneath.

With colour, every row repeats the tokens on a red (raises) or blue (lowers) background; without, signed
numbers stand in their place. Where the tokens do not fit side by side, the strongest are shown, and the
whole prompt stands above.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.console import Console, Group, RenderableType
from rich.text import Text

from ..document.kinds import SCHEMA, Document, is_continuation, is_translation
from .account_table import render_account
from .first_screen import name_views, render_first_screen
from .grid import Grid, Row, lay_out
from .head_matrix import render_matrix, sum_heads
from .route_list import render_routes
from .terminal_colour import colouring, paint_ground
from .translation_grid import lay_out_translation
from .wording import (
    after,
    caution,
    contrast,
    explain_scores,
    forced_text,
    headline,
    label,
    prediction,
    proof,
    say_flow,
    say_hidden,
    say_sink,
    say_strongest,
    share_legend,
    signed,
)

__all__ = ["print_document", "render_terminal"]

_NUMBER = 5
"""Width of a number: +0.12."""
_WIDEST = 16
"""Cells of the longest token that is shown whole."""
_GAP = "… "


def print_document(document: Document, console: Console, by: str = "block", top: int | None = None) -> None:
    """Print a document as wide as a console is, with colour where it has any."""
    numbers = console.color_system is None
    with colouring(console):
        console.print(render_terminal(document, console.width, by=by, top=top, numbers=numbers))
        if "account" in document:
            console.print(Group(*render_account(document, colour=not numbers, top=top)))


def render_terminal(
    document: Document, width: int, *, by: str = "block", top: int | None = None, numbers: bool = False
) -> RenderableType:
    """Render a document for a terminal of some width; `numbers` in the cells instead of tokens."""
    if by == "routes":
        routes = list(render_routes(document, width, top))
        return Group(*_head(document, by, "logits"), *routes, *_foot(document, by), Text(""))
    if by == "word" and document["schema"] == SCHEMA:
        screen = list(render_first_screen(document, width, top, numbers=numbers))
        views = Text(name_views(document), style="dim")
        return Group(*_question(document), *screen, *_foot(document, by), views, Text(""))
    if is_translation(document):
        grid = lay_out_translation(document, "word" if by == "block" else by, top)
    else:
        grid = lay_out(document, by, top)
    body = _table if grid.rows else _list
    if grid.split is not None and not _fits(grid, width):
        body = _strongest_of_rows
    parts = [*_head(document, by, grid.unit), *body(grid, width, numbers)]
    summed = grid.sum is not None and grid.sum.unit is None
    if hidden := say_hidden(grid.hidden, grid.by, summed=summed):
        parts.append(Text(hidden, style="dim"))
    if by == "head" and not is_continuation(document):
        parts += [Text(""), *render_matrix(sum_heads(document), width, numbers=numbers)]
    return Group(*parts, *_foot(document, by), Text(""))


def _question(document: Document) -> Iterator[Text]:
    yield Text(headline(document), style="bold")
    if document["forced"]:
        yield Text(f"after “{label(forced_text(document))}”, with which they all begin")


def _head(document: Document, by: str, unit: str) -> Iterator[Text]:
    yield Text(headline(document), style="bold")
    if is_translation(document):
        if contrasted := contrast(document):
            yield Text(contrasted)
        yield Text(after(document), style="dim")
    elif is_continuation(document):
        yield Text(f"{after(document)}: every token by what it could see", style="dim")
    else:
        yield Text(prediction(document))
        if document["forced"]:
            yield Text(f"after “{label(forced_text(document))}”, with which they all begin")
        yield Text(after(document, by), style="dim")
        if by != "head":
            yield from (Text(line) for line in say_strongest(document))
    if by != "head":
        yield from (Text(line, style="dim") for line in explain_scores(document, unit, by))
    yield Text("")


def _foot(document: Document, by: str) -> Iterator[Text]:
    yield Text("")
    if is_translation(document) and (legend := share_legend(document)):
        yield Text(legend)
    yield from (Text(line) for line in say_sink(document))
    if by != "head":
        yield from (Text(line) for line in say_flow(document))
    yield Text(proof(document))
    yield Text(caution(document, by), style="dim")


def _fits(grid: Grid, width: int) -> bool:
    """Say whether all columns of a translation fit side by side."""
    return len(_fit(grid, _room(grid, width, _labels(grid)))) == len(grid.columns)


def _room(grid: Grid, width: int, labels: int) -> int:
    """Count the cells that are left for columns."""
    ends = [row.unit if row.unit is not None else row.end if row.note else "" for row in grid.rows]
    return width - labels - max(_NUMBER, *map(cell_len, ends)) - 3


def _labels(grid: Grid) -> int:
    return min(_WIDEST, max(cell_len(row.label) for row in grid.every_row))


def _strongest_of_rows(grid: Grid, width: int, numbers: bool) -> Iterator[Text]:
    """Return each row's own strongest columns, the strongest first: source, then what was already written."""
    labels, split = _labels(grid), grid.split or 0
    notes = max(cell_len(row.note) for row in grid.rows)
    room = width - labels - notes - 6
    left = max(20, 2 * room // 3)
    sides = set_cell_size("source, strongest first", left)
    yield Text(" " * (labels + 2) + sides + "│ already written", style="dim", no_wrap=True, overflow="crop")
    for row in grid.rows:
        line = Text(set_cell_size(_cut(row.label, labels).strip().rjust(labels), labels) + "  ", no_wrap=True)
        line.append_text(_strongest(grid, row, range(split), left)).append("│ ", style="dim")
        line.append_text(_strongest(grid, row, range(split, len(grid.columns)), room - left))
        yield line.append(f"  {row.note}" if row.note else "", style="bold")


def _strongest(grid: Grid, row: Row, columns: range, room: int) -> Text:
    """Write the strongest columns of a row with their numbers, as many as fit."""
    line, values = Text(), row.values
    for index in sorted(columns, key=lambda index: -abs(values[index] or 0.0)):
        if values[index] is None or signed(values[index] or 0.0).strip() == "0.00":
            continue
        name = f"{_cut(grid.columns[index], min(_WIDEST, cell_len(grid.columns[index])))}"
        number = f" {_number(values[index]).strip()}"
        if cell_len(line.plain) + cell_len(name) + len(number) + 2 > room:
            break
        line.append(name, style=paint_ground(values[index], grid.largest) or "").append(number + "  ")
    return line.append(" " * (room - cell_len(line.plain)))


def _table(grid: Grid, width: int, numbers: bool) -> Iterator[Text]:
    """Lay rows under each other, cut to the columns that fit."""
    labels = max(cell_len(row.label) for row in grid.every_row)
    frame = _Frame(grid, labels, _fit(grid, _room(grid, width, labels)))
    if len(frame.columns) < len(grid.columns):
        yield from (_running_text(grid), Text(""))
    if grid.split is not None:
        yield frame.sides()
    if numbers:
        names = [grid.columns[index] for index in frame.columns]
        yield frame.line("", names, total="sum" if grid.by == "depth" else "")
    for row in grid.rows:
        yield frame.row(row, numbers=numbers)
    if grid.sum is not None:
        yield Text("")
        yield frame.row(grid.sum, numbers=numbers)
        if not numbers:
            sums = [_number(grid.sum.values[at], _size(grid.columns[at])) for at in frame.columns]
            yield frame.line("", sums)
    if len(frame.columns) < len(grid.columns):
        what, how = "words" if grid.by == "word" else "tokens", "--by token --top 20, "
        shown = f"{len(frame.columns)} of {len(grid.columns)} {what} fit"
        added = "" if grid.rows[0].unit is not None else "; rows add up all of them"
        yield Text(f"… {shown}{added}. More: {'' if grid.sum is None else how}-o report.html", style="dim")


@dataclass(frozen=True)
class _Frame:
    """Where the columns of a table stand."""

    grid: Grid
    labels: int
    columns: Sequence[int]

    def row(self, row: Row, *, numbers: bool) -> Text:
        """Return a row of tokens (or numbers) on the colours of their values."""
        cells = [
            ""
            if (value := row.values[index]) is None
            else (_number(value, _size(self.grid.columns[index])) if numbers else self.grid.columns[index])
            for index in self.columns
        ]
        largest = self.grid.scale_of(row)
        styles = [paint_ground(row.values[index], largest) for index in self.columns]
        return self.line(row.label, cells, styles, row.end)

    def sides(self) -> Text:
        """Name what stands on either side of the line between source and prefix."""
        before = sum(_size(self.grid.columns[index]) + 1 for index in self._shown(prefix=False))
        name = set_cell_size("source", max(before + self._gaps(), 7))
        return Text(" " * (self.labels + 2) + name + "│ already written", style="dim")

    def _shown(self, *, prefix: bool) -> list[int]:
        split = self.grid.split or 0
        return [index for index in self.columns if (index >= split) == prefix]

    def _gaps(self) -> int:
        """Count the cells of the gaps before the line between source and prefix."""
        shown = self._shown(prefix=False)
        skipped = sum(index != before + 1 for before, index in zip([-1, *shown], shown, strict=False))
        return skipped * len(_GAP)

    def line(
        self, name: str, cells: Sequence[str], styles: Sequence[str | None] = (), total: str = ""
    ) -> Text:
        """Return one line: label, cells under their columns, total."""
        line = Text(set_cell_size(name.rjust(self.labels), self.labels) + "  ", no_wrap=True, overflow="crop")
        before = -1
        for place, (index, cell) in enumerate(zip(self.columns, cells, strict=True)):
            if self.grid.split is not None and before < self.grid.split <= index:
                line.append("│ ", style="dim")
                before = max(before, self.grid.split - 1)
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
    """Return the whole prompt as text, on the colours of the sum, or of the first row."""
    text, row = Text(), grid.tint or grid.sum or grid.rows[0]
    for column, value in zip(grid.columns, row.values, strict=True):
        text.append(column, style=paint_ground(value, row.largest) or "")
        text.append(" ")
    return text


def _list(grid: Grid, width: int, _numbers: bool) -> Iterator[Text]:
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


def _number(value: float | None, size: int | None = None) -> str:
    return "" if value is None else signed(value, size)
