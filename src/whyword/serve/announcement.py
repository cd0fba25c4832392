"""How commands find a running server: a small file in the cache of this user, for as long as it runs."""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from ..models.bundled.cache import find_cache
from ..runs.whole_files import write_file

__all__ = ["Announcement", "announce", "list_announcements"]


@dataclass(frozen=True)
class Announcement:
    """What a server says of itself to commands of the same user."""

    address: str
    """The URL that it answers to."""
    models: list[str]
    """The names of its models, the default first."""
    process: int
    """Its process id."""


@contextmanager
def announce(address: str, models: Sequence[str]) -> Iterator[None]:
    """Let commands find a server while it runs; a cache that cannot be written to is no error."""
    path = _find_folder() / f"{os.getpid()}.json"
    try:
        with suppress(OSError):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_file(path, json.dumps(asdict(Announcement(address, list(models), os.getpid()))))
        yield
    finally:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def list_announcements() -> list[Announcement]:
    """List the servers of this user that are running, the newest first; files of others are skipped."""
    found: list[tuple[float, Announcement]] = []
    with suppress(OSError):
        for path in _find_folder().glob("*.json"):
            with suppress(OSError, ValueError, KeyError, TypeError):
                record = json.loads(path.read_text(encoding="utf-8"))
                known = Announcement(str(record["address"]), list(record["models"]), int(record["process"]))
                if _is_running(known.process):
                    found.append((path.stat().st_mtime, known))
    return [known for _, known in sorted(found, key=lambda each: -each[0])]


def _find_folder() -> Path:
    return find_cache().parent / "servers"


def _is_running(process: int) -> bool:
    """Tell whether a process exists: one that was killed leaves its file behind."""
    import psutil

    return bool(psutil.pid_exists(process))
