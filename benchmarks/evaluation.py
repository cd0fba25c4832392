"""What an evaluation costs, on the default model.

    python benchmarks/evaluation.py --data FOLDER [--rows 200] [--rounds 1] [--cpu] [--output evaluation.json]

The first rows of each BLiMP paradigm and of IOI: whole evaluations (`whyword evaluate`, tables included) by
flow and all methods of the paper's table, and by logit with alti-logit, beside plain forward passes over the
same prefixes in batches of similar length (no cache, logits at the last position).
"""

import tempfile
from collections.abc import Callable
from typing import Any

import whyword
from many import BATCH, run
from whyword.attribute.methods import PUBLISHED
from whyword.data import read_datasets
from whyword.evaluation.conventions import CONVENTIONS, prepare

from measure import check, choose_clock, interleave, parse, publish

NAMES = ("blimp", "ioi")
BARS = {"flow and paper's table ÷ batched forward": 6.0, "logit with alti-logit ÷ batched forward": 2.0}


def main() -> None:
    arguments = parse(__doc__, rounds=1, rows=[200], data=None)
    if arguments.data is None:
        raise SystemExit("--data is missing: give the folder with the datasets.")
    rows = arguments.rows[0]
    medians = interleave(make_runs(str(arguments.data), rows), arguments.rounds, choose_clock())
    values = {
        "flow and paper's table ÷ batched forward": medians["flow and paper's table"]
        / medians["forward, batched"],
        "logit with alti-logit ÷ batched forward": medians["logit with alti-logit"]
        / medians["forward, batched"],
    }
    report = {
        "model": "SmolLM2-135M-Instruct",
        "rows of each dataset": rows,
        "rounds": arguments.rounds,
        "seconds": medians,
        "bars": [check(what, value, BARS[what]) for what, value in values.items()],
    }
    publish(report, arguments.output)


def make_runs(data: str, rows: int) -> dict[str, Callable[[], Any]]:
    model = whyword.load()
    datasets = [dataset.first(rows) for dataset in read_datasets(NAMES, data)]
    used = [each for dataset in datasets for each in prepare(model, dataset, CONVENTIONS["ours"])[0]]
    by_length = sorted((each.context.ids for each in used), key=len)
    batches = [by_length[start : start + BATCH] for start in range(0, len(by_length), BATCH)]

    def evaluate(methods: str | list[str]) -> None:
        with tempfile.TemporaryDirectory() as out:
            whyword.evaluate(model, NAMES, out, data=data, methods=methods, limit=rows, faithfulness=None)

    return {
        "forward, batched": lambda: [run(model, batch) for batch in batches],
        "logit with alti-logit": lambda: evaluate(["logit", "alti-logit"]),
        "flow and paper's table": lambda: evaluate(["flow", *PUBLISHED]),
    }


if __name__ == "__main__":
    main()
