"""The page docs/compared.md and its plot, from the file of results."""

from pathlib import Path
from typing import Any

from compared.answers import (
    GROUPS,
    NETWORKS,
    PACKAGES,
    TITLES,
    Results,
    find_cost,
    list_lengths,
    list_methods,
)
from compared.lines import count_method
from compared.markdown import write_table
from compared.plot import draw
from compared.sections import describe_better, describe_documents, describe_rows, show_ranks

__all__ = ["EXACT", "measure_error", "render_page", "show_multiple", "write_page"]

EXACT = 1e-3
"""The relative error up to which scores add up."""
INTRODUCTION = """# Beside other tools

<!-- Made by `python benchmarks/peers.py --write docs/compared.md`: do not edit. -->

What an explanation costs, whether its scores add up, and how often they point at the word that decides:
whyword beside tools that people use, each in an environment and a process of its own. All read the same
networks, token ids, target and foil. Cost is the CPU time of one thread, as a multiple of a plain forward
pass of transformers in the same process, measured in turns with it (medians). The drivers
(`benchmarks/compared/with_NAME.py`) are what a user of each tool would write.

```sh
python benchmarks/peers.py                               # makes the environments, asks every tool; 25 minutes
python benchmarks/peers.py --only costs --at-once 1      # times and memory only, one process after the other
python benchmarks/peers.py inseq --methods attention     # asks one of them again
python benchmarks/peers.py --write docs/compared.md      # this page, from what was answered
```
"""
NOTES = """
- **Target and foil.** Captum and gim-explain explain one word at a time: they are asked twice and the scores
  are subtracted, which for log probabilities and logits is the same as explaining the difference. That
  doubles their cost.
- **Adds up**: the sum of all scores, and of what the tool itself says belongs to no token, beside the model's
  own logit difference; the largest relative error over lengths. Integrated gradients promise the difference
  to a baseline, occlusion and ablation promise no sum, attention weights are not in logits.
- A cell **> N** was given up after 50 s of CPU time. **not run (≈ N s)** was not begun: by the multiple of
  the next shorter prompt, a call would take more than half a minute of CPU time. **> N GB**: the process
  may not have more memory. **–** was not asked.
- **Rounds** are fewer where 16 s of CPU time were spent. The first call is not timed: at a new length,
  whyword's compares its recorded run with an untouched one, which takes a forward pass more. Of integrated
  gradients, occlusion and ablation, which run the network tens or hundreds of times, the first call counts.
- **Memory** is the peak of the process beyond that of the forward pass, without what a tool made at an
  earlier call and keeps (gradients of all weights, for instance).
- Direct logit attribution is whyword's `logit`, written by hand from each tool's activations. What it costs a
  user are the lines; nothing in it is checked against the model unless the user does so.
- LXT changes the modules of transformers when it is loaded, so its forward pass is the changed one.
"""


def write_page(results: Results, path: Path) -> None:
    """Write the page, and its plot beside it."""
    draw(results, path.with_suffix(".png"))
    path.write_text(render_page(results, path.with_suffix(".png").name))


def render_page(results: Results, plot: str) -> str:
    """Return the page as Markdown; `plot`: the name of the picture."""
    parts = [INTRODUCTION, _describe_run(results), "## In one table\n", _table(results)]
    parts += [f"![Cost by length: every tool and method as a line]({plot})\n"]
    for network in NETWORKS:
        parts += [f"## Cost and memory: {network}\n", _costs(results, network)]
    parts += ["## Scores that point at the evidence\n", describe_rows(results)]
    parts += ["## Which document\n", describe_documents(results)]
    parts += ["## Where a peer is better\n", describe_better(results)]
    parts += ["## How to read this\n", NOTES.lstrip("\n")]
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


def measure_error(found: Any) -> float | None:
    """Give the largest relative error of the sums over lengths."""
    errors = [
        abs(each["sum"] + each["rest"] - each["difference"]) / abs(each["difference"])
        for each in found.get("costs", ())
        if "sum" in each
    ]
    return max(errors, default=None)


def _describe_run(results: Results) -> str:
    dates = sorted({each["date"] for tool in results.values() for each in tool.values()})
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    named = []
    for tool, title in TITLES.items():
        versions = _find_versions(results.get(tool, {}))
        own = versions.get(PACKAGES.get(tool, tool))
        named.append(f"{title} {own or '?'} (transformers {versions.get('transformers', '?')})")
    torch = _find_versions(results.get("whyword", {})).get("torch", "?")
    said = f"Measured {when}, torch {torch}, one thread: {', '.join(named)}. {_describe_rounds(results)}"
    return said.rstrip() + "\n"


def _describe_rounds(results: Results) -> str:
    """Say how many rounds the medians are of, and how many processes ran at once."""
    methods = [found for network in NETWORKS for _, _, found in list_methods(results, "costs", network)]
    rounds = {cell["rounds"] for found in methods for cell in found.get("costs", ()) if "rounds" in cell}
    if not rounds:
        return ""
    counts = str(max(rounds)) if len(rounds) == 1 else f"{min(rounds)} to {max(rounds)}"
    answers = [tool.get("costs", {}).get(network, {}) for tool in results.values() for network in NETWORKS]
    at_once = max(each.get("at_once", 1) for each in answers)
    beside = (
        "one process after the other" if at_once == 1 else f"{at_once} processes at once, a core for each"
    )
    return f"Rounds of each cell: {counts}; {beside}."


def _find_versions(answers: Any) -> dict[str, str]:
    """Find the versions that a tool's process named, in any of its answers."""
    if isinstance(answers, dict):
        if "versions" in answers:
            return dict(answers["versions"])
        for each in answers.values():
            if found := _find_versions(each):
                return found
    return {}


def _table(results: Results) -> str:
    """Write what matters of every method in one row."""
    network, lengths = NETWORKS[0], list_lengths(results, NETWORKS[0])
    ranked = {(tool, method): found for tool, method, found in list_methods(results, "rows")}
    head = [
        "",
        *(f"÷ forward, {length:,} tokens" for length in lengths),
        "adds up",
        "MRR " + " / ".join(GROUPS),
    ]
    rows = []
    for tool, method, found in list_methods(results, "costs", network):
        cells = [show_multiple(find_cost(found, length)) for length in lengths]
        rows.append(
            [
                f"{TITLES[tool]}: {method}" if method else TITLES[tool],
                *cells,
                _adds_up(measure_error(found)),
                show_ranks(ranked.get((tool, method), {})),
                str(count_method(tool, method)) if method else found["failed"],
            ]
        )
    return write_table([*head, "lines of code"], rows)


def _costs(results: Results, network: str) -> str:
    lengths = list_lengths(results, network)
    head = [
        "",
        *(f"{length:,}" for length in lengths),
        *(f"GB, {length:,}" for length in lengths),
        "error of the sum",
    ]
    rows = []
    for tool, method, found in list_methods(results, "costs", network):
        cells = [find_cost(found, length) for length in lengths]
        memory = [
            "–" if each.get("extra_gb") is None else f"{max(0, each['extra_gb']):.2f}" for each in cells
        ]
        rows.append(
            [
                f"{TITLES[tool]}: {method}" if method else f"{TITLES[tool]}: {found['failed']}",
                *map(show_multiple, cells),
                *memory,
                _error(measure_error(found)),
            ]
        )
    return write_table(head, rows)


def show_multiple(cell: dict[str, Any]) -> str:
    """Write a cost, or why there is none."""
    if "multiple" in cell:
        return f"{cell['multiple']:.2f}" if cell["multiple"] < 20 else f"{cell['multiple']:.0f}"
    if "expected" in cell:
        return f"not run (≈ {cell['expected']:.0f} s)"
    return f"> {cell['least']:.0f}" if "least" in cell else cell.get("failed", "–")


def _error(error: float | None) -> str:
    return "–" if error is None else f"{error:.0e}" if error < 0.01 else f"{error:.0%}"


def _adds_up(error: float | None) -> str:
    return "–" if error is None else f"{'yes' if error < EXACT else 'no'}, {_error(error)}"
