"""What the output of a page depends on, as a hash: its cells, whyword's sources, versions of libraries."""

import hashlib
import re
import sys
from functools import cache
from importlib import metadata, util
from pathlib import Path

__all__ = ["ROOT", "hash_page"]

ROOT = Path(__file__).parents[2]


def hash_page(cells: list[str]) -> str:
    """Return the hash of all that the output of these cells depends on."""
    read = [
        path.read_text(encoding="utf-8")
        for path in sorted((ROOT / "docs").glob("*.md"))
        if _names(cells, path)
    ]
    return hashlib.sha256("\0".join([*cells, *read, *_list_dependencies()]).encode()).hexdigest()[:24]


def _names(cells: list[str], path: Path) -> bool:
    return any(f'"{path.name}"' in cell for cell in cells)


@cache
def _list_dependencies() -> tuple[str, ...]:
    named = {re.split(r"[\s\[<>=!~;]", line)[0] for line in metadata.requires("whyword") or []}
    versions = sorted(f"{name} {_find_version(name)}" for name in named | {"ipykernel", "nbclient", "ray"})
    return (*_hash_sources(), *versions, sys.version)


def _hash_sources() -> list[str]:
    """Return a hash of every source file of the whyword that is imported, and of what runs the pages."""
    spec = util.find_spec("whyword")
    if spec is None or spec.origin is None:
        raise SystemExit("whyword is not installed.\nRun make install, or pip install --editable '.[docs]'.")
    folders = (Path(spec.origin).parent, Path(__file__).parent)
    files = sorted(
        path
        for folder in folders
        for path in folder.rglob("*")
        if path.suffix in {".py", ".cpp", ".js", ".css", ".html"} and path.name not in _ONLY_RENDER
    )
    return [f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}" for path in files]


_ONLY_RENDER = {
    "cells.py",
    "dependencies.py",
    "execution.py",
    "hooks.py",
    "outputs.py",
    "raised_errors.py",
    "stored_reports.py",
}
"""Files that decide how a page looks, not what its cells give."""


def _find_version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "missing"
