"""Write documents to files, by their kind and the ending of the file's name (document/kinds.py)."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..document.kinds import KINDS, SCHEMA, Document, Kind, kind_of
from ..errors import InputError
from ..lazy import find_at
from ..runs.whole_files import write_file
from .flow_grid import cut_routes, require_flow

__all__ = ["render_json", "render_page", "require_format", "save_documents"]

_PICTURES = (".png", ".svg")
_TRACED = ("depth", "routes")
"""Views of flow."""


def require_format(path: str | Path, schema: str = SCHEMA, by: str = "block") -> Path:
    """Refuse a name whose ending is not known for a kind of document, before anything is computed for it."""
    path = Path(path)
    _find_renderer(path, kind_of({"schema": schema}), by)
    if path.suffix.lower() in _PICTURES:
        from .plots import require_plots

        require_plots()
    if not path.parent.is_dir():
        raise InputError(f"There is no folder {path.parent}.", "Make it first, or save somewhere else.")
    return path


def save_documents(
    documents: Sequence[Document], path: str | Path, by: str = "block", top: int | None = None
) -> list[Path]:
    """Save documents: HTML holds them all; of other formats, the second goes to name-2, and so on.

    `by`: what a file shows; by head, a picture of blocks × heads; by depth, flow; routes, `top` of them.
    """
    for document in documents:
        path = require_format(path, document["schema"], by)
        if by in _TRACED:
            require_flow(document, by)
    path = Path(path)
    if path.suffix.lower() == ".html":
        write_file(path, render_page(documents, by, top))
        return [path]
    if by == "routes" and path.suffix.lower() != ".json":
        documents = [cut_routes(document, top) for document in documents]
    paths = [path, *(path.with_stem(f"{path.stem}-{count}") for count in range(2, len(documents) + 1))]
    for document, each in zip(documents, paths, strict=False):
        write_file(each, _render(document, each, by))
    return paths[: len(documents)]


def render_page(documents: Sequence[Document], by: str = "block", top: int | None = None) -> str:
    """Return the page that shows documents of one kind, or of several that one page can show.

    `by`: by depth or routes, that picture comes first; `top`: how many routes it shows at first.
    """
    render = find_at(kind_of(documents[0]).formats[".html"])
    page: str = render(documents, by, top) if by in _TRACED else render(documents)
    return page


def render_json(document: Document) -> str:
    """Return a document as the text of a file."""
    return json.dumps(document, ensure_ascii=False) + "\n"


def _render(document: Document, path: Path, by: str) -> str | bytes:
    ending = path.suffix.lower()
    render = find_at(_find_renderer(path, kind_of(document), by))
    content: str | bytes = render(document, ending[1:]) if ending in _PICTURES else render(document)
    return content


def _find_renderer(path: Path, kind: Kind, by: str) -> str:
    """Find what renders a kind for the ending of a name."""
    ending = path.suffix.lower()
    formats: Mapping[str, str] = kind.formats
    if by in _TRACED or (by == "head" and ending in _PICTURES):
        if by not in kind.views:
            raise InputError(f"There is no picture by {by} of this ({kind.name}).", "Leave `by` out.")
        formats = {**formats, **kind.views[by]}
    if ending in formats:
        return formats[ending]
    known = f"Known endings: {', '.join(formats)}."
    if any(ending in each.formats for each in KINDS):
        raise InputError(f"{path.name!r}: there is no {ending} of this ({kind.name}).", known)
    raise InputError(f"{path.name!r} does not end in a known format.", known)
