"""Show documents where they are: in the terminal, in a notebook, as a data frame."""

from typing import TYPE_CHECKING

from ..document.kinds import Document, kind_of
from ..errors import InputError
from ..lazy import find_at
from .html import render_notebook

if TYPE_CHECKING:
    from pandas import DataFrame
    from rich.console import Console

__all__ = ["make_frame_by_kind", "print_by_kind", "render_notebook_by_kind"]


def print_by_kind(
    document: Document, console: "Console", by: str | None = None, top: int | None = None
) -> None:
    """Print a document of any kind; `by`: what is shown, by default what its kind is shown by."""
    kind = kind_of(document)
    find_at(kind.terminal)(document, console, kind.by if by is None else by, top)


def make_frame_by_kind(document: Document, *, wide: bool = False) -> "DataFrame":
    """Return the data frame of a document; `wide`: with a column for each block."""
    kind = kind_of(document)
    home = kind.wide_frame if wide else kind.frame
    if kind.frame is None:
        raise InputError(f"There is no data frame of this ({kind.name}).", "Use to_dict().")
    if home is None:
        raise InputError(f"There is no wide data frame of this ({kind.name}).", "Leave `wide` out.")
    frame: DataFrame = find_at(home)(document)
    return frame


def render_notebook_by_kind(document: Document) -> str | None:
    """Return the page of a document for a notebook's output; None of kinds that have no page."""
    return render_notebook(document) if ".html" in kind_of(document).formats else None
