"""Prompts made of named parts: a template, and what fills its fields."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from string import Formatter
from typing import Any

from ..errors import InputError
from ..tokens.segments import Segment, require_apart

__all__ = ["TEMPLATE", "FilledPrompt", "Filling", "fill"]

TEMPLATE = "template"
"""What the text of a prompt that is in no named part is called."""
_SEPARATOR = "\n\n"


@dataclass(frozen=True)
class FilledPrompt:
    """A prompt whose parts are known."""

    text: str
    parts: tuple[Segment, ...]
    """In the order of the text; what is between them is the template's own."""

    def __str__(self) -> str:
        return self.text


Filling = str | FilledPrompt | Sequence[Any] | Mapping[str, Any]
"""What fills a field: a text, several, or several with names."""


def fill(template: str, /, **fields: Filling) -> FilledPrompt:
    """Fill the fields of a template, such as "{documents}\\n\\nQuestion: {question}", and remember where.

    A field takes a text, or several: a list gives the parts `documents[0]`, `documents[1]` …, a dictionary
    `documents[name]`; they are written with an empty line between them. {{ and }} stand for braces.
    """
    text, parts, unused = "", list[Segment](), dict(fields)
    for before, name in _read_template(template):
        text += before
        if name is None:
            continue
        if name not in fields:
            raise InputError(
                f"The template has a field {name!r} that nothing fills.",
                f"Pass {name}=…; passed: {', '.join(fields) or 'nothing'}.",
            )
        unused.pop(name, None)
        for place, (own, piece) in enumerate(_list_pieces(name, fields[name])):
            text += _SEPARATOR if place > 0 else ""
            inner = piece.parts if isinstance(piece, FilledPrompt) else ()
            start = len(text)
            text += str(piece)
            if inner:
                parts += [
                    Segment(f"{own}.{each.name}", each.start + start, each.end + start) for each in inner
                ]
            elif str(piece).strip():
                parts.append(Segment(own, start, len(text)))
    if unused:
        raise InputError(
            f"The template has no field {next(iter(unused))!r}.",
            f"Write {{{next(iter(unused))}}} where it belongs, or leave it out.",
        )
    return FilledPrompt(text, require_apart(parts))


def _read_template(template: str) -> Iterator[tuple[str, str | None]]:
    """Give the text before each field, and the field's name; last, what is after all fields."""
    try:
        for before, name, form, conversion in Formatter().parse(template):
            if name is not None and (not name.isidentifier() or form or conversion):
                raise InputError(
                    f"The template has the field {{{name}{'!' if conversion else ''}{':' if form else ''}…}}."
                    if form or conversion
                    else f"The template has the field {{{name}}}.",
                    "A field is a name in braces, such as {question}; write {{ and }} for braces.",
                )
            yield before, name
    except ValueError as error:
        raise InputError(
            f"The template cannot be read: {error}.", "Write {{ and }} for braces that are not fields."
        ) from None


def _list_pieces(name: str, filling: Filling) -> list[tuple[str, str | FilledPrompt]]:
    """List what fills a field, with the names of the parts."""
    if isinstance(filling, str | FilledPrompt):
        return [(name, filling)]
    if isinstance(filling, Mapping):
        pieces = [(f"{name}[{key}]", piece) for key, piece in filling.items()]
    else:
        pieces = [(f"{name}[{place}]", piece) for place, piece in enumerate(filling)]
    for own, piece in pieces:
        if not isinstance(piece, str | FilledPrompt):
            raise InputError(f"{own} is a {type(piece).__name__}.", "Fill fields with texts.")
    if not pieces:
        raise InputError(f"{name} is empty.", "Fill it with at least one text.")
    return list(pieces)
