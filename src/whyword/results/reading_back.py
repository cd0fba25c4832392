"""Read documents back."""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

from ..document.kinds import READERS
from ..errors import InputError

__all__ = ["read"]

_REMEDY = "Give a .json file that Explanation.save wrote."


def read(path: str | Path) -> Any:
    """Read an explanation of any kind, a comparison or an alignment from a JSON document."""
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {error}.", _REMEDY) from None
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema not in READERS:
        known = ", ".join(map(repr, READERS))
        raise InputError(f"{path} has the schema {schema!r}.", f"This version reads {known}.")
    home, name = READERS[schema].split(":")
    make = getattr(import_module(f"whyword.{home}"), name)
    try:
        return make(document)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} is damaged: {error!r}.", _REMEDY) from error
