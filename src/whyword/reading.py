"""Read what was saved: the document says by its schema what it is."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from .document import CONTINUATION_SCHEMA, SCHEMA, TRANSLATION_SCHEMA
from .errors import InputError
from .explanation import Continuation, Explanation, read_explanation
from .translation import Translation, read_translation

__all__ = ["read"]

_READERS: Mapping[str, Callable[[dict[str, Any]], Explanation | Continuation | Translation]] = {
    SCHEMA: read_explanation,
    CONTINUATION_SCHEMA: read_explanation,
    TRANSLATION_SCHEMA: read_translation,
}


def read(path: str | Path) -> Explanation | Continuation | Translation:
    """Read an explanation, or that of a continuation or translation, from a JSON document."""
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path} cannot be read: {error}.", "Give a .json file that Explanation.save wrote."
        ) from None
    schema: Any = document.get("schema") if isinstance(document, dict) else None
    if schema not in _READERS:
        raise InputError(
            f"{path} has the schema {schema!r}.",
            f"This version reads {', '.join(map(repr, _READERS))}.",
        )
    try:
        return _READERS[schema](document)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{path} is damaged: {error!r}.", "Give a .json file that Explanation.save wrote."
        ) from error
