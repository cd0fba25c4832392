"""What fits a document: its fields, declared once as frozen dataclasses, as JSON Schema and as a check.

A declared field is required where it has no default; its docstring is its description. pydantic does the
checking. It is imported when it is needed.
"""

import ast
import dataclasses
import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from ..errors import InputError
from ..lazy import find_at
from .kinds import Document, Kind

if TYPE_CHECKING:
    from pydantic import TypeAdapter

__all__ = ["REMEDY", "check_document", "describe_fields", "make_schema", "name_place"]

REMEDY = "Give a document that whyword saved, as it was saved."
_CONFIG = {"strict": True, "allow_inf_nan": False}
_SCHEMA_FIELD = "The kind of document and its version."
_WORDING_FIELD = "Sentences that views show with the numbers, by what they say."


def check_document(kind: Kind, document: Document) -> Any:
    """Return the declared dataclass of a document that fits its kind; refuse another, naming the place."""
    from pydantic import ValidationError

    try:
        return _adapter(kind).validate_python(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = name_place(document, first["loc"])
        raise InputError(f"{place}: {first['msg']}.", REMEDY) from None


def make_schema(kind: Kind) -> dict[str, Any]:
    """Return the JSON Schema of a kind."""
    from pydantic.json_schema import GenerateJsonSchema

    generated = _drop_titles(_adapter(kind).json_schema())
    return {"$schema": GenerateJsonSchema.schema_dialect, "title": kind.schema, **generated}


def name_place(document: Any, parts: Sequence[int | str]) -> str:
    """Name a place in a document: ledger.mlp[3].

    Between names and indices stand those of types that a value could have had; they are left out.
    """
    place, value = "", document
    for part in parts:
        if isinstance(part, int) and isinstance(value, list) and 0 <= part < len(value):
            place, value = f"{place}[{part}]", value[part]
        elif isinstance(value, Mapping) and (part in value or part == parts[-1]):
            place, value = f"{place}.{part}" if place else str(part), value.get(part)
    return place or "The document"


def describe_fields(declared: type) -> dict[str, str]:
    """Return the docstrings of the fields of a dataclass, those of its bases too, on one line each."""
    described: dict[str, str] = {}
    for each in reversed(declared.__mro__):
        if not dataclasses.is_dataclass(each):
            continue
        (body,) = ast.parse(textwrap.dedent(inspect.getsource(each))).body
        assert isinstance(body, ast.ClassDef)
        for field, after in zip(body.body, body.body[1:], strict=False):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                match after:
                    case ast.Expr(value=ast.Constant(value=str(text))):
                        described[field.target.id] = " ".join(text.split())
    return described


@cache
def _adapter(kind: Kind) -> "TypeAdapter[Any]":
    from pydantic import Field, TypeAdapter
    from typing_extensions import NotRequired

    named = {
        "schema": _annotate(Literal[kind.schema], Field(description=_SCHEMA_FIELD)),
        "wording": NotRequired[_annotate(dict[str, Any], Field(description=_WORDING_FIELD))],
    }
    return TypeAdapter(_to_object(find_at(kind.declared), named))


def _to_json_type(hint: Any) -> Any:
    """Return the JSON type of a declared type: objects for dataclasses, arrays for tuples.

    What fits is made into what was declared.
    """
    from pydantic import Field, Strict

    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return _share_object(hint)
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _annotate(_to_json_type(inner[0]), *hint.__metadata__)
    if origin in (Union, UnionType):
        return Union[tuple(_to_json_type(each) for each in inner)]  # noqa: UP007
    if origin is tuple:
        items = tuple(each if each is Ellipsis else _to_json_type(each) for each in inner)
        return _annotate(tuple.__class_getitem__(items), Strict(False), Field(fail_fast=True))
    if origin is list:
        return _annotate(list.__class_getitem__(_to_json_type(inner[0])), Field(fail_fast=True))
    if origin is dict:
        return dict.__class_getitem__((inner[0], _to_json_type(inner[1])))
    return hint


@cache
def _share_object(declared: type) -> Any:
    """Return the same type every time, so that a JSON Schema defines it once."""
    return _to_object(declared, {})


def _to_object(declared: Any, named: Mapping[str, Any]) -> Any:
    """Return the object that a dataclass is in JSON; `named`: further fields of it."""
    from pydantic import AfterValidator, Field
    from typing_extensions import NotRequired, TypedDict

    hints, described = get_type_hints(declared, include_extras=True), describe_fields(declared)
    fields = dict(named)
    for field in dataclasses.fields(declared):
        own = _annotate(_to_json_type(hints[field.name]), Field(description=described.get(field.name)))
        required = field.default is field.default_factory is dataclasses.MISSING
        fields[field.name] = own if required else NotRequired[own]
    make: Any = TypedDict
    made = make(declared.__name__, fields)
    made.__doc__, made.__pydantic_config__ = declared.__doc__, _CONFIG
    return _annotate(made, AfterValidator(_maker(declared)))


def _annotate(hint: Any, *metadata: Any) -> Any:
    parts = (hint, *metadata)
    annotated: Any = Annotated
    return annotated[parts]


def _maker(declared: type) -> Callable[[dict[str, Any]], Any]:
    names = [field.name for field in dataclasses.fields(declared)]
    return lambda found: declared(**{name: found[name] for name in names if name in found})


def _drop_titles(schema: Any) -> Any:
    """Leave out the titles that repeat the name of a field."""
    if isinstance(schema, list):
        return [_drop_titles(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _drop_titles(value)
        for key, value in schema.items()
        if key != "title" or not isinstance(value, str)
    }
