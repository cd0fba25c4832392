"""Sentences of an answer × parts of its prompt: in the terminal, as CSV, as a data frame, and in words."""

from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..document.kinds import Document
from ..errors import InputError
from .data_frames import frame_of
from .quoting import Sentence, join, quote
from .sheet import write_csv
from .terminal_colour import colouring, paint_ground
from .wording import label, signed, write_sentence

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = [
    "MARK",
    "describe_support",
    "find_largest",
    "make_support_frame",
    "one_line",
    "print_support",
    "render_support_csv",
]

MARK = "⚑"
"""Stands before a sentence that no source supports."""


def describe_support(document: Document) -> dict[str, Any]:
    """Say in words what the table shows."""
    flagged = [row["name"] for row in document["rows"] if not row["supported"]]
    percent = f"{100 * document['threshold']:.0f} %"
    question: Sentence = join("Which part of the prompt supports ", quote(document["answer"]), "?")
    rows, columns = document["rows_by"], document["columns_by"]
    said = f"One row per {rows} of the answer, one column per {columns} of the prompt."
    missing = (
        f"{MARK} No source supports {', '.join(flagged)}: the strongest has less than {percent} of scores."
        if flagged
        else f"Every {rows} has a source with at least {percent} of all scores."
    )
    return {"question": question, "lead": said, "flagged": missing, "legend": ["lowers", "raises", "logits"]}


def print_support(
    document: Document, console: Console, by: str | None = None, top: int | None = None
) -> None:
    """Print a row for every sentence of the answer; `top`: only the strongest N parts."""
    if by is not None:
        raise InputError(f"by is {by!r}.", "There is one way to show this table: leave it out.")
    said = describe_support(document)
    columns = _strongest(document, top)
    largest = find_largest(document)
    console.print(Text(write_sentence(said["question"]), style="bold"))
    console.print(Text(f"{document['model']}, {document['method']}", style="dim"))
    console.print()
    table = Table(box=None, pad_edge=False, collapse_padding=True)
    for heading in ("", "", "strongest source", "score", "share", "sum"):
        named = heading in ("", "strongest source")
        table.add_column(heading, justify="left" if named else "right", no_wrap=heading != "")
    for number, row in enumerate(document["rows"], 1):
        best = max(
            (place for place in columns if document["columns"][place]["source"]),
            key=lambda place: row["scores"][place],
            default=None,
        )
        name = "—" if best is None else document["columns"][best]["name"]
        score = "" if best is None else signed(row["scores"][best])
        mark = "" if row["supported"] else f"{MARK} "
        cells = [label(name), score, f"{100 * row['share']:.0f} %", signed(row["logit"])]
        table.add_row(Text(str(number)), Text(mark + one_line(row["text"])), *map(Text, cells))
    console.print(table)
    console.print()
    whole = Table(box=None, pad_edge=False, collapse_padding=True)
    whole.add_column(Text(document["columns_by"]), no_wrap=True)
    for number in range(1, len(document["rows"]) + 1):
        whole.add_column(Text(str(number)), justify="right", no_wrap=True)
    for place in columns:
        painted = [_paint(row["scores"][place], largest) for row in document["rows"]]
        whole.add_row(Text(label(document["columns"][place]["name"])), *painted)
    if document["rows"][0]["bias"] is not None:
        whole.add_row(Text("bias"), *(Text(signed(row["bias"])) for row in document["rows"]))
    with colouring(console):
        console.print(whole)
    console.print()
    console.print(Text(said["flagged"]))


def render_support_csv(document: Document) -> str:
    """Give a line for every sentence and part."""
    rows = _list_rows(document)
    return write_csv([list(rows[0]), *(list(row.values()) for row in rows)])


def make_support_frame(document: Document) -> "DataFrame":
    """Give the same as a data frame (pandas)."""
    return frame_of(_list_rows(document))


def find_largest(document: Document) -> float:
    """Find the largest score, by size: the end of the colours."""
    return max(abs(score) for row in document["rows"] for score in row["scores"]) or 1.0


def one_line(text: str) -> str:
    """Write a text on one line."""
    return label(" ".join(text.split()))


def _paint(value: float, largest: float) -> Text:
    return Text(signed(value), style=paint_ground(value, largest) or "")


def _strongest(document: Document, top: int | None) -> list[int]:
    """List the columns that are shown, in order."""
    places = range(len(document["columns"]))
    if top is None or top >= len(places):
        return list(places)
    strength = {place: max(abs(row["scores"][place]) for row in document["rows"]) for place in places}
    return sorted(sorted(places, key=lambda place: -strength[place])[:top])


def _list_rows(document: Document) -> list[dict[str, Any]]:
    return [
        {"row": row["name"], "text": row["text"], "part": column["name"], "source": column["source"]}
        | {"score": score, "supported": row["supported"]}
        for row in document["rows"]
        for column, score in zip(document["columns"], row["scores"], strict=True)
    ]
