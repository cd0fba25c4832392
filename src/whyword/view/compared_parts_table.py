"""What several methods say of the parts of a prompt: in the terminal, as a picture, as tables."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..attribute.methods import title_of
from ..document.kinds import Document, read_measure
from ..errors import InputError
from .answer_sentences import name_quantity
from .bars import cut_cells, write_number
from .colour import is_dark, seismic
from .data_frames import frame_of
from .plots import drawing, require_plots, write_figure
from .sentences import ask, prefer
from .sheet import Sheet, print_sheet, write_csv, write_latex
from .terminal_colour import colouring, paint_ground
from .wording import headline, label

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = [
    "describe_compared_parts",
    "make_compared_parts_frame",
    "plot_compared_parts",
    "print_compared_parts",
    "render_compared_parts_csv",
    "render_compared_parts_latex",
]

_LONGEST = 30
"""Cells of the longest name that is shown whole."""
_FAITHFULNESS = ("comprehensiveness", "sufficiency")
_READ = (
    "Comprehensiveness: what the preference for the target loses without the strongest source (high: it was "
    "needed). Sufficiency: what it loses with that source alone (low: it is enough)."
)


def print_compared_parts(
    document: Document, console: Console, by: str | None = None, top: int | None = None
) -> None:
    """Print a row for every part and a column for every method; `top`: only the strongest N parts."""
    if by not in (None, document["by"]):
        raise InputError(f"by is {by!r}.", f"These are scores by {document['by']}: leave it out.")
    console.print(Text(headline(document), style="bold"))
    console.print(Text(f"{document['model']}, by {document['by']}", style="dim"))
    console.print()
    table = Table(box=None, pad_edge=False, collapse_padding=True)
    table.add_column("", no_wrap=True)
    for each in document["methods"]:
        unit = read_measure(each).unit
        table.add_column(Text(f"{title_of(each['method'])}\n{unit}"), justify="right", no_wrap=True)
    for place in _choose(document, top):
        name = label(document["parts"][place]["name"])
        table.add_row(Text(cut_cells(name, min(_LONGEST, len(name)))), *_paint_row(document, place))
    with colouring(console):
        console.print(table)
    console.print()
    if measured := _list_measured(document):
        rows = tuple(
            (title_of(each["method"]), *own) for each, own in zip(document["methods"], measured, strict=True)
        )
        print_sheet(Sheet("", ("", "strongest source", *_FAITHFULNESS), rows, names=2), console)
        console.print()
        console.print(Text(_READ, style="dim"))


def describe_compared_parts(document: Document) -> dict[str, Any]:
    """Say in words what the table shows."""
    lead = f"One row per {document['by']}, one column per method, each in its own unit and colours."
    return {
        "question": ask(document),
        "subtitle": f"{len(document['methods'])} methods, by {document['by']}",
        "preference": prefer(document["target"], document["foils"]),
        "lead": f"{lead} What is explained is the {name_quantity(document['foils'])}.",
        "faithfulness": _READ if _list_measured(document) else "",
    }


def render_compared_parts_csv(document: Document) -> str:
    """Give a line for every method and part."""
    rows = _list_rows(document)
    return write_csv([list(rows[0]), *(list(row.values()) for row in rows)])


def make_compared_parts_frame(document: Document) -> "DataFrame":
    """Give the same as a data frame (pandas)."""
    return frame_of(_list_rows(document))


def render_compared_parts_latex(document: Document) -> str:
    """Give a table of parts and methods."""
    headings = (document["by"], *(title_of(each["method"]) for each in document["methods"]))
    rows = tuple(
        (label(part["name"]), *(_number(each, place) for each in document["methods"]))
        for place, part in enumerate(document["parts"])
    )
    measured = _list_measured(document)
    sums = tuple(zip(("strongest", *_FAITHFULNESS), *measured, strict=True)) if measured else ()
    return write_latex(Sheet(headline(document), headings, rows, sums))


def plot_compared_parts(document: Document, form: str) -> bytes:
    """Draw a row for every part and a column for every method, which has its own colours."""
    require_plots()
    from matplotlib.figure import Figure

    parts, methods = document["parts"], document["methods"]
    shares = [[each["scores"][place] / _largest(each) for each in methods] for place in range(len(parts))]
    with drawing():
        size = (min(24.0, 3.4 + 0.9 * len(methods)), min(24.0, 1.6 + 0.27 * len(parts)))
        figure = Figure(figsize=size, dpi=160, layout="constrained")
        axes = figure.subplots()
        axes.imshow([[seismic(share) for share in row] for row in shares], aspect="auto")
        axes.set_yticks(range(len(parts)), [label(part["name"])[:_LONGEST] for part in parts], fontsize=7)
        names = [f"{title_of(each['method'])}\n{read_measure(each).unit}" for each in methods]
        axes.set_xticks(range(len(methods)), names, fontsize=7)
        axes.tick_params(length=0)
        for spine in axes.spines.values():
            spine.set_visible(False)
        for place, row in enumerate(shares):
            for column, share in enumerate(row):
                ink = "white" if is_dark(seismic(share)) else "black"
                axes.text(
                    column,
                    place,
                    _number(methods[column], place),
                    ha="center",
                    va="center",
                    fontsize=6,
                    color=ink,
                )
        figure.suptitle(f"{headline(document)}\n{document['model']}", fontsize=9, x=0.01, ha="left")
        return write_figure(figure, form)


def _paint_row(document: Document, place: int) -> Iterator[Text]:
    for each in document["methods"]:
        style = paint_ground(each["scores"][place], _largest(each)) or ""
        yield Text(_number(each, place), style=style)


def _number(method: Document, place: int) -> str:
    return write_number(method["scores"][place], read_measure(method).adds_up).strip()


def _largest(method: Document) -> float:
    return max(map(abs, method["scores"])) or 1.0


def _list_measured(document: Document) -> list[tuple[str, ...]]:
    """List strongest source, comprehensiveness and sufficiency of every method, if measured."""
    found = [each["faithfulness"] for each in document["methods"]]
    if any(each is None for each in found):
        return []
    return [(label(each["strongest"]), *(f"{each[name]:+.3f}" for name in _FAITHFULNESS)) for each in found]


def _choose(document: Document, top: int | None) -> list[int]:
    places = range(len(document["parts"]))
    strength = {
        place: max(abs(each["scores"][place]) / _largest(each) for each in document["methods"])
        for place in places
    }
    return sorted(sorted(places, key=lambda place: -strength[place])[: top or len(places)])


def _list_rows(document: Document) -> list[dict[str, Any]]:
    return [
        {"method": each["method"], "unit": read_measure(each).unit, "by": document["by"]}
        | {**part, "score": score}
        for each in document["methods"]
        for part, score in zip(document["parts"], each["scores"], strict=True)
    ]
