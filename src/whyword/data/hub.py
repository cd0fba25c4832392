"""Datasets from the hub, through the package `datasets`."""

import hashlib
import json
from typing import Any

from ..errors import InputError
from .dataset_names import Published
from .file_layouts import Table

__all__ = ["read_from_hub"]

_REPOSITORIES = {"BLiMP": "nyu-mll/blimp", "IOI": "fahamu/ioi"}
_FIRST_ROWS = {"IOI": 1000}
"""How many rows were published with evidence; the repository has many more."""


def read_from_hub(known: Published) -> Table:
    """Fetch the rows of a dataset; they come without evidence columns."""
    if known.group not in _REPOSITORIES:
        raise InputError(
            f"{known.name} is not on the hub.",
            f"Get {known.files[0]}.tsv (github.com/yoavg/bert-syntax) and name its folder with --data.",
        )
    repository = _REPOSITORIES[known.group]
    configuration = known.title if known.group == "BLiMP" else None
    rows = [
        {str(name): str(value) for name, value in row.items()}
        for row in _fetch(repository, configuration, _FIRST_ROWS.get(known.group))
    ]
    content = json.dumps(rows, ensure_ascii=False, sort_keys=True).encode()
    columns = tuple(rows[0]) if rows else ()
    source = f"hub: {repository}" + (f" {configuration}" if configuration else "")
    return Table(tuple(rows), columns, hashlib.sha256(content).hexdigest(), source)


def _fetch(repository: str, configuration: str | None, count: int | None) -> Any:
    try:
        import datasets
    except ImportError:
        raise InputError(
            "Datasets from the hub need the package datasets, which is not installed.",
            "Install it (pip install datasets), name a folder (--data), or use the built-in suite: builtin.",
        ) from None
    try:
        split = "train" if count is None else f"train[:{count}]"
        return datasets.load_dataset(repository, configuration, split=split)
    except Exception as error:  # datasets raises whatever its many parts raise
        what = str(error).strip().split("\n")[0] or type(error).__name__
        raise InputError(
            f"{repository} cannot be fetched from the hub: {what}",
            "Check the network, name a folder (--data), or use the built-in suite: builtin.",
        ) from None
