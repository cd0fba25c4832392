"""A Ray that a run starts for itself: no process that it does not need."""

import subprocess
import sys
import time
import types
from importlib.util import find_spec
from pathlib import Path

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
    """None that keeps statistics, gathers logs, asks for nodes or only reads; and its own needs no torch."""
    rows = [{"prompt": PROMPTS[number % 4] + " the" * (number % 5)} for number in range(24)]
    source = write_rows(tmp_path / "rows.jsonl", rows)
    whole = tmp_path / "whole"
    options = ["--methods", "flow,logit", "--shard-rows", "4", "--start", "tokenizer", "--engine", "ray"]
    command = ["run", str(source), "--out", str(tmp_path / "out"), "-m", str(tiny_folder), *options]
    running = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *command, "--workers", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    seen = set[str]()
    while running.poll() is None:
        seen |= _list_children(running.pid)
        time.sleep(0.1)
    said, wrong = running.communicate()
    assert running.returncode == 0, wrong
    assert said.splitlines()[-1] == "imported []"
    assert not [name for name in seen if any(helper in name for helper in HELPERS)]
    assert any("MapWorker" in name for name in seen), seen
    whyword.run(str(tiny_folder), source, whole, methods=["flow", "logit"], shard_rows=4, start="tokenizer")
    assert read_shards(tmp_path / "out") == read_shards(whole)


def _list_children(process: int) -> set[str]:
    """List the command lines of what a process has started."""
    found = set()
    try:
        for child in psutil.Process(process).children(recursive=True):
            try:
                found.add(" ".join(child.cmdline()))
            except psutil.Error:
                continue
    except psutil.Error:
        pass
    return found


def test_names_that_a_library_does_not_have_are_left() -> None:
    """Another version of Ray is slower to start, not broken."""
    library = types.SimpleNamespace(kept="its own")
    with _replaced(library, kept="ours", gone="ours"):
        assert vars(library) == {"kept": "ours"}
    assert vars(library) == {"kept": "its own"}
