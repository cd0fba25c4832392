"""Outputs of cells as Markdown, and pages with cells as notebooks that can be downloaded."""

import html
import re
from typing import Any

from cells import Cell, find_cells, replace_cells

__all__ = ["make_notebook", "render_outputs"]

_RICH = '<pre style="white-space:pre;'
"""How rich begins what it shows in a notebook: the page shows the same as text."""


def render_outputs(cell: Cell, outputs: list[dict[str, Any]]) -> tuple[str, str]:
    """Return what a cell printed, as Markdown, and what it displayed, as HTML."""
    printed, displayed = "", ""
    for output in outputs:
        if output["output_type"] == "stream":
            printed += output["text"] if output["name"] == "stdout" else ""
            continue
        data = output.get("data", {})
        if "image/svg+xml" in data:
            displayed += f'<div class="figure">{_inline_svg(data["image/svg+xml"])}</div>'
        elif "image/png" in data:
            displayed += f'<img alt="" src="data:image/png;base64,{data["image/png"].strip()}">'
        elif "text/html" in data and not data["text/html"].startswith(_RICH):
            displayed += data["text/html"]
        else:
            printed += data.get("text/plain", "").rstrip() + "\n"
    text = "\n".join(line.rstrip() for line in printed.strip("\n").split("\n"))
    heard = text.strip() and cell.shown and not cell.quiet
    fence = "```{.text .output}\n" + text + "\n```" if heard else ""
    return "\n".join(cell.indent + line if line else "" for line in fence.split("\n")), displayed


def _inline_svg(svg: str) -> str:
    """Return a figure for the page: black is the colour of its text, white its background, light or dark."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = re.sub(r'(<svg[^>]*?) width="[^"]*"( height="[^"]*")?', r"\1", body, count=1)
    body = body.replace("fill: #ffffff", "fill: none")
    return re.sub(r"(?<=[:\"\s])(?:#000000|black)(?=[;\"])", "currentColor", body)


def make_notebook(page: str, outputs: list[list[dict[str, Any]]]) -> str:
    """Return a page as a notebook with its outputs; what the page does not show is left out."""
    import nbformat

    made, mark = [], "\0{}\0"
    cells = find_cells(page)
    text = replace_cells(page, lambda number, cell, _: mark.format(number) if cell.shown else "")
    for number, part in enumerate(re.split("\0(\\d+)\0", text)):
        if number % 2 == 0 and part.strip():
            made.append(nbformat.v4.new_markdown_cell(html.unescape(part.strip())))
        elif number % 2 == 1:
            cell = cells[int(part)]
            source = (
                cell.source
                if cell.language == "python"
                else "\n".join(f"!{line}" for line in _join(cell.source))
            )
            given = [nbformat.from_dict(output) for output in outputs[int(part)]]
            made.append(nbformat.v4.new_code_cell(source, outputs=given))
    notebook = nbformat.v4.new_notebook(cells=made)
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number}"
    return nbformat.writes(notebook)


def _join(source: str) -> list[str]:
    return source.replace("\\\n", " ").splitlines()
