"""Reports in what a page gave, kept as the documents that they show: the site draws them anew."""

import html
import json
import re
from typing import Any

from whyword.view.html import render_html, render_notebook

__all__ = ["draw_outputs", "draw_report", "keep_documents", "keep_outputs"]

_DOCUMENTS = re.compile(r'(?<=<script type="application/json" id="documents">).*?(?=</script>)', re.DOTALL)
_FRAME = re.compile(r'^<iframe title="[^"]*" class="whyword-[^>]* srcdoc="([^"]*)">')
_KEPT = "application/x-whyword"
"""Under which type the outputs of a cell keep the document of a report."""

Outputs = list[list[dict[str, Any]]]
"""The outputs of each cell of a page, as in a notebook."""


def keep_documents(report: str) -> str:
    """Return the documents of a saved report, as JSON."""
    found = _DOCUMENTS.search(report)
    if found is None:
        raise SystemExit(
            "A published file is not a report: docs/building/stored_reports.py keeps reports only."
        )
    return json.dumps(json.loads(found[0]), ensure_ascii=False)


def draw_report(documents: str) -> str:
    """Return the report of such documents."""
    return render_html(json.loads(documents))


def keep_outputs(outputs: Outputs) -> Outputs:
    """Return outputs with documents in place of reports."""
    return [[_keep(output) for output in cell] for cell in outputs]


def draw_outputs(outputs: Outputs) -> Outputs:
    """Return outputs with reports in place of documents."""
    return [[_draw(output) for output in cell] for cell in outputs]


def _keep(output: dict[str, Any]) -> dict[str, Any]:
    data = output.get("data", {})
    frame = _FRAME.match(data.get("text/html", ""))
    if frame is None:
        return output
    others = {name: value for name, value in data.items() if name != "text/html"}
    return {**output, "data": {**others, _KEPT: json.loads(keep_documents(html.unescape(frame[1])))}}


def _draw(output: dict[str, Any]) -> dict[str, Any]:
    data = dict(output.get("data", {}))
    if _KEPT not in data:
        return output
    (document,) = data.pop(_KEPT)
    return {**output, "data": {**data, "text/html": render_notebook(document)}}
