"""Read documents back."""

import json
from pathlib import Path

from .alignment.result import Alignment, read_alignment
from .comparison import Comparison, comparison_from
from .document import ALIGNMENT_SCHEMA, COMPARISON_SCHEMA, CONTINUATION_SCHEMA, SCHEMA, TRANSLATION_SCHEMA
from .errors import InputError
from .explanation import Continuation, Explanation, explanation_from
from .translation import Translation, read_translation

__all__ = ["read"]

_REMEDY = "Give a .json file that Explanation.save wrote."


def read(path: str | Path) -> Explanation | Continuation | Comparison | Translation | Alignment:
    """Read an explanation of any kind, a comparison or an alignment from a JSON document."""
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {error}.", _REMEDY) from None
    schema = document.get("schema") if isinstance(document, dict) else None
    try:
        if schema == SCHEMA:
            return explanation_from(document)
        if schema == CONTINUATION_SCHEMA:
            return Continuation(tuple(explanation_from(part) for part in document["explanations"]))
        if schema == COMPARISON_SCHEMA:
            return comparison_from(document)
        if schema == TRANSLATION_SCHEMA:
            return read_translation(document)
        if schema == ALIGNMENT_SCHEMA:
            return read_alignment(document)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} is damaged: {error!r}.", _REMEDY) from error
    raise InputError(
        f"{path} has the schema {schema!r}.",
        f"This version reads {SCHEMA!r}, {CONTINUATION_SCHEMA!r}, {COMPARISON_SCHEMA!r}, "
        f"{TRANSLATION_SCHEMA!r} and {ALIGNMENT_SCHEMA!r}.",
    )
