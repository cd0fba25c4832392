"""The saved report: one HTML file that needs nothing else and opens without a network.

The page carries the documents as JSON and draws them itself (the modules of page/). Its policy allows exactly
the script and the style that are put in here, by their hashes: whatever a prompt contains stays text.
"""

import base64
import hashlib
import html
import json
from collections.abc import Sequence
from importlib.resources import files
from string import Template
from typing import Any

from ..document.kinds import Document, is_comparison, is_continuation
from .page_script import ENTRY, join_modules, read_modules
from .sentences import add_wording
from .wording import write_sentence

__all__ = ["list_assets", "render_html", "render_notebook"]

_HEAD_DIGITS = 4
"""Significant digits of the numbers by head: most of a report's size, and shown with fewer."""
_FLOW_DIGITS = 6
"""The same of flow by depth."""
_MOST_HEADS = 100_000
"""How many numbers by head are kept, the strongest, of a long prompt; the sums of heads beside them."""
_STYLE = "report.css"
_ANY_TITLE = "whyword report"
_NOTEBOOK_HEIGHT = 760
"""In pixels, until the page has told its own: the question, the prediction, and some of the heat map."""
_GROW = """window.addEventListener("message", (event) => {
  for (const frame of document.querySelectorAll("iframe.NAME")) {
    const height = event.source === frame.contentWindow ? event.data.whywordHeight : 0;
    if (height > 0) frame.height = height;
  }
});"""
"""What makes a frame as high as its page."""


def render_html(documents: Sequence[Document], first: str = "", routes: int | None = None) -> str:
    """Return the page that shows documents below each other: one explanation, several models or methods.

    `first`: the picture of flow that comes first, "depth" or "routes"; `routes`: how many are shown at first.
    """
    style, script = _asset(_STYLE), join_modules()
    worded = [add_wording(document) for document in documents]
    title = _title(worded)
    return Template(_asset("report.html")).substitute(
        policy=_policy(script, style),
        title=html.escape(title),
        plain=html.escape(title),
        first=html.escape(first),
        routes="" if routes is None else routes,
        style=style,
        script=script,
        documents=_embed([_round_heads(document) for document in worded]),
    )


def render_notebook(document: Document) -> str:
    """Return the same page for a notebook's output: in a frame that can run its script and nothing else.

    The page tells its height, and a script beside the frame makes the frame as high. Where notebooks do not
    run scripts, the frame keeps its first height and scrolls.
    """
    page, title = render_html([document]), html.escape(_title([add_wording(document)]))
    name = "whyword-" + hashlib.sha256(page.encode()).hexdigest()[:12]
    return (
        f'<iframe title="{title}" class="{name}" sandbox="allow-scripts" width="100%" '
        f'height="{_NOTEBOOK_HEIGHT}" style="border: 0" srcdoc="{html.escape(page)}"></iframe>'
        f"<script>{_GROW.replace('NAME', name)}</script>"
    )


def list_assets() -> dict[str, bytes]:
    """Return the files that draw documents, by name, for a page that loads them instead of holding them."""
    modules = {name: text for name, text in read_modules().items() if name != ENTRY}
    return {name: text.encode() for name, text in {_STYLE: _asset(_STYLE), **modules}.items()}


def _asset(name: str) -> str:
    return (files(__package__) / "page" / name).read_text(encoding="utf-8")


def _policy(script: str, style: str) -> str:
    return f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; base-uri 'none'"


def _hash(content: str) -> str:
    """Name the content of an inline element as a policy does."""
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


def _title(documents: Sequence[Document]) -> str:
    """Ask the question of a single explanation; characters that no window shows are left out."""
    questions = {write_sentence(document["wording"].get("question", [_ANY_TITLE])) for document in documents}
    title = questions.pop() if len(questions) == 1 else _ANY_TITLE
    return "".join(character for character in title if character.isprintable())


def _embed(documents: Sequence[Document]) -> str:
    """Write JSON that can stand inside a script element: ASCII, and no "<" that could end the element."""
    text = json.dumps(documents, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def _round_heads(document: Document) -> dict[str, Any]:
    """Round the numbers by head, and leave out those of a comparison, which are not shown."""
    if is_comparison(document):
        return {**document, "by_head": []}
    if is_continuation(document):
        return {**document, "explanations": [_round_heads(part) for part in document["explanations"]]}
    if "by_head" not in document:
        return dict(document)
    heads = document["by_head"]
    made = {**document, "by_head": _round(heads, _HEAD_DIGITS)}
    sizes = sorted((abs(value) for block in heads for head in block for value in head), reverse=True)
    if len(sizes) > _MOST_HEADS:
        made["by_head"] = _round(heads, _HEAD_DIGITS, sizes[_MOST_HEADS])
        made["head_sums"] = [[sum(head) for head in block] for block in heads]
    if document.get("flow"):
        made["flow"] = {
            **document["flow"],
            "by_depth": _round(document["flow"]["by_depth"], _FLOW_DIGITS),
        }
    return made


def _round(numbers: Any, digits: int, nothing: float = 0.0) -> Any:
    """Keep some digits of numbers; those up to a size are 0."""
    if isinstance(numbers, list):
        return [_round(number, digits, nothing) for number in numbers]
    return float(f"{numbers:.{digits}g}") if abs(numbers) > nothing else 0
