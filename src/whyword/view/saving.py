"""Write documents to files, by the ending of their names."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ..document.kinds import ABLATION_SCHEMA, ANSWERS_SCHEMA, NEURONS_SCHEMA, SURVEY_SCHEMA, Document
from ..errors import InputError
from ..runs.whole_files import write_file
from .data_frames import render_csv
from .html import render_html
from .latex import render_latex
from .plots import render_plot, require_plots
from .unit_plots import render_heads, render_neurons
from .unit_tables import render_unit_csv

__all__ = ["FORMATS", "require_format", "save_documents"]

FORMATS: Mapping[str, Callable[[Document], str | bytes]] = {
    ".json": lambda document: json.dumps(document, ensure_ascii=False) + "\n",
    ".html": lambda document: render_html([document]),
    ".tex": render_latex,
    ".png": lambda document: render_plot(document, "png"),
    ".svg": lambda document: render_plot(document, "svg"),
    ".csv": render_csv,
}
_HEADS = {
    ".png": lambda document: render_heads(document, "png"),
    ".svg": lambda document: render_heads(document, "svg"),
}
_NEURONS: Mapping[str, Callable[[Document], str | bytes]] = {
    ".json": FORMATS[".json"],
    ".html": FORMATS[".html"],
    ".png": lambda document: render_neurons(document, "png"),
    ".svg": lambda document: render_neurons(document, "svg"),
    ".csv": render_unit_csv,
}


def _renderers(document: Document, by: str) -> Mapping[str, Callable[[Document], str | bytes]]:
    """Give the formats of a document: neurons and surveys have pictures and tables of their own."""
    if document["schema"] == SURVEY_SCHEMA and document["part"] == "heads":
        return {**_NEURONS, **_HEADS}
    if document["schema"] in (NEURONS_SCHEMA, SURVEY_SCHEMA):
        return _NEURONS
    if document["schema"] in (ANSWERS_SCHEMA, ABLATION_SCHEMA):
        return {".json": FORMATS[".json"]}
    return {**FORMATS, **_HEADS} if by == "head" else FORMATS


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


def save_documents(documents: Sequence[Document], path: str | Path, by: str = "block") -> list[Path]:
    """Save documents: HTML holds them all; of other formats, the second goes to name-2, and so on.

    `by`: what a picture shows; by head, the heat map of blocks × heads.
    """
    path = require_format(path)
    ending = path.suffix.lower()
    for document in documents:
        if ending not in _renderers(document, by):
            raise InputError(
                f"{path.name!r}: there is no {ending} of this.",
                f"Known endings: {', '.join(_renderers(document, by))}.",
            )
    if ending == ".html":
        write_file(path, render_html(documents))
        return [path]
    paths = [path, *(path.with_stem(f"{path.stem}-{count}") for count in range(2, len(documents) + 1))]
    for document, each in zip(documents, paths, strict=False):
        write_file(each, _renderers(document, by)[ending](document))
    return paths[: len(documents)]
