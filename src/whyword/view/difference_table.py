"""Two explanations word by word: in the terminal, as a picture, as tables; and the sentences about them."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..document.kinds import Document, read_measure
from ..errors import InputError
from .answer_sentences import name_quantity
from .data_frames import frame_of
from .latex import escape_latex, write_latex
from .plots import drawing, require_plots, write_figure
from .quoting import Sentence, join, quote, write_signed
from .sentences import ask_about, read_colours
from .sheet import write_csv
from .wording import chances, label, signed, write_sentence

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = [
    "describe_difference",
    "make_difference_frame",
    "plot_difference",
    "print_difference",
    "render_difference_csv",
    "render_difference_latex",
]

_BAR = 16
"""Characters of the longest bar."""
_NAMED = 3
"""Words that the answer names."""
_SMALL = 0.05
"""The part of the strongest difference below which a word is not named."""
_COLOURS = {"first": "#b9c2ca", "second": "#4a5560"}


def print_difference(
    document: Document, console: Console, by: str | None = None, top: int | None = None
) -> None:
    """Print the answer, and for every word both scores and their difference; `top`: only the strongest N."""
    if by not in (None, "word"):
        raise InputError(f"by is {by!r}.", "A difference is shown by word: leave it out.")
    console.print(Text(write_sentence(_ask(document)), style="bold"))
    for side, name in zip(_COLOURS, _name_sides(document), strict=True):
        console.print(Text(f"{side}: {name}"))
        console.print(Text(f"  {chances({**document[side], 'ledger': document[side]})}", style="dim"))
    models = dict.fromkeys(document[side]["model"] for side in _COLOURS)
    if len(models) == 1:
        console.print(Text(f"{document['model']}, {document['method']}", style="dim"))
    console.print()
    console.print(_write_answer(document))
    console.print()
    rows = _list_rows(document)
    shown = _strongest(rows, top)
    largest = max(abs(row["difference"]) for row in rows)
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("word", overflow="ellipsis", no_wrap=True, max_width=30)
    for heading in ("first", "second", "change"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for row in shown:
        style = "" if row["kind"] == "word" else "dim"
        numbers = [Text(text, style=style) for text in _write_scores(document, row)]
        table.add_row(
            Text(_name_row(row), style="bold" if _is_changed(row) else style),
            *numbers,
            _draw_bar(row["difference"], largest, numbers=console.color_system is None),
        )
    if document["rest"] is not None:
        totals = [signed(number) for number in _list_totals(document)]
        what = name_quantity(document["first"]["foils"])
        table.add_row(Text(what, style="bold"), *(Text(total, style="bold") for total in totals), "")
    console.print(table)
    console.print()
    if len(shown) < len(rows):
        console.print(Text(f"{len(rows) - len(shown)} more are not shown.", style="dim"))
    console.print(Text(_say_total(document), style="dim"))


def describe_difference(document: Document) -> dict[str, Any]:
    """Say in words what a difference shows."""
    return {
        "question": _ask(document),
        "subtitle": read_measure(document).summary,
        "answer": _answer(document),
        "total": _say_total(document),
        "rest": _name_rest(document),
        "legend": read_colours(name_quantity(document["first"]["foils"]), read_measure(document).unit),
        "sides": _name_sides(document),
    }


def render_difference_csv(document: Document) -> str:
    """Give a row for every word."""
    rows = _list_rows(document)
    return write_csv([list(rows[0]), *(list(row.values()) for row in rows)])


def make_difference_frame(document: Document) -> "DataFrame":
    """Give the same as a data frame (pandas)."""
    return frame_of(_list_rows(document))


def render_difference_latex(document: Document) -> str:
    """Give a document with a table of both scores and their difference."""
    rows = [(_name_row(row), *_write_scores(document, row)) for row in _list_rows(document)]
    lines = [" & ".join(map(escape_latex, row)) + r" \\" for row in rows]
    if document["rest"] is not None:
        totals = [signed(number) for number in _list_totals(document)]
        lines += [r"\hline", " & ".join(("total", *map(escape_latex, totals))) + r" \\"]
    head = [write_sentence(_ask(document)), write_sentence(_answer(document))]
    sides = zip(_COLOURS, _name_sides(document), strict=True)
    head += [f"{side}: {name}" for side, name in sides]
    body = [r"\begin{tabular}{lrrr}", r"word & first & second & change \\", r"\hline", *lines]
    return write_latex(head, [*body, r"\end{tabular}\par"], [_say_total(document)])


def plot_difference(document: Document, form: str) -> bytes:
    """Draw both scores of every word at the left, their difference at the right, the first word on top."""
    require_plots()
    from matplotlib.figure import Figure

    rows = _strongest(_list_rows(document), 60)[::-1]
    with drawing():
        figure = Figure(figsize=(8.4, 1.5 + 0.3 * len(rows)), dpi=160, layout="constrained")
        scores, changes = figure.subplots(1, 2, sharey=True)
        for offset, side in ((0.2, "first"), (-0.2, "second")):
            values = [row[f"{side}_score"] for row in rows]
            places = [place + offset for place in range(len(rows))]
            scores.barh(places, values, height=0.36, color=_COLOURS[side], label=side)
        values = [row["difference"] for row in rows]
        colours = ["#b2182b" if value > 0 else "#2166ac" for value in values]
        bars = changes.barh(range(len(rows)), values, height=0.7, color=colours)
        changes.bar_label(bars, [signed(value) for value in values], padding=3, fontsize=7)
        scores.set_yticks(range(len(rows)), [_name_row(row) for row in rows], fontsize=7)
        for axes, title in ((scores, "scores"), (changes, "second − first")):
            axes.axvline(0, color="#888888", linewidth=0.6)
            axes.margins(x=0.18, y=0.02)
            axes.set_xlabel(read_measure(document).unit, fontsize=7)
            axes.set_title(title, fontsize=8, loc="left")
            axes.tick_params(axis="x", labelsize=7)
            axes.tick_params(axis="y", length=0)
            for spine in ("top", "right", "left"):
                axes.spines[spine].set_visible(False)
        figure.legend(
            *scores.get_legend_handles_labels(), loc="outside lower left", ncols=2, frameon=False, fontsize=7
        )
        sides = zip(_COLOURS, _name_sides(document), strict=True)
        named = "\n".join(f"{side}: {_shorten(name)}" for side, name in sides)
        title = f"{write_sentence(_ask(document))}\n{document['model']}, {document['method']}\n{named}"
        figure.suptitle(title, fontsize=8, x=0.01, ha="left")
        return write_figure(figure, form)


# ------------------------------------------------------------ sentences


def _ask(document: Document) -> Sentence:
    """Ask what the second explanation changes."""
    side = document["first"]
    *asked, end = ask_about(side["target"], side["foils"])
    return [*asked, end.removesuffix("?") + ": what changes?"]


def _answer(document: Document) -> Sentence:
    """Say how far the logit (difference) moves, and at which words."""
    first, second, change = (write_signed(number, 2) for number in _list_totals(document))
    quantity = name_quantity(document["first"]["foils"])
    said: Sentence = [f"The {quantity} goes from {first} to {second}, by {change}."]
    if not read_measure(document).adds_up:
        said = [f"The {quantity} goes from {first} to {second}; scores are in another unit."]
    ranked = sorted(_list_rows(document), key=lambda row: -abs(row["difference"]))
    least = _SMALL * abs(ranked[0]["difference"])
    named = [row for row in ranked[:_NAMED] if abs(row["difference"]) > least]
    for place, row in enumerate(named):
        lead = " Most of the change is at " if place == 0 else ", then "
        said = join(said, lead, _quote_row(row), f" ({write_signed(row['difference'], 2)})")
    return join(said, ".") if named else join(said, " No word changes its score.")


def _quote_row(row: Document) -> Sentence:
    if row["kind"] != "word":
        return [f"the {row['kind']}" if row["kind"] == "start" else row["kind"]]
    if row["first"] is None or row["second"] is None:
        there = row["second"] if row["first"] is None else row["first"]
        return join(quote(there), " (only in the second)" if row["first"] is None else " (only in the first)")
    if row["first"] == row["second"]:
        return quote(row["first"])
    return join(quote(row["second"]), " instead of ", quote(row["first"]))


def _write_answer(document: Document) -> Text:
    text = Text()
    for place, part in enumerate(_answer(document)):
        text.append(f"“{label(part)}”" if place % 2 else part, style="bold" if place % 2 else "")
    return text


def _say_total(document: Document) -> str:
    """Say what the differences add up to."""
    if document["rest"] is None:
        return (
            f"Scores in {read_measure(document).unit}; they do not add up to logits. Change: second − first."
        )
    return "Change: second − first. Every column adds up to the model's own number, and is proven."


def _name_rest(document: Document) -> str:
    """Name what is at no word."""
    return "biases" if document["first"]["depth"] is not None else "other than attention"


def _name_sides(document: Document) -> list[str]:
    """Name both sides by what tells one from the other: the model, the prompt."""
    sides = document["first"], document["second"]
    models, texts = ({side[field] for side in sides} for field in ("model", "text"))
    fields = [field for field, values in (("model", models), ("text", texts)) if len(values) > 1]
    return [": ".join(label(side[field]) for field in fields or ["text"]) for side in sides]


# ------------------------------------------------------------ rows


def _list_rows(document: Document) -> list[dict[str, Any]]:
    """List words, the start before them, and what is at no word after them."""
    rows = [{"kind": "start" if pair["start"] else "word", **pair} for pair in document["words"]]
    if document["rest"] is not None and (document["rest"]["first_score"] or document["rest"]["second_score"]):
        rows.append({**document["rest"], "kind": _name_rest(document)})
    return [{name: value for name, value in row.items() if name != "start"} for row in rows]


def _list_totals(document: Document) -> Iterator[float]:
    yield from (document["first"]["logit"], document["second"]["logit"], document["difference"])


def _is_changed(row: Document) -> bool:
    return bool(row["kind"] == "word" and row["first"] != row["second"])


def _name_row(row: Document) -> str:
    """Name a row: a word, or what it is changed into."""
    if row["kind"] != "word":
        return str(row["kind"])
    first, second = (None if row[side] is None else label(row[side]) for side in ("first", "second"))
    if first == second:
        return str(first)
    return f"{first or '–'} → {second or '–'}"


def _write_scores(document: Document, row: Document) -> list[str]:
    """Write both scores and their difference; nothing where a word is not there."""
    written = []
    for side in ("first", "second"):
        written.append("" if row[side] is None else signed(row[f"{side}_score"]))
    return [*written, signed(row["difference"])]


def _draw_bar(value: float, largest: float, *, numbers: bool) -> Text:
    """Draw a number as a bar that begins in the middle: to the right it raises, to the left it lowers."""
    half = _BAR // 2
    length = round(half * abs(value) / (largest or 1.0))
    bar = ("░" if numbers and value < 0 else "▇") * length
    left, right = (" " * (half - length) + bar, "") if value < 0 else (" " * half, bar)
    return Text(f"{left}│{right}".ljust(_BAR + 1), style="blue" if value < 0 else "red")


def _strongest(rows: list[dict[str, Any]], top: int | None) -> list[dict[str, Any]]:
    if top is None or top >= len(rows):
        return rows
    kept = sorted(range(len(rows)), key=lambda place: -abs(rows[place]["difference"]))[:top]
    return [rows[place] for place in sorted(kept)]


def _shorten(text: str, most: int = 90) -> str:
    return text if len(text) <= most else f"…{text[1 - most :]}"
