"""The files of the page: all of them are in the package."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import PurePath

from starlette.responses import Response

from ..view.html import list_assets, render_html
from ..view.page_script import strip_comments

__all__ = ["Asset", "read_assets"]

_KINDS = {".js": "text/javascript", ".css": "text/css", ".html": "text/html"}
"""Content types that browsers require, independent of the system's own table."""
_OTHER_PAGE = "run_browser.js"
"""What only the page over a run needs."""
_START = b'<script type="module" src="/assets/main.js">'


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
    scripts = {name: text.decode() for name, text in every.items() if name.endswith(".js")}
    every |= {name: strip_comments(text).encode() for name, text in scripts.items()}
    own_page = [name for name in every if name.endswith(".js") and name != _OTHER_PAGE]
    every["index.html"] = _preload(every["index.html"], own_page)
    return {name: Asset(content, _KINDS[PurePath(name).suffix]) for name, content in every.items()}


def _preload(page: bytes, scripts: Sequence[str]) -> bytes:
    """Name all modules in the page: a browser asks for them at once, not one import after another."""
    links = "".join(f'<link rel="modulepreload" href="/assets/{name}">\n' for name in sorted(scripts))
    return page.replace(_START, links.encode() + _START)
