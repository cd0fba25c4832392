"""What an explanation costs beside the prediction itself, by length.

    python benchmarks/cost.py [--lengths 32 128 512 1024 2048] [--memory 128 512 1024] [--rounds 9]
                              [--output cost.json] [--plot cost.png] [--other FILE] [--cpu]

A random-weight GPT-2 small (beyond 1,024 tokens: a Llama of the same shape), 2 threads. The plain forward
pass is the model as transformers loads it: its default attention (sdpa), no cache, logits at the last
position only. Forward + backward is one gradient of the same logit difference with respect to the input
embeddings, weights frozen. Runs are interleaved and medians are compared, in one process; `--cpu` measures
CPU time instead of seconds, on a machine that is busy with other work.

`--other FILE` compares with another implementation: a Python file that defines
`explain(network, ids, target, foil)`. Without it there is no comparison.
"""

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers

import whyword
from whyword.maths.kernel import implementation

from measure import check, choose_clock, interleave, parse, publish, run_alone

METHODS = ("flow", "logit", "alti-logit")
TARGET, FOIL = 7, 12
LONGEST_GPT2 = 1024
BARS = {
    ("flow", 128): 2.0,
    ("flow", 512): 2.0,
    ("flow", 1024): 2.3,
    ("logit", 128): 1.05,
    ("logit", 512): 1.05,
    ("logit", 1024): 1.05,
    ("alti-logit", 32): 1.25,
    ("alti-logit", 128): 1.2,
    ("alti-logit", 512): 1.45,
    ("alti-logit", 1024): 1.7,
    ("alti-logit", 2048): 2.2,
}
MEMORY_BAR = {1024: 0.4}
COLOURS = {
    "forward + backward": "0.5",
    "flow": "tab:red",
    "logit": "tab:green",
    "alti-logit": "tab:blue",
    "torch": "tab:orange",
}


def main() -> None:
    arguments = parse(
        __doc__, rounds=9, lengths=[32, 128, 512, 1024, 2048], memory=[128, 512, 1024], plot=None, other=None
    )
    time = [measure_time(length, arguments.rounds, arguments.other) for length in arguments.lengths]
    memory = [measure_memory(length) for length in arguments.memory]
    report = {
        "model": "GPT-2 small; Llama of the same shape beyond 1,024 tokens; random weights",
        "rounds": arguments.rounds,
        "time": time,
        "memory": memory,
        "bars": check_bars(time, memory),
    }
    publish(report, arguments.output)
    if arguments.plot is not None:
        draw(report, arguments.plot)


def make_network(length: int) -> Any:
    torch.manual_seed(0)
    if length <= LONGEST_GPT2:
        return transformers.GPT2LMHeadModel(transformers.GPT2Config()).eval()
    sizes = {
        "hidden_size": 768,
        "intermediate_size": 3072,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
    }
    config = transformers.LlamaConfig(**sizes, vocab_size=50257, max_position_embeddings=length)
    return transformers.LlamaForCausalLM(config).eval()


def make_runs(length: int, other: Path | None = None) -> dict[str, Callable[[], Any]]:
    """Give the plain forward pass, one gradient, and an explanation by each method, on the same prompt."""
    network = make_network(length).requires_grad_(False)
    ids = torch.randint(0, network.config.vocab_size, (length,))
    model, prompt = whyword.load(network), ids.tolist()

    @torch.no_grad()
    def forward() -> Any:
        return network(input_ids=ids[None], use_cache=False, logits_to_keep=1).logits

    def backward() -> Any:
        embeddings = network.get_input_embeddings()(ids[None]).requires_grad_(True)
        logits = network(inputs_embeds=embeddings, use_cache=False, logits_to_keep=1).logits[0, -1]
        return torch.autograd.grad(logits[TARGET] - logits[FOIL], embeddings)

    runs: dict[str, Callable[[], Any]] = {"forward": forward, "forward + backward": backward}
    for method in METHODS:
        runs[method] = lambda method=method: explain(model, prompt, method)
    if implementation() != "torch":
        runs["alti-logit, torch kernel"] = lambda: with_torch_kernel(
            lambda: explain(model, prompt, "alti-logit")
        )
    if other is not None:
        foreign = load_other(other)
        runs["other"] = lambda: foreign(network, prompt, TARGET, FOIL)
    return runs


def explain(model: whyword.Model, prompt: list[int], method: str) -> whyword.Explanation:
    return whyword.explain(model, prompt, target=TARGET, foil=FOIL, method=method)


def with_torch_kernel(run: Callable[[], Any]) -> Any:
    os.environ["WHYWORD_KERNEL"] = "torch"
    try:
        return run()
    finally:
        del os.environ["WHYWORD_KERNEL"]


def load_other(path: Path) -> Callable[..., Any]:
    """Load another implementation from a Python file."""
    spec = importlib.util.spec_from_file_location("other", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.explain


def measure_time(length: int, rounds: int, other: Path | None) -> dict[str, Any]:
    """Give median seconds and multiples of the forward pass."""
    medians = interleave(make_runs(length, other), rounds, choose_clock())
    multiples = {name: seconds / medians["forward"] for name, seconds in medians.items() if name != "forward"}
    return {"tokens": length, "seconds": medians, "multiple": multiples}


def measure_memory(length: int) -> dict[str, Any]:
    """Give the peak memory of each kind of run over that of the forward pass, in GB."""
    _, plain = run_alone(make_runs, "forward", length)
    names = ("forward + backward", *METHODS)
    return {
        "tokens": length,
        "extra": {name: run_alone(make_runs, name, length)[1] - plain for name in names},
    }


def check_bars(time: list[dict[str, Any]], memory: list[dict[str, Any]]) -> list[dict[str, Any]]:
    bars = [
        check(f"{method} ÷ forward at {row['tokens']}", row["multiple"][method], bar)
        for row in time
        for (method, tokens), bar in BARS.items()
        if tokens == row["tokens"]
    ]
    bars += [
        check(
            f"{method} ÷ (forward + backward) at {row['tokens']}",
            row["multiple"][method] / row["multiple"]["forward + backward"],
            1.0,
        )
        for row in time
        for method, lengths in (("alti-logit", (512, 2048)), ("flow", (128, 512, 1024)))
        if row["tokens"] in lengths
    ]
    bars += [
        check(f"extra GB of {method} at {row['tokens']}", row["extra"][method], MEMORY_BAR[row["tokens"]])
        for row in memory
        for method in METHODS
        if row["tokens"] in MEMORY_BAR
    ]
    return bars


def draw(report: dict[str, Any], path: Path) -> None:
    """Draw time as multiples of the forward pass, and extra memory, by length."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    for axes, rows, key in ((left, report["time"], "multiple"), (right, report["memory"], "extra")):
        for name in rows[0][key] if rows else ():
            dashed = name.endswith("torch kernel")
            axes.plot(
                [row["tokens"] for row in rows],
                [row[key][name] for row in rows],
                marker="o",
                linestyle="--" if dashed else "-",
                color=COLOURS.get("torch" if dashed else name),
                label=name,
            )
        axes.set_xscale("log", base=2)
        axes.set_xticks([row["tokens"] for row in rows], [f"{row['tokens']:,}" for row in rows])
        axes.set_xlabel("tokens")
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)
    left.axhline(1, color="black", linewidth=1)
    left.set_ylim(bottom=0)
    left.set_title("time, forward pass = 1")
    right.set_title("extra peak memory, GB")
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    main()
