"""One writer at a time: a run that another process is writing is refused, with the name of that process.

The lock is one of the operating system, which drops it when the process dies, however it dies. The name of
the writer is kept next to it, for messages only.
"""

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from ..errors import InputError

__all__ = ["write_file_alone", "write_folder_alone"]

_PATIENCE = 1.0
"""Seconds to wait for the name of a writer that has only just begun."""


@contextmanager
def write_folder_alone(folder: Path) -> Iterator[None]:
    """Make a folder if there is none, and be its only writer; refuse it while another process is."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"{folder} cannot be used: {error.strerror}.", "Name a folder where you may write: --out RUN."
        ) from None
    with _hold(folder / ".lock", folder):
        yield


@contextmanager
def write_file_alone(path: Path) -> Iterator[None]:
    """Be the only writer of a file; refuse it while another process is."""
    with _hold(path.with_name(f".{path.name}.lock"), path):
        yield


@contextmanager
def _hold(lock: Path, what: Path) -> Iterator[None]:
    """Hold a lock, or refuse `what` it stands for."""
    held, name = FileLock(str(lock)), Path(f"{lock}.writer")
    try:
        held.acquire(timeout=0)
    except Timeout:
        raise InputError(
            f"{what} is being written by {_read_writer(name)}.",
            "Wait until it has ended, or stop it; then run this again: what is finished is kept.",
        ) from None
    except (OSError, NotImplementedError) as error:
        raise InputError(
            f"{what} cannot be locked: {getattr(error, 'strerror', None) or error}.",
            "Name a place that you may write to, on a disk that has file locks.",
        ) from None
    try:
        with suppress(OSError):  # a full disk is reported where the run writes
            name.write_text(json.dumps({"pid": os.getpid(), "host": socket.gethostname()}), encoding="utf-8")
        yield
    finally:
        with suppress(OSError):
            name.unlink()
        held.release()


def _read_writer(name: Path) -> str:
    """Name the process that holds a lock, once it has written its name."""
    import psutil

    here, until = socket.gethostname(), time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        try:
            known = json.loads(name.read_text(encoding="utf-8"))
            pid, host = int(known["pid"]), str(known["host"])
            if host != here or psutil.pid_exists(pid):  # otherwise a killed process left its name
                return f"process {pid} on {host}"
        except (OSError, ValueError, KeyError, TypeError):
            pass
        time.sleep(0.02)
    return "another process"
