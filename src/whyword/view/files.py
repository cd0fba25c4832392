"""Write documents to files, by the ending of their names."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ..document import Document
from ..errors import InputError
from .html import render_html
from .latex import render_latex
from .plots import render_plot, require_plots
from .table import render_csv

__all__ = ["FORMATS", "require_format", "save_documents", "write_file"]

FORMATS: Mapping[str, Callable[[Document], str | bytes]] = {
    ".json": lambda document: json.dumps(document, ensure_ascii=False) + "\n",
    ".html": lambda document: render_html([document]),
    ".tex": render_latex,
    ".png": lambda document: render_plot(document, "png"),
    ".svg": lambda document: render_plot(document, "svg"),
    ".csv": render_csv,
}


def require_format(path: str | Path) -> Path:
    """Refuse a name whose ending is not known, before anything is computed for it."""
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise InputError(
            f"{path.name!r} does not end in a known format.", f"Known endings: {', '.join(FORMATS)}."
        )
    if path.suffix.lower() in (".png", ".svg"):
        require_plots()
    if not path.parent.is_dir():
        raise InputError(f"There is no folder {path.parent}.", "Make it first, or save somewhere else.")
    return path


def save_documents(documents: Sequence[Document], path: str | Path) -> list[Path]:
    """Save documents: HTML holds them all; of other formats, the second goes to name-2, and so on."""
    path = require_format(path)
    if path.suffix.lower() == ".html":
        write_file(path, render_html(documents))
        return [path]
    render = FORMATS[path.suffix.lower()]
    paths = [path, *(path.with_stem(f"{path.stem}-{count}") for count in range(2, len(documents) + 1))]
    for document, each in zip(documents, paths, strict=False):
        write_file(each, render(document))
    return paths[: len(documents)]


def write_file(path: Path, content: str | bytes) -> None:
    """Write aside and rename: a file is whole or as it was."""
    # A lone surrogate becomes \\ud800: valid in JSON, harmless elsewhere.
    data = content.encode("utf-8", errors="backslashreplace") if isinstance(content, str) else content
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        if path.exists() and not path.is_file():  # a pipe, a device
            path.write_bytes(data)
        else:
            aside.write_bytes(data)
            os.replace(aside, path)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise InputError(
            f"{path} cannot be written: {error.strerror}.",
            "Save where you may write and where there is room.",
        ) from None
