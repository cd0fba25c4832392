"""Runs of evaluations with made-up numbers, of any size: for tables and figures."""

from typing import Any

import numpy as np

from whyword.evaluation.panels import Run
from whyword.evaluation.records import Record
from whyword.evaluation.report import summarise

NAMES = (
    "aga",
    "ana",
    "asp",
    "dna",
    "dnai",
    "dnaa",
    "dnaai",
    "npi",
    "darn",
    "sva-1",
    "sva-2",
    "sva-3",
    "sva-4",
    "ioi",
)
METHODS = ("flow", "logit", "alti-logit", "erasure", "gradient-norm", "gradient-x-input", "attention-rollout")


def make_run(model: str, blocks: int = 18, seed: int = 0, prefix: str = "") -> Run:
    """Make a run of all published datasets, with six examples of each."""
    from whyword.data.dataset_names import PUBLISHED

    draw = np.random.default_rng(seed)
    known = {f"{prefix}{name}": PUBLISHED[name] for name in NAMES}
    settings: dict[str, Any] = {
        "model": model,
        "weights": "0123456789abcdef",
        "dtype": "float32",
        "datasets": {
            name: {"title": about.title, "group": about.group, "hash": f"{place:08x}"}
            for place, (name, about) in enumerate(known.items())
        },
        "limit": None,
        "methods": list(METHODS),
        "conventions": "ours",
        "evidence": "word",
        "faithfulness": None,
        "seed": 0,
        "versions": {"whyword": "0", "torch": "2"},
    }
    records = [
        Record(
            dataset=name,
            row=row,
            tokens=6,
            evidence=(2,),
            left_out=(),
            difference=float(draw.normal(1, 2)),
            attention=tuple(draw.normal(size=blocks).tolist()),
            mlp=tuple(draw.normal(size=blocks).tolist()),
            scores={method: tuple(draw.normal(size=6).tolist()) for method in METHODS},
            rank_by_block={m: tuple(draw.random(blocks).tolist()) for m in ("logit", "alti-logit")},
        )
        for name in known
        for row in range(6)
    ]
    report = summarise(settings, records, [])
    return Run(report, {name: [each for each in records if each.dataset == name] for name in known})
