"""Write docs/sweep.md: `python docs/generate_sweep.py [FILE]`.

Runs `whyword doctor --sweep --json`, or reads what it printed before from a file.
"""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

PAGE = Path(__file__).with_name("sweep.md")
OUTCOMES = ("explained", "refused", "wrong", "traceback")
FUNCTIONS = ("logit", "alti-logit", "flow", "batch", "continuation", "neurons", "baselines")
INTRODUCTION = """# Every model type

`make sweep` checks every causal model type of the installed transformers, not only the catalogued ones. It
makes up to {networks} small networks of each type in float64, all parameters randomised: one with the choices
of its config class, the others with switches, factors and position encodings drawn at random. Prompts have
lengths on both sides of every threshold in the config. Every public function is compared with runs that
nothing touches: explanations by `logit`, `alti-logit` and `flow`, batches, continuations, neurons and the
baselines. What heads add is recomputed from plain hooks, the weights that eager attention returns and the
values in the model's cache.

A type is *explained* if every number agrees within 1e-4 of the largest logit (in practice 1e-6: networks
round to float32 inside), *refused* if whyword says why it cannot explain it, *wrong* if a number was shown
that is not the model's own, *traceback* if anything else was raised.

**transformers {version}: {total} model types, {counts}.**

| model type | outcome | described as, or why not |
|---|---|---|
"""


def main() -> int:
    """Run the command, or read its output, and write the page."""
    if len(sys.argv) > 1:
        printed = Path(sys.argv[1]).read_text(encoding="utf-8")
    else:
        command = [sys.executable, "-m", "whyword", "doctor", "--sweep", "--json"]
        printed = subprocess.run(command, stdout=subprocess.PIPE, text=True).stdout
    report = json.loads(printed)
    PAGE.write_text(write_page(report), encoding="utf-8")
    return int(any(each["outcome"] in ("wrong", "traceback") for each in report["types"]))


def write_page(report: dict[str, Any]) -> str:
    """Write the page for what the command printed."""
    found = report["types"]
    counted = Counter(each["outcome"] for each in found)
    head = INTRODUCTION.format(
        networks=report["seeds"],
        version=report["transformers"],
        total=len(found),
        counts=", ".join(f"{counted[name]} {name}" for name in OUTCOMES),
    )
    return head + "".join(
        f"| `{each['model_type']}` | {each['outcome']} | {describe(each)} |\n" for each in found
    )


def describe(outcome: dict[str, Any]) -> str:
    """Say in one cell how a type is described, and which functions refuse it, or why it is refused."""
    if outcome["outcome"] != "explained":
        return shorten(outcome["reason"])
    some = f" ({outcome['declined']} of {outcome['declined'] + outcome['networks']} configs refused)"
    refused = [f"{name}: {shorten(why)}" for name, why in outcome["refused"].items()]
    told = f"`{outcome['description']}`{some if outcome['declined'] else ''}"
    return f"{told}; but not {'; '.join(refused)}" if refused else told


def shorten(reason: str) -> str:
    """Give a reason without what its row says anyway."""
    _, _, inner = reason.partition("the general description does not fit it: ")
    return (inner or reason).replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    sys.exit(main())
