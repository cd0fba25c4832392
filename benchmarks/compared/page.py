"""The page docs/compared.md and its plot, from the file of results."""

import ast
import math
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
from compared.lines import count_lines
from compared.plot import draw

__all__ = ["render_page", "write_page"]

HERE = Path(__file__).parent
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
python benchmarks/peers.py                               # makes the environments, asks every tool
python benchmarks/peers.py --only costs                  # times and memory only: on a quiet machine
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
- A cell **≥ N** was not run to its end: it would have taken more than 40 s of CPU time. **–** was not asked.
- **Memory** is the peak of the process beyond that of the forward pass.
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
    parts += ["## Scores that point at the evidence\n", _rows(results)]
    parts += ["## Which document\n", _documents(results)]
    parts += ["## Where a peer is better\n", _better(results)]
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
    return f"Measured {when}, torch {torch}, one thread: {', '.join(named)}.\n"


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
        cells = [_multiple(find_cost(found, length)) for length in lengths]
        rows.append(
            [
                f"{TITLES[tool]}: {method}" if method else TITLES[tool],
                *cells,
                _adds_up(measure_error(found)),
                _mean_ranks(ranked.get((tool, method), {})),
                str(_lines(tool, method)) if method else found["failed"],
            ]
        )
    return _markdown([*head, "lines of code"], rows)


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
            [f"{TITLES[tool]}: {method}", *map(_multiple, cells), *memory, _error(measure_error(found))]
        )
    return _markdown(head, rows)


def _rows(results: Results) -> str:
    ranked = list_methods(results, "rows")
    if not ranked:
        return "Not measured yet.\n"
    counts = next((each["mrr"] for _, _, each in ranked if "mrr" in each), {})
    said = ", ".join(f"{counts[group]['n']} rows of {group}" for group in GROUPS if group in counts)
    text = (
        f"MRR of the deciding word on the first rows of every dataset ({said}), by [our conventions]"
        "(evaluation.md#conventions) and with the same start of text, on the default model. Means of so "
        "few rows are uncertain, and decide nothing between methods: [the evaluation](evaluation.md) has "
        "more.\n\n"
    )
    chance = next(
        (tool["rows"]["random"] for tool in results.values() if "random" in tool.get("rows", {})), {}
    )
    rows = [[f"{TITLES[tool]}: {method}", *_ranks(found), _unused(found)] for tool, method, found in ranked]
    rows.append(["random scores", *_ranks({"mrr": chance}), ""])
    return text + _markdown(["", *GROUPS, "rows without scores"], rows)


def _documents(results: Results) -> str:
    rows, count = [], 0
    for tool, method, found in list_methods(results, "documents"):
        asked = [each for each in found.get("questions", ()) if "multiple" in each]
        if not asked:
            reason = next((each["failed"] for each in found.get("questions", ()) if "failed" in each), None)
            rows += [[f"{TITLES[tool]}: {method}", "–", reason or found.get("failed", "–"), "–"]]
            continue
        count = len(asked)
        costs = sorted(each["multiple"] for each in asked)
        answered = [each["right"] for each in asked if each.get("answered")]
        right = f"{sum(answered)} of {len(answered)}" if answered else "no answer was right"
        lines = str(_lines(tool, method, "CITING"))
        rows.append([f"{TITLES[tool]}: {method}", right, f"{costs[len(costs) // 2]:.1f}", lines])
    if not rows:
        return "Not measured yet.\n"
    text = (
        f"{count} questions about three short documents (invented facts), answered by the model itself in at "
        "most 12 tokens: how often, where it answered right, the document that holds the answer has the "
        "highest score; and the cost "
        "with the generation of the answer, as a multiple of one forward pass over the prompt.\n\n"
    )
    return text + _markdown(["", "right document first", "÷ forward", "lines of code"], rows)


def _better(results: Results) -> str:
    """List where a peer beats the best of ours, as the figures say."""
    said = []
    for network in NETWORKS:
        for length in list_lengths(results, network):
            costs = {
                (tool, method): find_cost(found, length)["multiple"]
                for tool, method, found in list_methods(results, "costs", network)
                if "multiple" in find_cost(found, length)
            }
            for ours in ("logit", "flow"):
                if ("whyword", ours) not in costs:
                    continue
                cheaper = [
                    f"{TITLES[tool]}’s {method} ({cost:.2f})"
                    for (tool, method), cost in costs.items()
                    if tool != "whyword" and cost < costs["whyword", ours]
                ]
                if cheaper:
                    said.append(
                        f"- {network}, {length:,} tokens: cheaper than `{ours}` "
                        f"({costs['whyword', ours]:.2f}) is {', '.join(cheaper)}."
                    )
    ranked = {(tool, method): found.get("mrr", {}) for tool, method, found in list_methods(results, "rows")}
    for group in GROUPS:
        means = {key: mrr[group]["mean"] for key, mrr in ranked.items() if group in mrr and mrr[group]["n"]}
        ours = max((mean for (tool, _), mean in means.items() if tool == "whyword"), default=math.inf)
        ahead = [
            f"{TITLES[tool]}’s {method} ({mean:.2f})"
            for (tool, method), mean in means.items()
            if tool != "whyword" and mean > ours + 0.005
        ]
        if ahead:
            said.append(f"- {group}, few rows: ahead of the best of ours ({ours:.2f}) is {', '.join(ahead)}.")
    said.append(
        "- Breadth: Inseq and Captum have many more methods, and explain more kinds of network; "
        "TransformerLens and nnsight give access to every activation, for experiments that go beyond "
        "attribution; ContextCite needs only log probabilities, no gradients or activations."
    )
    return "\n".join(said) + "\n"


def _multiple(cell: dict[str, Any]) -> str:
    if "multiple" in cell:
        return f"{cell['multiple']:.2f}" if cell["multiple"] < 20 else f"{cell['multiple']:.0f}"
    return f"≥ {cell['least']:.0f}" if "least" in cell else cell.get("failed", "–")


def _error(error: float | None) -> str:
    return "–" if error is None else f"{error:.0e}" if error < 0.01 else f"{error:.0%}"


def _adds_up(error: float | None) -> str:
    return "–" if error is None else f"{'yes' if error < EXACT else 'no'}, {_error(error)}"


def _ranks(found: Any) -> list[str]:
    mrr = found.get("mrr", {})
    return [f"{mrr[group]['mean']:.2f}" if mrr.get(group, {}).get("n") else "–" for group in GROUPS]


def _mean_ranks(found: Any) -> str:
    return " / ".join(_ranks(found))


def _unused(found: Any) -> str:
    return f"{found['failed_rows']}: {found['reason']}" if found.get("failed_rows") else ""


def _lines(tool: str, method: str, table: str = "METHODS") -> int:
    """Count the lines of a method in its driver, of which a table names the function."""
    driver = HERE / f"with_{tool.replace('-', '_')}.py"
    (found,) = (
        node.value
        for node in ast.parse(driver.read_text()).body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict)
        if ast.unparse(node.targets[0]) == table
    )
    named = {
        ast.literal_eval(key): ast.unparse(value)
        for key, value in zip(found.keys, found.values, strict=True)
        if key
    }
    return count_lines(driver, ["load", named[method]])


def _markdown(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---", *["--:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines) + "\n"
