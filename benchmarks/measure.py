"""What the benchmarks share: interleaved medians, peak memory in a process of its own, bars, reports."""

import argparse
import json
import multiprocessing
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
import transformers

from whyword.maths.kernel import implementation

THREADS = 2
Runs = Mapping[str, Callable[[], Any]]


def parse(description: str, **defaults: Any) -> argparse.Namespace:
    """Read the options: those of every benchmark, and some lists of numbers."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=defaults.pop("rounds"))
    parser.add_argument("--output", type=Path, help="write the report as JSON")
    parser.add_argument("--cpu", action="store_true", help="measure CPU time: for a busy machine")
    for name, default in defaults.items():
        if isinstance(default, list):
            parser.add_argument(f"--{name}", type=int, nargs="*", default=default)
        else:
            parser.add_argument(f"--{name}", type=Path, default=default)
    torch.set_num_threads(THREADS)
    return parser.parse_args()


def choose_clock() -> Callable[[], float]:
    """Choose seconds, or with --cpu the time that the processor spends."""
    return time.process_time if "--cpu" in sys.argv else time.perf_counter


def interleave(runs: Runs, rounds: int, clock: Callable[[], float] = time.perf_counter) -> dict[str, float]:
    """Give median seconds of each run; all take turns, so that what the machine does meanwhile hits all."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for count in range(rounds + 1):
        for name, run in runs.items():
            start = clock()
            run()
            if count > 0:  # the first round warms up
                seconds[name].append(clock() - start)
    return {name: statistics.median(times) for name, times in seconds.items()}


def run_alone(
    make_runs: Callable[..., Runs], name: str, *arguments: Any, times: int = 2
) -> tuple[float, float]:
    """Give seconds of the last of some runs, and the most memory in GB, in a process of its own (Linux)."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_run_alone, (make_runs, name, arguments, times))


def _run_alone(
    make_runs: Callable[..., Runs], name: str, arguments: tuple[Any, ...], times: int
) -> tuple[float, float]:
    torch.set_num_threads(THREADS)
    run = make_runs(*arguments)[name]
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts where the model is loaded
    for _ in range(times):
        start = time.perf_counter()
        run()
    status = Path("/proc/self/status").read_text()
    return time.perf_counter() - start, int(status.split("VmHWM:")[1].split()[0]) / 1e6


def check(what: str, value: float, bar: float) -> dict[str, Any]:
    """Compare what was measured with what we promise."""
    return {"what": what, "value": round(value, 3), "bar": bar, "met": value <= bar}


def publish(report: dict[str, Any], output: Path | None) -> None:
    """Print a report, and write it."""
    report = {
        "machine": platform.processor() or platform.machine(),
        "threads": torch.get_num_threads(),
        "kernel": implementation(),
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        **report,
    }
    text = json.dumps(report, indent=2, ensure_ascii=False)
    print(text)
    if output is not None:
        output.write_text(text + "\n")
