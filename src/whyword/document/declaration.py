"""What is declared of one kind of JSON document."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Document", "Kind"]

Document = Mapping[str, Any]
"""What `to_dict` gives: JSON as Python objects."""


@dataclass(frozen=True, eq=False)
class Kind:
    """One kind of document. Homes are written "module:name" and looked up when they are used."""

    name: str
    schema: str
    result: str
    """Home of the result class."""
    declared: str
    """Home of the dataclass that declares the fields of the document."""
    terminal: str
    """Home of what prints it: a function of the document, a console, `by` and `top`."""
    formats: Mapping[str, str]
    """Home of what renders it, by the ending of a file.

    A function of the document; of .png and .svg, of the document and the form ("png"); of .html, of all
    documents that one page shows.
    """
    views: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The same of other views (by head, depth or routes), of kinds that have them."""
    by: str | None = None
    """What it is shown by in the terminal unless told otherwise."""
    frame: str | None = None
    """Home of what makes a data frame of it."""
    wide_frame: str | None = None
    """The same with a column for each block, where it has one."""
    wording: str | None = None
    """Home of what gives the sentences that pages show with it, the question first."""
