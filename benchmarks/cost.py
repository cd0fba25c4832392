"""What an explanation costs beside the prediction itself.

    python benchmarks/cost.py [--lengths 128 512] [--rounds 9] [--output cost.json]

A random-weight GPT-2 small, 2 threads. The plain forward pass is the model as transformers loads it: its
default attention (sdpa), no cache, logits at the last position only. Runs are interleaved and medians are
compared, in one process; peak memory is measured in a process of its own for each kind of run (Linux).
"""

import argparse
import json
import multiprocessing
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers

import whyword

METHODS = ("logit", "alti-logit")
BARS = {("logit", 128): 1.15, ("logit", 512): 1.15, ("alti-logit", 128): 1.5, ("alti-logit", 512): 2.6}
MEMORY_BAR = 0.5


def main() -> None:
    arguments = parse()
    torch.set_num_threads(2)
    report: dict[str, Any] = {
        "model": "GPT-2 small, random weights",
        "threads": torch.get_num_threads(),
        "machine": platform.processor() or platform.machine(),
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        "rounds": arguments.rounds,
        "time": [measure_time(length, arguments.rounds) for length in arguments.lengths],
        "memory": [measure_memory(length) for length in arguments.lengths],
    }
    report["bars"] = check_bars(report)
    text = json.dumps(report, indent=2)
    print(text)
    if arguments.output is not None:
        arguments.output.write_text(text + "\n")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lengths", type=int, nargs="+", default=[128, 512])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--output", type=Path)
    return parser.parse_args()


def make_runs(length: int) -> dict[str, Callable[[], Any]]:
    """Give the plain forward pass and an explanation by each method, on the same prompt."""
    torch.manual_seed(0)
    network = transformers.GPT2LMHeadModel(transformers.GPT2Config()).eval()
    ids = torch.randint(0, network.config.vocab_size, (length,))
    model, prompt = whyword.load(network), ids.tolist()

    @torch.no_grad()
    def forward() -> Any:
        return network(input_ids=ids[None], use_cache=False, logits_to_keep=1).logits

    runs: dict[str, Callable[[], Any]] = {"forward": forward}
    for method in METHODS:
        runs[method] = lambda method=method: whyword.explain(model, prompt, target=7, foil=12, method=method)
    return runs


def measure_time(length: int, rounds: int) -> dict[str, Any]:
    """Give median seconds and multiples of the forward pass, runs interleaved."""
    runs = make_runs(length)
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for count in range(rounds + 1):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            if count > 0:  # the first round warms up
                seconds[name].append(time.perf_counter() - start)
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    return {
        "tokens": length,
        "seconds": medians,
        "multiple": {method: medians[method] / medians["forward"] for method in METHODS},
    }


def measure_memory(length: int) -> dict[str, Any]:
    """Give the peak memory of each kind of run over that of the forward pass, in GB."""
    context = multiprocessing.get_context("spawn")
    peaks = {}
    for name in ("forward", *METHODS):
        with context.Pool(1) as pool:
            peaks[name] = pool.apply(peak_memory, (name, length))
    return {"tokens": length, "extra": {method: peaks[method] - peaks["forward"] for method in METHODS}}


def peak_memory(name: str, length: int) -> float:
    """Give the most memory that a run holds, in GB: the high-water mark, reset after the model is there."""
    torch.set_num_threads(2)
    run = make_runs(length)[name]
    Path("/proc/self/clear_refs").write_text("5")
    for _ in range(2):
        run()
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1e6


def check_bars(report: dict[str, Any]) -> list[dict[str, Any]]:
    """Compare what was measured with what we promise."""
    found = [
        {"what": f"{method} ÷ forward at {row['tokens']}", "value": row["multiple"][method], "bar": bar}
        for row in report["time"]
        for (method, tokens), bar in BARS.items()
        if tokens == row["tokens"]
    ]
    found += [
        {"what": f"extra GB of {method} at {row['tokens']}", "value": row["extra"][method], "bar": MEMORY_BAR}
        for row in report["memory"]
        for method in METHODS
        if row["tokens"] == 512
    ]
    return [{**bar, "met": bar["value"] <= bar["bar"]} for bar in found]


if __name__ == "__main__":
    main()
