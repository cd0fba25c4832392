"""What long prompts and long continuations cost, on the default model.

    python benchmarks/long.py [--tokens 1024 4096] [--rounds 9] [--output long.json]

Time and extra peak memory of explaining the last of many tokens, beside the plain forward pass and beside
what was estimated before, each once in a process of its own; and a continuation of 100 tokens explained,
beside its last token explained, interleaved.
"""

from collections.abc import Callable
from typing import Any

import torch

import whyword
from whyword.trace import Plan
from whyword.trace.memory_plan import Request, estimate

from measure import check, choose_clock, interleave, parse, publish, run_alone

METHODS = ("logit", "alti-logit")
PROMPT, CONTINUATION = 28, 100
MEMORY_BAR = {4096: 3.0}
CONTINUATION_BAR = 1.5
SUM_BAR = 1.2


def main() -> None:
    arguments = parse(__doc__, rounds=9, tokens=[1024, 4096])
    rows = [measure(length) for length in arguments.tokens]
    continued = interleave(make_continuation(), arguments.rounds, choose_clock())
    ratio = continued["continuation"] / continued["last token"]
    bars = [
        check(f"extra GB at {row['tokens']}", row["extra"]["alti-logit"], MEMORY_BAR[row["tokens"]])
        for row in rows
        if row["tokens"] in MEMORY_BAR
    ]
    bars.append(check("continuation of 100 tokens ÷ its last token, alti-logit", ratio, CONTINUATION_BAR))
    ratio = continued["sum of a continuation"] / continued["last token by flow"]
    bars.append(check("sum of 100 tokens ÷ the last token, flow", ratio, SUM_BAR))
    report = {"model": "SmolLM2-135M-Instruct", "long": rows, "continuation": continued, "bars": bars}
    publish(report, arguments.output)


def make_ids(model: whyword.Model, length: int) -> list[int]:
    torch.manual_seed(0)
    return torch.randint(100, model.vocabulary, (length,)).tolist()


def make_runs(length: int) -> dict[str, Callable[[], Any]]:
    model = whyword.load()
    ids = make_ids(model, length)

    @torch.no_grad()
    def forward() -> Any:
        return model.network(input_ids=torch.tensor([ids]), use_cache=False, logits_to_keep=1).logits

    runs: dict[str, Callable[[], Any]] = {"forward": forward}
    for method in METHODS:
        runs[method] = lambda method=method: whyword.explain(
            model, ids, target=1000, foil=2000, method=method
        )
    return runs


def measure(length: int) -> dict[str, Any]:
    alone = {name: run_alone(make_runs, name, length, times=1) for name in ("forward", *METHODS)}
    seconds = {name: found[0] for name, found in alone.items()}
    model = whyword.load()
    mixed = {"logit": 0, "alti-logit": len(model.blocks) - 1}
    return {
        "tokens": length,
        "seconds": seconds,
        "multiple": {method: seconds[method] / seconds["forward"] for method in METHODS},
        "extra": {method: alone[method][1] - alone["forward"][1] for method in METHODS},
        "estimated": {
            method: estimate(model, Request(1, length), Plan(mixed[method])) / 1e9 for method in METHODS
        },
    }


def make_continuation() -> dict[str, Callable[[], Any]]:
    """Give a continuation of 100 tokens explained, and its last token only."""
    model = whyword.load()
    ids = make_ids(model, PROMPT + CONTINUATION)

    def last(method: str) -> Any:
        return whyword.explain(model, ids[:-1], target=ids[-1], foil="auto", method=method)

    def continued(method: str) -> Any:
        return whyword.explain_continuation(model, ids[:PROMPT], ids[PROMPT:], foil="auto", method=method)

    return {
        "last token": lambda: last("alti-logit"),
        "continuation": lambda: continued("alti-logit"),
        "last token by flow": lambda: last("flow"),
        "sum of a continuation": lambda: continued("flow").sum(),
    }


if __name__ == "__main__":
    main()
