"""How time and memory grow with the prompt, and with the number of prompts, on the default model.

    python benchmarks/growth.py [--tokens 32 128 512 2048 8192] [--prompts 1 4 16 64] [--rounds 3]
                                [--output growth.json] [--plot growth.png] [--cpu]

Of random tokens: the plain forward pass (no cache, logits at the last position), one gradient at the
embeddings (forward + backward), and explanations by logit, alti-logit and flow, in turns in one process.
Memory is the peak beyond what was held before, with unused memory given back first (Linux). Beyond 1,024
tokens each is run once. Of several prompts, each has 32 tokens: `explain_batch`, beside one forward pass over
all of them.
"""

import gc
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import whyword
from whyword.trace.heap_holes import give_back_holes

from measure import choose_clock, parse, publish

METHODS = ("logit", "alti-logit", "flow")
NAMES = ("forward", "forward + backward", *METHODS)
COLOURS = {
    "forward": "black",
    "forward + backward": "0.5",
    "flow": "tab:red",
    "logit": "tab:green",
    "alti-logit": "tab:blue",
}
TARGET, FOIL = 1000, 2000
PROMPT = 32
ONCE = 1024
"""Tokens beyond which everything is run once: there the first run is no slower than others."""
GRADIENT = 2048
"""Tokens up to which a gradient is computed: it keeps all activations."""


def main() -> None:
    arguments = parse(__doc__, rounds=3, tokens=[32, 128, 512, 2048, 8192], prompts=[1, 4, 16, 64], plot=None)
    model = whyword.load(
        verify="load"
    )  # so that no comparison with an untouched run is among what is measured
    model.network.requires_grad_(False)
    report = {
        "model": "SmolLM2-135M-Instruct",
        "by tokens": [measure(model, 1, length, arguments.rounds) for length in arguments.tokens],
        "by prompts": [measure(model, count, PROMPT, arguments.rounds) for count in arguments.prompts],
    }
    publish(report, arguments.output)
    if arguments.plot is not None:
        draw(report, arguments.plot)


def measure(model: whyword.Model, prompts: int, length: int, rounds: int) -> dict[str, Any]:
    """Give median seconds and the largest peak memory of everything, at one size."""
    runs, once = make_runs(model, prompts, length), prompts * length > ONCE
    names = [name for name in NAMES if name != "forward + backward" or length <= GRADIENT]
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    for count in range(1 if once else rounds + 1):
        for name in names:
            measured = measure_once(runs[name])
            if once or count > 0:  # the first round warms up
                found[name].append(measured)
    seconds = {name: statistics.median(time for time, _ in each) for name, each in found.items()}
    return {
        "prompts": prompts,
        "tokens": length,
        "seconds": seconds,
        "multiple": {name: time / seconds["forward"] for name, time in seconds.items()},
        "gigabytes": {name: max(memory for _, memory in each) for name, each in found.items()},
    }


def measure_once(run: Callable[[], Any]) -> tuple[float, float]:
    """Give seconds, and the peak of memory in GB beyond what was held before."""
    clock = choose_clock()
    gc.collect()
    give_back_holes()
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts anew
    before, start = read_memory("VmRSS:"), clock()
    run()
    return clock() - start, read_memory("VmHWM:") - before


def read_memory(field: str) -> float:
    return int(Path("/proc/self/status").read_text().split(field)[1].split()[0]) / 1e6


def make_runs(model: whyword.Model, prompts: int, length: int) -> dict[str, Callable[[], Any]]:
    """Give all that is measured, on the same random tokens."""
    network = model.network
    torch.manual_seed(0)
    ids = torch.randint(100, model.vocabulary, (prompts, length))

    @torch.no_grad()
    def forward() -> Any:
        return network(input_ids=ids, use_cache=False, logits_to_keep=1).logits

    def backward() -> Any:
        embeddings = network.get_input_embeddings()(ids).requires_grad_(True)
        logits = network(inputs_embeds=embeddings, use_cache=False, logits_to_keep=1).logits[:, -1]
        return torch.autograd.grad((logits[:, TARGET] - logits[:, FOIL]).sum(), embeddings)

    def explain(method: str) -> Any:
        asked: dict[str, Any] = {"method": method}
        if prompts == 1:
            return whyword.explain(model, ids[0].tolist(), target=TARGET, foil=FOIL, **asked)
        return [*whyword.explain_batch(model, ids.tolist(), targets=TARGET, foils=FOIL, **asked)]

    runs: dict[str, Callable[[], Any]] = {"forward": forward, "forward + backward": backward}
    for method in METHODS:
        runs[method] = lambda method=method: explain(method)
    return runs


def draw(report: dict[str, Any], path: Path) -> None:
    """Draw seconds and memory by tokens and by prompts."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(2, 2, figsize=(11, 7.5), layout="constrained")
    for column, key in enumerate(("tokens", "prompts")):
        rows = report[f"by {key}"]
        sizes = [row[key] for row in rows]
        for line, (what, title) in enumerate((("seconds", "seconds"), ("gigabytes", "peak memory, GB"))):
            axes = panels[line, column]
            for name in NAMES:
                seen = [(row[key], row[what][name]) for row in rows if name in row[what]]
                axes.plot(*zip(*seen, strict=True), marker="o", color=COLOURS[name], label=name)
            axes.set_xscale("log", base=2)
            axes.set_yscale("log" if what == "seconds" else "linear")
            axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
            axes.set_xlabel(key if key == "tokens" else f"prompts of {PROMPT} tokens")
            axes.set_title(title)
            axes.grid(alpha=0.3)
    panels[0, 0].legend(frameon=False)
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    main()
