"""The files of the page: all of them are in the package."""

from dataclasses import dataclass
from importlib.resources import files
from pathlib import PurePath

from starlette.responses import Response

from ..view.html import list_assets, render_html

__all__ = ["Asset", "read_assets"]

_KINDS = {".js": "text/javascript", ".css": "text/css", ".html": "text/html"}
"""Content types that browsers require, independent of the system's own table."""


@dataclass(frozen=True)
class Asset:
    """One file."""

    content: bytes
    kind: str

    def respond(self) -> Response:
        """Answer with the file."""
        return Response(self.content, media_type=self.kind)


def read_assets() -> dict[str, Asset]:
    """Read the page's own files, the renderer's, and an empty report that the page fills and saves."""
    own = {path.name: path.read_bytes() for path in (files(__package__) / "page").iterdir()}
    every = {**list_assets(), **own, "report.html": render_html([]).encode()}
    return {name: Asset(content, _KINDS[PurePath(name).suffix]) for name, content in every.items()}
