"""A Ray that a run starts for itself: no process that it does not need."""

import subprocess
import sys
import time
import types
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import pytest

import whyword
from test_handed_out_work import PROGRAM
from whyword.runs.own_ray import _replaced

from run_folders import PROMPTS, read_shards, write_rows

HELPERS = (
    "StatsActor",
    "AutoscalingCoordinator",
    "ActorLocationTracker",
    "monitor.py",
    "log_monitor",
    "dashboard.py",
    "ReadPieces",
)


@pytest.mark.skipif(sys.platform == "win32", reason="processes are listed by their command lines")
@pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed (the extra `cluster`)")
def test_a_run_starts_no_process_that_it_does_not_need(tiny_folder: Path, tmp_path: Path) -> None:
    """None that keeps statistics, gathers logs, asks for nodes or only reads; and its own needs no torch.

    A worker that is killed is replaced all the same.
    """
    rows = [{"prompt": PROMPTS[number % 4] + " the" * (number % 5)} for number in range(96)]
    source = write_rows(tmp_path / "rows.jsonl", rows)
    whole = tmp_path / "whole"
    options = ["--methods", "flow,logit", "--shard-rows", "2", "--start", "tokenizer", "--engine", "ray"]
    command = ["run", str(source), "--out", str(tmp_path / "out"), "-m", str(tiny_folder), *options]
    running = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *command, "--workers", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    seen, killed = set[str](), False
    while running.poll() is None:
        children = _list_children(running.pid)
        seen |= {*children.values()}
        workers = [process for process, name in children.items() if "MapWorker" in name]
        if not killed and workers and read_shards(tmp_path / "out"):
            workers[0].kill()
            killed = True
        time.sleep(0.1)
    said, wrong = running.communicate()
    assert running.returncode == 0, wrong
    assert said.splitlines()[-1] == "imported []"
    assert not [name for name in seen if any(helper in name for helper in HELPERS)]
    assert killed, seen
    whyword.run(str(tiny_folder), source, whole, methods=["flow", "logit"], shard_rows=2, start="tokenizer")
    assert read_shards(tmp_path / "out") == read_shards(whole)


def _list_children(process: int) -> dict[psutil.Process, str]:
    """List what a process has started, with the command lines."""
    found = {}
    with suppress(psutil.Error):
        for child in psutil.Process(process).children(recursive=True):
            with suppress(psutil.Error):
                found[child] = " ".join(child.cmdline())
    return found


def test_names_that_a_library_does_not_have_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another version of Ray is slower to start, not broken."""
    library: Any = types.ModuleType("a_library")
    library.kept = "its own"
    monkeypatch.setitem(sys.modules, "a_library", library)
    with _replaced("a_library", kept="ours", gone="ours"):
        assert (library.kept, hasattr(library, "gone")) == ("ours", False)
    assert library.kept == "its own"
    for nowhere in ("no_library", "a_library:NoClass"):
        with _replaced(nowhere, kept="ours"):
            assert library.kept == "its own"
