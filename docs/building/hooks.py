"""What mkdocs calls while it builds the site: pages with `run: true` get the outputs of their cells."""

import os
import re
from typing import Any

from cells import Cell, replace_cells
from execution import PageToRun, RunPage, run_pages, store
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.utils.meta import get_data
from outputs import make_notebook, render_outputs
from raised_errors import find_errors, render_errors

RUN: dict[str, RunPage] = {}
"""What the cells of each page gave, by its path."""
DISPLAYED: dict[str, str] = {}
"""What a cell displays, by the mark that stands for it until the page is HTML."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Run all pages that are to be run, before any page is rendered."""
    pages = []
    for file in files.documentation_pages():
        text, meta = get_data(file.content_string)
        if meta.get("run"):
            pages.append(PageToRun(file.src_uri, text, meta.get("publish", ""), meta.get("needs", "")))
    wanted = os.environ.get("WHYWORD_SITE")
    RUN.update(run_pages(pages, only_cached=wanted == "cached"))
    for page in pages:
        if wanted == "store" and page.needs:
            store(page)
        done = RUN[page.path]
        stem = page.path.removesuffix(".md")
        for name, path in done.files.items():
            files.append(File.generated(config, f"{stem}/{name}", abs_src_path=str(path)))
        if stem.startswith("tutorials/"):
            files.append(
                File.generated(config, f"{stem}.ipynb", content=make_notebook(page.text, done.outputs))
            )
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Put what cells print below them, and marks for what they display."""
    if page.file.src_uri == "trouble.md":
        return markdown.replace("<!-- errors -->", render_errors(find_errors()))
    done = RUN.get(page.file.src_uri)
    if done is None:
        return markdown

    def render(number: int, cell: Cell, text: str) -> str:
        printed, displayed = render_outputs(cell, done.outputs[number])
        parts = [re.sub(r"```\{\.(\w+) \.quiet\}", r"```\1", text)] if cell.shown else []
        if printed.strip():
            parts.append(printed)
        if displayed:
            mark = f"{page.file.src_uri}-{number}"
            DISPLAYED[mark] = displayed
            parts.append(f'{cell.indent}<div class="displayed" data-search-exclude data-of="{mark}"></div>')
        return "\n\n".join(parts)

    shown = replace_cells(markdown, render)
    return f'!!! note "Not run here"\n\n    {done.note}\n\n{shown}' if done.note else shown


def on_page_content(html: str, page: Page, **_: Any) -> str:
    """Put what cells display where their marks are."""

    def fill(found: re.Match[str]) -> str:
        return f"{found[1]}{DISPLAYED[found[2]]}"

    return re.sub(r'(<div class="displayed"[^>]* data-of="([^"]+)"[^>]*>)', fill, html)
