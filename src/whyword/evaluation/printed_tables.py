"""Tables of runs in a terminal: datasets as rows, models × methods as columns, in blocks that fit its width.

Models are letters and long names of methods are short where there are many columns; a legend spells them out,
and the datasets too.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from math import ceil
from string import ascii_uppercase

from rich.console import Console
from rich.text import Text

from ..data.dataset_names import spell_out
from ..view.sheet import Sheet, print_sheet
from .method_names import title_name
from .report import Report
from .tables import lay_out, list_columns, list_metrics, say_depth, say_signature

__all__ = ["hash_signature", "print_reports", "shorten_title"]

_LONGEST = 7
"""Letters that a heading of a column may have."""
_SHARED = 3
"""Columns on the left that all runs share: name, number of examples, number of skipped ones."""
_SHORT = {"accuracy": "acc.", "Distance": "dist."}
_MEANING = {
    "acc.": "share of examples in which the model prefers the target",
    "dist.": "tokens between the word that decides and the explained one",
    "Random": "MRR of random scores",
}


def print_reports(reports: Sequence[Report], console: Console, whole_signature: bool = False) -> None:
    """Print MRR, agreement with swaps where it was measured, the best depth, a legend and the signatures."""
    models = _name_models(reports)
    for letter, name in models if len(reports) > 1 else ():
        console.print(Text.assemble((f"{letter} ", "bold"), name))
    first = ("top 1", "MRR") if any(report.positions for report in reports) else ("MRR",)
    for metric in (*first, *(metric for metric in list_metrics(reports) if "rank correlation" in metric)):
        sheet = lay_out(reports, metric, write=lambda cell: f"{cell.mean:.3f}")
        sides, headings = _head_columns(reports, metric)
        title = f"{metric}, {reports[0].settings['model']}" if len(reports) == 1 else metric
        narrow = replace(sheet, headings=tuple(headings), title="")
        console.print(Text(title, style="bold"))
        for columns in _cut(narrow, sides, console.width):
            print_sheet(_take(narrow, columns), console)
            console.print()
    for line in _write_legend(reports):
        console.print(Text(line))
    for report in reports:
        for depths in report.depths:
            console.print(Text(say_depth(depths)))
    for (letter, _), report in zip(models, reports, strict=True):
        lead = f"{letter} " if len(reports) > 1 else ""
        signature = say_signature(report.settings)
        said = signature if whole_signature else f"signature {hash_signature(signature)}"
        console.print(Text(lead + said, style="dim"), soft_wrap=True)
    if not whole_signature:
        console.print(Text("whole signatures: whyword table RUN --signature", style="dim"))


def hash_signature(signature: str) -> str:
    """Return a short hash that is another one wherever the signature is another."""
    return hashlib.sha256(signature.encode()).hexdigest()[:12]


def shorten_title(title: str) -> str:
    """Shorten the name of a method to what fits a narrow column: ALTI.L for ALTI-Logit."""
    if len(title) <= _LONGEST:
        return title
    name, at, depth = title.partition("@")
    first, *rest = re.findall(r"\w+", name)
    short = f"{first[:4]}.{''.join(word[0] for word in rest)}" if rest else f"{first[: _LONGEST - 2]}."
    return short + at + depth


def _name_models(reports: Sequence[Report]) -> list[tuple[str, str]]:
    """Return a letter and the name of the model of every run."""
    letters = [*ascii_uppercase, *(f"{one}{two}" for one in ascii_uppercase for two in ascii_uppercase)]
    return [(letter, str(report.settings["model"])) for letter, report in zip(letters, reports, strict=False)]


def _head_columns(reports: Sequence[Report], metric: str) -> tuple[list[str], list[str]]:
    """Return for every column the letter of its run (none where all share it), and its short heading."""
    sides, headings = [""] * _SHARED, ["", "n", "skip"]
    for (letter, _), report in zip(_name_models(reports), reports, strict=True):
        names = [shorten_title(_SHORT.get(name, name)) for name in list_columns(report, metric)]
        sides += [letter if len(reports) > 1 else ""] * len(names)
        headings += [f"{letter}\n{name}" if len(reports) > 1 else name for name in names]
    return sides, headings


def _cut(sheet: Sheet, sides: Sequence[str], width: int) -> Iterator[list[int]]:
    """Cut columns into blocks that fit the width; a model is divided, evenly, only where it must be."""
    widths = [
        max(len(line) for text in column for line in text.split("\n")) + 1
        for column in zip(sheet.headings, *sheet.rows, *sheet.means, strict=True)
    ]

    def fits(columns: Sequence[int]) -> bool:
        return sum(widths[place] for place in columns) <= width + 1  # there is no space after the last one

    block = list(range(_SHARED))
    for _, own in groupby(range(_SHARED, len(sides)), lambda place: sides[place]):
        columns = list(own)
        parts = [columns]
        while not all(fits([*(block if part is parts[0] else [0]), *part]) for part in parts):
            if block[-1] >= _SHARED and fits([0, *columns]):  # it has a block of its own
                break
            if len(parts) == len(columns):
                break
            size = ceil(len(columns) / (len(parts) + 1))
            parts = [columns[first : first + size] for first in range(0, len(columns), size)]
        for part in parts:
            if block[-1] >= _SHARED and not fits([*block, *part]):
                yield block
                block = [0]
            block += part
    yield block


def _take(sheet: Sheet, columns: Sequence[int]) -> Sheet:
    def take(cells: Sequence[str]) -> tuple[str, ...]:
        return tuple(cells[place] for place in columns)

    return replace(
        sheet,
        headings=take(sheet.headings),
        rows=tuple(map(take, sheet.rows)),
        means=tuple(map(take, sheet.means)),
    )


def _write_legend(reports: Sequence[Report]) -> Iterator[str]:
    """Write what short names and names of datasets stand for, each once."""
    titles = dict.fromkeys(title_name(method) for report in reports for method in report.methods)
    short = {shorten_title(title): title for title in titles if shorten_title(title) != title}
    datasets = {row.name: spell_out(row.name, row.title) for report in reports for row in report.rows}
    for names in (short, _MEANING, datasets):
        if names:
            yield "; ".join(f"{name} = {words}" for name, words in names.items())
