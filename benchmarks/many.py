"""What explaining many short prompts costs, on the default model.

    python benchmarks/many.py --data FOLDER [--rounds 3] [--output many.json]

500 prefixes of BLiMP (`one_prefix_prefix` of the .csv files in the folder, drawn with a fixed seed; pairs of
which one word begins the other are left out), each with its good and its bad word: batched explanations
compared with plain forward passes over the same tokens, the start of text among them, in batches of similar
length, and with ones run one by one (no cache, logits at the last position).
"""

import csv
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import whyword

from measure import check, choose_clock, interleave, parse, publish

PROMPTS = 500
BATCH = 64
BARS = {
    "batched flow ÷ batched forward": 2.4,
    "batched alti-logit ÷ batched forward": 1.6,
    "batched alti-logit ÷ forward one by one": 0.5,
}


def main() -> None:
    arguments = parse(__doc__, rounds=3, data=None)
    if arguments.data is None:
        raise SystemExit("--data is missing: give the folder with BLiMP's .csv files.")
    rows = read(arguments.data)
    medians = interleave(make_runs(rows), arguments.rounds, choose_clock())
    values = {
        "batched flow ÷ batched forward": medians["flow"] / medians["forward, batched"],
        "batched alti-logit ÷ batched forward": medians["alti-logit"] / medians["forward, batched"],
        "batched alti-logit ÷ forward one by one": medians["alti-logit"] / medians["forward, one by one"],
    }
    report = {
        "model": "SmolLM2-135M-Instruct",
        "prompts": len(rows),
        "rounds": arguments.rounds,
        "seconds": medians,
        "prompts per second": {name: len(rows) / seconds for name, seconds in medians.items()},
        "bars": [check(what, value, BARS[what]) for what, value in values.items()],
    }
    publish(report, arguments.output)


def read(folder: Path) -> list[tuple[str, str, str]]:
    """Give prefixes with a good and a bad word."""
    rows = []
    for path in sorted(folder.glob("*.csv")):
        with path.open(encoding="utf-8") as file:
            for row in csv.DictReader(file):
                good, bad = row["one_prefix_word_good"], row["one_prefix_word_bad"]
                if not good.startswith(bad) and not bad.startswith(good):
                    rows.append((row["one_prefix_prefix"], good, bad))
    return random.Random(0).sample(rows, PROMPTS)


def make_runs(rows: list[tuple[str, str, str]]) -> dict[str, Callable[[], Any]]:
    model = whyword.load()
    prompts, good, bad = (list(column) for column in zip(*rows, strict=True))
    by_length = sorted((whyword.tokenize(model, prompt).ids for prompt in prompts), key=len)
    batches = [by_length[start : start + BATCH] for start in range(0, len(by_length), BATCH)]

    def explain(method: str) -> None:
        assert all(whyword.explain_batch(model, prompts, targets=good, foils=bad, method=method))

    return {
        "forward, batched": lambda: [run(model, batch) for batch in batches],
        "forward, one by one": lambda: [run(model, [ids]) for ids in by_length],
        "flow": lambda: explain("flow"),
        "logit": lambda: explain("logit"),
        "alti-logit": lambda: explain("alti-logit"),
    }


@torch.no_grad()
def run(model: whyword.Model, batch: list[list[int]]) -> Any:
    """Run the network on prompts of similar length, with the same padding."""
    longest = max(map(len, batch))
    ids = torch.tensor([[*ids, *[ids[-1]] * (longest - len(ids))] for ids in batch])
    return model.network(input_ids=ids, use_cache=False, logits_to_keep=1).logits


if __name__ == "__main__":
    main()
