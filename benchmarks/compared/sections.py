"""Sections of docs/compared.md: ranks of evidence, which document, and where a peer is better."""

from typing import Any

from compared.answers import GROUPS, NETWORKS, TITLES, Results, find_cost, list_lengths, list_methods
from compared.lines import count_method
from compared.markdown import write_table

__all__ = ["describe_better", "describe_documents", "describe_rows", "show_ranks"]


def describe_rows(results: Results) -> str:
    """Write two tables: all rows, and the few that slow methods were asked, too."""
    ranked = [(tool, method, found) for tool, method, found in list_methods(results, "rows")]
    if not ranked:
        return "Not measured yet.\n"
    most = max((found.get("asked", 0) for _, _, found in ranked), default=0)
    chance = next(
        (tool["rows"]["random"] for tool in results.values() if "random" in tool.get("rows", {})), {}
    )
    whole = [each for each in ranked if each[2].get("asked", most) == most]
    text = (
        "MRR of the deciding word on the first rows of every dataset, by [our conventions]"
        "(evaluation.md#conventions) and with the same start of text, on the default model; in brackets the "
        "number of rows. Means of so few rows are uncertain: [the evaluation](evaluation.md) has more, of "
        "our own methods.\n\n"
    )
    text += _write_ranks(whole, chance, "mrr")
    if len(whole) < len(ranked):
        text += (
            "\nIntegrated gradients, occlusion and ablation run the network tens or hundreds of times for a "
            "row, and were asked the first of these rows only. All tools on those:\n\n"
        )
        text += _write_ranks(ranked, chance, "few")
    return text


def _write_ranks(ranked: list[tuple[str, str, Any]], chance: Any, which: str) -> str:
    rows = [
        [f"{TITLES[tool]}: {method}" if method else TITLES[tool], *_list_ranks(found, which), _unused(found)]
        for tool, method, found in ranked
    ]
    rows.append(["random scores", *_list_ranks(chance, which), ""])
    return write_table(["", *GROUPS, "rows without scores"], rows)


def _list_ranks(found: Any, which: str) -> list[str]:
    means = found.get(which, {})
    return [
        f"{means[group]['mean']:.2f} ({means[group]['n']})" if means.get(group, {}).get("n") else "–"
        for group in GROUPS
    ]


def _unused(found: Any) -> str:
    if "failed" in found:
        return str(found["failed"])
    return f"{found['failed_rows']}: {found['reason']}" if found.get("failed_rows") else ""


def show_ranks(found: Any) -> str:
    """Write the means of a method in one cell, with the number of rows."""
    means = found.get("mrr", {})
    if not any(means.get(group, {}).get("n") for group in GROUPS):
        return "–"
    shown = [f"{means[group]['mean']:.2f}" if means.get(group, {}).get("n") else "–" for group in GROUPS]
    counts = [str(means.get(group, {}).get("n", 0)) for group in GROUPS]
    return f"{' / '.join(shown)} ({'/'.join(counts)})"


def describe_documents(results: Results) -> str:
    """Write how often each tool names the document that an answer was taken from, and its cost."""
    rows, count = [], 0
    for tool, method, found in list_methods(results, "documents"):
        questions = found.get("questions", ())
        asked = [each for each in questions if "multiple" in each]
        if not asked:
            reason = next((each["failed"] for each in questions if "failed" in each), None)
            rows.append([f"{TITLES[tool]}: {method}", "", "–", reason or found.get("failed", "–"), "–"])
            continue
        count = max(count, len(questions))
        costs = sorted(each["multiple"] for each in asked)
        for reading in dict.fromkeys(name for each in asked for name in each["right"]):
            named = [each["right"].get(reading, False) for each in asked if each["answered"]]
            right = f"{sum(named)} of {len(named)}" if named else "no answer was right"
            cost = f"{costs[len(costs) // 2]:.1f}"
            lines = str(count_method(tool, method, "CITING"))
            rows.append([f"{TITLES[tool]}: {method}", reading, right, cost, lines])
    if not rows:
        return "Not measured yet.\n"
    text = (
        f"{count} questions about three short documents (`benchmarks/compared/documents.py`: invented, about "
        "different things) that the model answers right in at most 16 tokens; the right document is equally "
        "often the first, the second and the third. How often the document that holds the answer has the "
        "highest score, where the whole answer is asked about, and where only the word is that answers the "
        "question. The cost includes the generation of the answer, and is a multiple of one forward pass "
        "over the prompt (medians). ContextCite reads both from the same ablations, 64 by default; since "
        "three documents have only eight subsets, it was also asked with 16.\n\n"
    )
    return text + write_table(["", "asked about", "right document first", "÷ forward", "lines of code"], rows)


def describe_better(results: Results) -> str:
    """List where a peer beats ours, as the figures say."""
    said = [line for network in NETWORKS for line in _list_cheaper(results, network)]
    for group in GROUPS:
        for which, about in (("mrr", "all rows"), ("few", "the few rows of slow methods")):
            if line := _find_ahead(results, group, which, about):
                said.append(line)
    said += _list_better_cited(results)
    said.append(
        "- Breadth: Inseq and Captum have many more methods, and explain more kinds of network; "
        "TransformerLens and nnsight give access to every activation, for experiments that go beyond "
        "attribution; ContextCite needs only log probabilities, no gradients or activations."
    )
    return "\n".join(said) + "\n"


def _list_cheaper(results: Results, network: str) -> list[str]:
    said = []
    for length in list_lengths(results, network):
        costs = {
            (tool, method): find_cost(found, length)["multiple"]
            for tool, method, found in list_methods(results, "costs", network)
            if "multiple" in find_cost(found, length)
        }
        for ours in ("logit", "flow"):
            own = costs.get(("whyword", ours))
            cheaper = [
                f"{TITLES[tool]}’s {method} ({cost:.2f})"
                for (tool, method), cost in costs.items()
                if own is not None and tool != "whyword" and cost < own
            ]
            if cheaper:
                named = ", ".join(cheaper)
                said.append(f"- {network}, {length:,} tokens: cheaper than `{ours}` ({own:.2f}): {named}.")
    return said


def _find_ahead(results: Results, group: str, which: str, about: str) -> str | None:
    """Name the methods of peers that rank better than the best of ours on the same rows.

    `which`: "mrr" of those that were asked all rows, "few" of those that were asked a few.
    """
    ranked = [each for each in list_methods(results, "rows") if which in each[2]]
    most = max((found["asked"] for _, _, found in ranked), default=0)
    best = max(
        (found[which][group]["mean"] or 0 for tool, _, found in ranked if tool == "whyword"), default=1.0
    )
    ahead = [
        f"{TITLES[tool]}’s {method} ({found[which][group]['mean']:.2f})"
        for tool, method, found in ranked
        if tool != "whyword" and (found["asked"] == most) == (which == "mrr")
        if (found[which][group]["mean"] or 0) > best + 0.005
    ]
    return (
        f"- {group}, {about}: ahead of the best of ours ({best:.2f}): {', '.join(ahead)}." if ahead else None
    )


def _list_better_cited(results: Results) -> list[str]:
    """Say where another tool names the right document more often than flow does, for either reading."""
    counts: dict[str, dict[tuple[str, str], int]] = {}
    for tool, method, found in list_methods(results, "documents"):
        for each in found.get("questions", ()):
            for reading, right in each.get("right", {}).items():
                by_method = counts.setdefault(reading, {})
                by_method[tool, method] = by_method.get((tool, method), 0) + bool(each["answered"] and right)
    said = []
    for reading, by_method in counts.items():
        ours = max((count for (tool, _), count in by_method.items() if tool == "whyword"), default=None)
        ahead = [
            f"{TITLES[tool]} with {method} ({count})"
            for (tool, method), count in by_method.items()
            if ours is not None and tool != "whyword" and count > ours
        ]
        if ahead:
            said.append(
                f"- Which document, {reading}: right more often than flow ({ours}): {', '.join(ahead)}."
            )
    return said
