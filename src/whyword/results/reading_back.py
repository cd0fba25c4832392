"""Read documents back."""

import json
from pathlib import Path
from typing import Any

from ..document.kinds import kind_of
from ..errors import InputError
from ..lazy import find_at

__all__ = ["read"]

_REMEDY = "Give a .json file that `save` wrote."


def read(path: str | Path) -> Any:
    """Read a saved result of any kind from its JSON document (a .json file that `save` wrote)."""
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read: {error}.", _REMEDY) from None
    try:
        kind = kind_of(document)
    except InputError as error:
        raise InputError(error.wrong.replace("The document", str(path), 1), error.remedy) from None
    try:
        return find_at(kind.result).from_dict(document)
    except InputError as error:
        raise InputError(f"{path} is damaged: {error.wrong}", error.remedy) from None
