"""Run the cells of pages in Jupyter kernels, two at once, and keep what they give by a hash of its causes."""

import json
import os
import queue
import shutil
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cells import find_cells
from dependencies import ROOT, hash_page
from filelock import FileLock
from kernel_start import find_translation_model
from stored_reports import draw_outputs, draw_report, keep_documents, keep_outputs

__all__ = ["PageToRun", "RunPage", "run_pages", "store"]

CACHE = ROOT / ".cache" / "site"
SETTINGS = {
    "COLUMNS": "80",
    "JUPYTER_COLUMNS": "80",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "NO_COLOR": "1",
    "OMP_NUM_THREADS": "1",
    "TERM": "dumb",
    "TOKENIZERS_PARALLELISM": "false",
}
START = """
import sys
sys.path.insert(0, {here!r})
from kernel_start import *
import kernel_start
kernel_start.quiet_libraries()
kernel_start.share_models()
kernel_start.render_figures_clearly()
"""
BEFORE = "%reset -f\nfrom kernel_start import *\nclean({folder!r}, {needs!r})"
STORED = ROOT / "docs" / "stored"
"""What pages gave that need a model which cannot be fetched, for sites that are built without it."""


class CellError(Exception):
    """A cell of a page fails."""


@dataclass(frozen=True)
class PageToRun:
    """A page, its text, and which of the files that it writes the site has (a pattern)."""

    path: str
    text: str
    publish: str = ""
    needs: str = ""
    """"translation": a translation model, which the page finds as the folder opus-mt-zh-en."""


@dataclass(frozen=True)
class RunPage:
    """What the cells of a page gave: outputs of each, as in a notebook, and the files that are published."""

    outputs: list[list[dict[str, Any]]]
    files: dict[str, Path]
    note: str
    """Where the cells were not run for this site: why, and what the page shows instead."""


def run_pages(pages: Sequence[PageToRun], *, only_cached: bool) -> dict[str, RunPage]:
    """Return what the cells of each page give, from the cache where nothing has changed."""
    if not only_cached:
        CACHE.mkdir(parents=True, exist_ok=True)
        with FileLock(CACHE / ".lock"):  # two builds at once run nothing twice
            _run_missing(pages)
    return {page.path: _read(page) for page in pages}


def _place(page: PageToRun) -> Path:
    cells = [cell.code for cell in find_cells(page.text)]
    return CACHE / _stem(page) / hash_page([page.publish, page.needs, *cells])


def _has_needed(page: PageToRun) -> bool:
    return page.needs != "translation" or find_translation_model() is not None


def _read(page: PageToRun) -> RunPage:
    place, note = _place(page), ""
    if not (place / "outputs.json").exists() and page.needs:
        place = STORED / _stem(page)
        note = "This site was built without the model. What you see was kept from a run with it."
    if not (place / "outputs.json").exists():
        return RunPage(
            [[] for _ in find_cells(page.text)],
            {},
            "The cells of this page were not run for this copy of the site.",
        )
    found = draw_outputs(json.loads((place / "outputs.json").read_text(encoding="utf-8")))
    if len(found) != len(find_cells(page.text)):
        raise SystemExit(
            f"docs/stored is not of docs/{page.path}: run WHYWORD_SITE=store mkdocs build, with the model."
        )
    return RunPage(found, _list_files(place), note)


def _list_files(place: Path) -> dict[str, Path]:
    """Return the files that are published; those of stored reports are drawn into the cache."""
    files = sorted((place / "files").glob("*"))
    if place.parent == STORED:
        files = [_draw_stored(path, CACHE / "drawn" / place.name) for path in files]
    return {path.name: path for path in files}


def _draw_stored(documents: Path, folder: Path) -> Path:
    report = folder / f"{documents.stem}.html"
    folder.mkdir(parents=True, exist_ok=True)
    report.write_text(draw_report(documents.read_text(encoding="utf-8")), encoding="utf-8")
    return report


def store(page: PageToRun) -> None:
    """Keep what a page gave in the repository, for those who build the site without what it needs."""
    if not _has_needed(page):
        return
    place, kept = _place(page), STORED / _stem(page)
    shutil.rmtree(kept, ignore_errors=True)
    (kept / "files").mkdir(parents=True)
    outputs = keep_outputs(json.loads((place / "outputs.json").read_text(encoding="utf-8")))
    (kept / "outputs.json").write_text(json.dumps(outputs, ensure_ascii=False), encoding="utf-8")
    for report in (place / "files").glob("*.html"):
        documents = keep_documents(report.read_text(encoding="utf-8"))
        (kept / "files" / f"{report.stem}.json").write_text(documents, encoding="utf-8")


def _run_missing(pages: Sequence[PageToRun]) -> None:
    """Run the pages whose outputs are not in the cache."""
    waiting: queue.Queue[PageToRun] = queue.Queue()
    for page in pages:
        if not (_place(page) / "outputs.json").exists() and _has_needed(page):
            waiting.put(page)
    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(_work, waiting) for _ in range(min(2, waiting.qsize()))]:
            done.result()


def _stem(page: PageToRun) -> str:
    return page.path.replace("/", "-").removesuffix(".md")


def _work(waiting: "queue.Queue[PageToRun]") -> None:
    """Take pages, one after the other, and run them in one kernel."""
    with tempfile.TemporaryDirectory() as folder:
        client = _start_kernel(Path(folder))
        try:
            _run_cell(client, START.format(here=str(Path(__file__).parent)))
            while True:
                try:
                    page = waiting.get_nowait()
                except queue.Empty:
                    return
                outputs = _run_page(client, page, Path(folder) / _stem(page))
                if outputs is not None:
                    _keep(page, outputs, Path(folder) / _stem(page))
        finally:
            client._cleanup_kernel()


def _start_kernel(folder: Path) -> Any:
    """Start a kernel that is spoken to through files in the folder, where the system has such sockets.

    A port of TCP is chosen before the kernel opens it. If another process takes it in between, the kernel
    never answers.
    """
    import nbformat
    from nbclient import NotebookClient

    quiet = ["--IPKernelApp.log_level=40"]
    client = NotebookClient(
        nbformat.v4.new_notebook(), timeout=600, kernel_name="python3", extra_arguments=quiet
    )
    manager = client.create_kernel_manager()
    if os.name == "posix":
        manager.transport = "ipc"
        manager.connection_file = str(folder / "kernel.json")
    client.start_new_kernel(env={**os.environ, **SETTINGS})
    client.start_new_kernel_client()
    return client


def _run_page(client: Any, page: PageToRun, folder: Path) -> list[list[dict[str, Any]]] | None:
    """Return the outputs of each cell; None where the default model cannot be fetched."""
    _run_cell(client, BEFORE.format(folder=str(folder), needs=page.needs))
    outputs: list[list[dict[str, Any]]] = []
    for number, cell in enumerate(find_cells(page.text), 1):
        try:
            outputs.append(_run_cell(client, cell.code))
        except CellError as error:
            if "cannot be fetched: pip says" in str(error):
                return None
            raise SystemExit(f"docs/{page.path}, cell {number}:\n\n{cell.source}\n\n{error}") from error
    return outputs


def _run_cell(client: Any, code: str) -> list[dict[str, Any]]:
    import nbformat
    from nbclient.exceptions import CellExecutionError

    cell = nbformat.v4.new_code_cell(code)
    client.nb.cells = [cell]
    try:
        client.execute_cell(cell, 0)
    except CellExecutionError as error:
        raise CellError(str(error)) from None
    return [dict(output) for output in cell.outputs]


def _keep(page: PageToRun, outputs: list[list[dict[str, Any]]], folder: Path) -> None:
    place = _place(page)
    shutil.rmtree(place.parent, ignore_errors=True)  # of earlier texts of this page
    (place / "files").mkdir(parents=True)
    if page.publish:
        for path in folder.glob(page.publish):
            shutil.copy(path, place / "files")
    text = json.dumps(outputs, ensure_ascii=False)
    (place / "outputs.json").write_text(text, encoding="utf-8")
