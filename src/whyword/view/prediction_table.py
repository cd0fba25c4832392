"""The likeliest next tokens: in the terminal, as CSV, as a data frame."""

from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..document.kinds import Document
from ..errors import InputError
from .data_frames import frame_of
from .sheet import write_csv
from .wording import label

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["make_prediction_frame", "print_prediction", "render_prediction_csv"]


def print_prediction(
    document: Document, console: Console, by: str | None = None, top: int | None = None
) -> None:
    """Print the likeliest tokens; `top`: only the first N."""
    if by is not None:
        raise InputError(f"by is {by!r}.", "There is one way to show a prediction: leave it out.")
    table = Table(
        box=None, title=Text(document["model"]), title_justify="left", title_style="dim", pad_edge=False
    )
    for heading in ("", "token", "probability", "logit", "id"):
        table.add_column(heading, justify="left" if heading == "token" else "right", no_wrap=True)
    for rank, choice in enumerate(document["choices"][:top], 1):
        numbers = (f"{choice['probability']:.4f}", f"{choice['logit']:.3f}", str(choice["id"]))
        table.add_row(str(rank), Text(label(choice["text"])), *numbers)
    console.print(table)


def render_prediction_csv(document: Document) -> str:
    """Return a row for each token, the likeliest first."""
    rows = _list_rows(document)
    return write_csv([list(rows[0]), *(list(row.values()) for row in rows)]) if rows else ""


def make_prediction_frame(document: Document) -> "DataFrame":
    """Return the same as a data frame (pandas)."""
    return frame_of(_list_rows(document))


def _list_rows(document: Document) -> list[dict[str, Any]]:
    return [{"rank": rank, **choice} for rank, choice in enumerate(document["choices"], 1)]
