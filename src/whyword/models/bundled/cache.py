"""The cache folder: entries are made once, checked cheaply, and never visible half-made.

models/NAME/          an entry: files, and the manifest whyword.json with size, time and hash of each
models/.aside/        locks, and entries in the making, before they are renamed into place
"""

import hashlib
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from platformdirs import user_cache_path

from ...runs.whole_files import write_aside

__all__ = ["MANIFEST", "find_cache", "find_fault", "hash_file", "keep"]

MANIFEST = "whyword.json"
_SCHEMA = "whyword.model/1"
_CHUNK = 1 << 20
_log = logging.getLogger("whyword")


def find_cache() -> Path:
    """Return the folder of cached models, in WHYWORD_CACHE or in the user's cache folder."""
    chosen = os.environ.get("WHYWORD_CACHE")
    root = Path(chosen).expanduser().absolute() if chosen else user_cache_path("whyword")
    return root / "models"


def keep(name: str, made_from: str, make: Callable[[Path, Path], None]) -> Path:
    """Return the entry of that name; make it first if it is missing or damaged.

    `made_from` is the hash of its source: an entry made from something else is made again.
    `make(aside, entry)` fills the folder `entry` and may use `aside`; both are gone if it fails.
    """
    folder = find_cache() / name
    if _is_unchanged(folder, made_from):
        return folder
    times = _read_times(folder)  # read before the files are hashed: a later change has another time
    if find_fault(folder, made_from) is None:
        with suppress(OSError, Timeout), _lock(name, timeout=0):  # a cache may be read-only
            _note_times(folder, times)
        return folder
    with _lock(name), _work_aside(name) as aside:
        fault = find_fault(folder, made_from)
        if fault is None:  # another process made it while this one waited
            return folder
        if folder.exists():
            _log.warning("The cached model %s is damaged (%s): making it again.", name, fault)
        entry = aside / "entry"
        entry.mkdir()
        make(aside, entry)
        _write_manifest(entry, made_from)
        if folder.exists():
            os.replace(folder, aside / "damaged")
        os.replace(entry, folder)
    return folder


def find_fault(folder: Path, made_from: str) -> str | None:
    """Return what is wrong with an entry, or None; files whose size or time changed are hashed."""
    manifest = _read_manifest(folder)
    if manifest is None:
        return f"it has no readable {MANIFEST}" if folder.exists() else "it does not exist"
    if manifest["made_from"] != made_from:
        return "it was made from something else"
    for name, expected in manifest["files"].items():
        path = folder / name
        if not path.is_file():
            return f"{name} is missing"
        found = path.stat()
        if found.st_size != expected["size"]:
            return f"{name} has {found.st_size} bytes instead of {expected['size']}"
        if found.st_mtime_ns != expected["mtime_ns"] and hash_file(path) != expected["sha256"]:
            return f"{name} was changed"
    return None


def hash_file(path: Path) -> str:
    """Return the sha256 of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _is_unchanged(folder: Path, made_from: str) -> bool:
    """Tell by size and time alone, which takes milliseconds, whether an entry is unchanged."""
    manifest = _read_manifest(folder)
    if manifest is None or manifest["made_from"] != made_from:
        return False
    for name, expected in manifest["files"].items():
        try:
            found = (folder / name).stat()
        except OSError:
            return False
        if (found.st_size, found.st_mtime_ns) != (expected["size"], expected["mtime_ns"]):
            return False
    return True


def _read_manifest(folder: Path) -> dict[str, Any] | None:
    """Read the manifest of an entry; None if it is missing or unreadable."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        if manifest["schema"] != _SCHEMA or not isinstance(manifest["made_from"], str):
            return None
        complete = all({"size", "mtime_ns", "sha256"} <= set(file) for file in manifest["files"].values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return dict(manifest) if complete and manifest["files"] else None


def _write_manifest(folder: Path, made_from: str) -> None:
    files = {}
    for path in sorted(path for path in folder.iterdir() if path.name != MANIFEST):
        status = path.stat()
        files[path.name] = {
            "size": status.st_size,
            "mtime_ns": status.st_mtime_ns,
            "sha256": hash_file(path),
        }
    _replace_manifest(folder, {"schema": _SCHEMA, "made_from": made_from, "files": files})


def _read_times(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in folder.glob("*")}


def _note_times(folder: Path, times: Mapping[str, int]) -> None:
    """Update the times of files that a copy or an archive changed, so that they are hashed only once."""
    manifest = _read_manifest(folder)
    if manifest is not None:
        for name, file in manifest["files"].items():
            file["mtime_ns"] = times.get(name, file["mtime_ns"])
        _replace_manifest(folder, manifest)


def _replace_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    with write_aside(folder / MANIFEST) as aside:
        aside.write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")


@contextmanager
def _lock(name: str, timeout: int = -1) -> Iterator[None]:
    path = find_cache() / ".aside" / f"{name}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(str(path))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        if timeout == 0:
            raise
        _log.info("Waiting for another process that is making %s …", name)
        lock.acquire(timeout=timeout)
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _work_aside(name: str) -> Iterator[Path]:
    """Yield a new folder on the same disk; leftovers of killed processes are removed (the lock is held)."""
    home = find_cache() / ".aside" / name
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True, exist_ok=True)
    try:
        yield Path(tempfile.mkdtemp(dir=home))
    finally:
        shutil.rmtree(home, ignore_errors=True)
