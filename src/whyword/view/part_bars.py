"""Scores of parts of a prompt, one bar each: in the terminal, as a picture, as tables."""

from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from ..document.kinds import Document, read_measure
from ..errors import InputError
from .answer_sentences import name_quantity
from .bars import Bar, draw_bars
from .data_frames import frame_of
from .plots import drawing, require_plots, write_figure
from .quoting import write_signed
from .sentences import ask, prefer, read_colours
from .sheet import Sheet, write_csv, write_latex
from .wording import headline, label, signed

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = [
    "describe_parts",
    "make_parts_frame",
    "plot_parts",
    "print_parts",
    "render_parts_csv",
    "render_parts_latex",
]

_WIDEST = 30
"""Cells of the longest name that is shown whole."""
_SHOWN = 60
"""Characters of a part's text that a picture shows."""


def print_parts(document: Document, console: Console, by: str | None = None, top: int | None = None) -> None:
    """Print a bar for every part; `top`: only the strongest N, in the order of the prompt."""
    if by not in (None, document["by"]):
        raise InputError(f"by is {by!r}.", f"These are scores by {document['by']}: leave it out.")
    parts = _strongest(document["parts"], top)
    console.print(Text(headline(document), style="bold"))
    console.print(Text(f"{document['model']}, {document['method']}, by {document['by']}", style="dim"))
    console.print()
    bars = [Bar(label(part["name"]), part["score"], said=_say(part)) for part in parts]
    numbers, adds_up = console.color_system is None, read_measure(document).adds_up
    for line in draw_bars(bars, console.width, _WIDEST, numbers=numbers, adds_up=adds_up):
        console.print(line)
    console.print()
    if len(parts) < len(document["parts"]):
        console.print(Text(f"{len(document['parts']) - len(parts)} more are not shown.", style="dim"))
    console.print(Text(describe_total(document)))


def describe_parts(document: Document) -> dict[str, Any]:
    """Say in words what scores by part of a prompt show."""
    return {
        "question": ask(document),
        "subtitle": f"{read_measure(document).summary}, by {document['by']}",
        "preference": prefer(document["target"], document["foils"]),
        "total": describe_total(document),
        "legend": read_colours(name_quantity(document["foils"]), read_measure(document).unit),
    }


def describe_total(document: Document) -> str:
    """Say what the scores of all parts of a prompt add up to."""
    measure, bias = read_measure(document), document["bias"]
    total = write_signed(sum(part["score"] for part in document["parts"]), 3)
    whole = f"the {name_quantity(document['foils'])} of {write_signed(document['logit'], 3)}"
    if not measure.adds_up:
        return f"Scores in {measure.unit}; they do not add up to {whole}."
    if bias is None:
        return f"All parts add up to {total}, attention’s part of {whole}."
    return f"All parts ({total}) and biases ({write_signed(bias, 3)}) add up to {whole}."


def render_parts_csv(document: Document) -> str:
    """Give a row for every part."""
    rows = _list_rows(document)
    return write_csv([list(rows[0]), *(list(row.values()) for row in rows)])


def make_parts_frame(document: Document) -> "DataFrame":
    """Give the same as a data frame (pandas)."""
    return frame_of(_list_rows(document))


def render_parts_latex(document: Document) -> str:
    """Give a table of names and scores."""
    unit = read_measure(document).unit
    rows = tuple((label(part["name"]), signed(part["score"])) for part in document["parts"])
    return write_latex(Sheet(headline(document), (document["by"], unit), rows, names=1))


def plot_parts(document: Document, form: str) -> bytes:
    """Draw a horizontal bar for every part, the first on top."""
    require_plots()
    from matplotlib.figure import Figure

    parts = document["parts"][::-1]
    with drawing():
        figure = Figure(figsize=(7.2, 1.0 + 0.28 * len(parts)), dpi=160, layout="constrained")
        axes = figure.subplots()
        scores = [part["score"] for part in parts]
        colours = ["#b2182b" if score > 0 else "#2166ac" for score in scores]
        bars = axes.barh(range(len(parts)), scores, color=colours, height=0.7)
        axes.bar_label(bars, [signed(score) for score in scores], padding=3, fontsize=7)
        axes.set_yticks(range(len(parts)), [_name(part) for part in parts], fontsize=7)
        axes.axvline(0, color="#888888", linewidth=0.6)
        axes.margins(x=0.15, y=0.02)
        axes.set_xlabel(read_measure(document).unit, fontsize=7)
        axes.tick_params(axis="x", labelsize=7)
        for spine in ("top", "right", "left"):
            axes.spines[spine].set_visible(False)
        axes.tick_params(axis="y", length=0)
        title = f"{headline(document)}\n{document['model']}, {document['method']}"
        figure.suptitle(title, fontsize=9, x=0.01, ha="left")
        return write_figure(figure, form)


def _name(part: Document) -> str:
    said = _one_line(part["text"])
    shown = said if len(said) <= _SHOWN else said[: _SHOWN - 1] + "…"
    return shown if part["name"] == part["text"] else f"{label(part['name'])}: {shown}"


def _say(part: Document) -> str:
    return "" if part["name"] == part["text"] else _one_line(part["text"])


def _one_line(text: str) -> str:
    return label(" ".join(text.split()))


def _strongest(parts: list[dict[str, Any]], top: int | None) -> list[dict[str, Any]]:
    if top is None or top >= len(parts):
        return parts
    kept = sorted(range(len(parts)), key=lambda place: -abs(parts[place]["score"]))[:top]
    return [parts[place] for place in sorted(kept)]


def _list_rows(document: Document) -> list[dict[str, Any]]:
    return [{"by": document["by"], **part} for part in document["parts"]]
