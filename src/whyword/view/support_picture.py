"""Sentences of an answer × parts of its prompt as a picture, and as a table in LaTeX."""

from textwrap import wrap

from ..document.kinds import Document
from .colour import is_dark, seismic
from .plots import drawing, require_plots, write_figure
from .sheet import Sheet, write_latex
from .support_table import MARK, describe_support, find_largest, one_line
from .wording import label, signed, write_sentence

__all__ = ["plot_support", "render_support_latex"]

_WRAPPED = 46
"""Characters of a line of a sentence."""
_LINES = 3
"""Lines of a sentence that are shown."""
_LONGEST = 30
"""Characters of the longest name of a part that is shown whole."""


def render_support_latex(document: Document) -> str:
    """Give a table of parts and sentences."""
    headings = (document["columns_by"], *(row["name"] for row in document["rows"]))
    rows = tuple(
        (label(column["name"]), *(signed(row["scores"][place]) for row in document["rows"]))
        for place, column in enumerate(document["columns"])
    )
    return write_latex(Sheet(_title(document), headings, rows, names=1))


def plot_support(document: Document, form: str) -> bytes:
    """Draw a row for every sentence and a column for every part, each cell with its number."""
    require_plots()
    from matplotlib.figure import Figure

    rows, columns, largest = document["rows"], document["columns"], find_largest(document)
    names = [_write_row(row) for row in rows]
    lines = sum(max(2, name.count("\n") + 1) for name in names)
    with drawing():
        size = (min(24.0, 3.4 + 0.62 * len(columns)), min(24.0, 1.9 + 0.15 * lines))
        figure = Figure(figsize=size, dpi=160, layout="constrained")
        axes = figure.subplots()
        shares = [[score / largest for score in row["scores"]] for row in rows]
        axes.imshow([[seismic(share) for share in row] for row in shares], aspect="auto")
        axes.set_yticks(range(len(rows)), names, fontsize=7)
        shown = [_shorten(label(column["name"])) for column in columns]
        axes.set_xticks(
            range(len(columns)), shown, fontsize=7, rotation=45, ha="right", rotation_mode="anchor"
        )
        axes.tick_params(length=0)
        for spine in axes.spines.values():
            spine.set_visible(False)
        for height, row in enumerate(rows):
            for place, score in enumerate(row["scores"]):
                ink = "white" if is_dark(seismic(shares[height][place])) else "black"
                axes.text(
                    place, height, signed(score).strip(), ha="center", va="center", fontsize=6, color=ink
                )
        figure.suptitle(
            f"{_title(document)}\n{document['model']}, {document['method']}", fontsize=9, x=0.01, ha="left"
        )
        figure.supxlabel(
            "\n".join(wrap(describe_support(document)["flagged"], 90)), fontsize=6, x=0.01, ha="left"
        )
        return write_figure(figure, form)


def _title(document: Document) -> str:
    return _shorten(label(write_sentence(describe_support(document)["question"])), 100)


def _write_row(row: Document) -> str:
    """Write a sentence in a few lines, marked where no source supports it."""
    said = ("" if row["supported"] else f"{MARK} ") + one_line(row["text"])
    lines = wrap(said, _WRAPPED) or [""]
    if len(lines) > _LINES:
        lines = [*lines[: _LINES - 1], lines[_LINES - 1][: _WRAPPED - 1] + "…"]
    return "\n".join(lines)


def _shorten(text: str, longest: int = _LONGEST) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"
