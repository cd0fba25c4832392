"""A table of text in the terminal, and as Markdown, LaTeX and CSV."""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table
from rich.text import Text

__all__ = ["Sheet", "print_sheet", "write_csv", "write_latex", "write_markdown"]


@dataclass(frozen=True)
class Sheet:
    """A table as text."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    means: tuple[tuple[str, ...], ...] = ()
    """Rows that sum up the others."""
    names: int = 1
    """Columns on the left that hold text."""


def print_sheet(sheet: Sheet, console: Console) -> None:
    """Print it with its title, the rows that sum up in bold."""
    table = Table(
        box=None, pad_edge=False, collapse_padding=True, title=sheet.title or None, title_justify="left"
    )
    for place, heading in enumerate(sheet.headings):
        named = place < sheet.names
        table.add_column(Text(heading), justify="left" if named else "right", no_wrap=named)
    for row in sheet.rows:
        table.add_row(*map(Text, row))
    table.add_section()
    for row in sheet.means:
        table.add_row(*(Text(cell, style="bold") for cell in row))
    console.print(table)


def write_markdown(sheet: Sheet) -> str:
    """Write the rows, those that sum up in bold."""
    numbers = len(sheet.headings) - sheet.names
    lines = [sheet.headings, ("---",) * sheet.names + ("--:",) * numbers, *sheet.rows]
    lines += [tuple(f"**{cell}**" for cell in row) for row in sheet.means]
    return "".join(f"| {' | '.join(map(_escape_cell, cells))} |\n" for cells in lines)


def _escape_cell(cell: str) -> str:
    """Keep a cell from ending early, or on another line."""
    return cell.replace("|", r"\|").replace("\n", " ")


def write_latex(sheet: Sheet) -> str:
    """Write it in booktabs' style."""
    columns = "l" * sheet.names + "r" * (len(sheet.headings) - sheet.names)
    return "\n".join(
        [
            f"% {sheet.title}",
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            _write_row(sheet.headings),
            r"\midrule",
            *map(_write_row, sheet.rows),
            *([r"\midrule", *map(_write_row, sheet.means)] if sheet.means else []),
            r"\bottomrule",
            r"\end{tabular}",
            "",
        ]
    )


def write_csv(rows: Iterable[Sequence[object]]) -> str:
    """Write rows, headings first."""
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(rows)
    return file.getvalue()


def _write_row(cells: Sequence[str]) -> str:
    written = " & ".join(cells).replace("×", r"$\times$").replace("_", r"\_").replace("–", "--")
    return written + r" \\"
