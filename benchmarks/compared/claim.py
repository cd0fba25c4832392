"""What README says of cost: a sentence made from the results, between two marks."""

import re
import textwrap
from pathlib import Path

from compared.answers import NETWORKS, TITLES, Results, find_cost, list_lengths, list_methods
from compared.page import EXACT, measure_error

__all__ = ["renew_claim", "word_claim"]

_MARKED = re.compile(r"(?<=<!-- cost: made by benchmarks/peers.py -->\n).*?(?=\n<!-- /cost -->)", re.DOTALL)


def renew_claim(results: Results, path: Path) -> None:
    """Write the sentence into a file that has the marks."""
    text, count = _MARKED.subn(lambda _: word_claim(results), path.read_text())
    assert count == 1, f"{path} has {count} marked places"
    path.write_text(text)


def word_claim(results: Results) -> str:
    """Say what ours cost, and what others do."""
    network, found = NETWORKS[0], list_methods(results, "costs", NETWORKS[0])
    lengths = [
        length
        for length in list_lengths(results, network)
        if all("multiple" in find_cost(each, length) for tool, _, each in found if tool == "whyword")
    ]
    ours = {
        method: " / ".join(f"{find_cost(each, length)['multiple']:.1f}" for length in lengths)
        for tool, method, each in found
        if tool == "whyword"
    }
    others = [
        cell["multiple"]
        for tool, _, each in found
        if tool != "whyword" and "multiple" in (cell := find_cost(each, lengths[0]))
    ]
    exact = dict.fromkeys(
        TITLES[tool]
        for tool, _, each in found
        if tool != "whyword" and (error := measure_error(each)) is not None and error < EXACT
    )
    by_hand = f"only what one writes by hand with {' or '.join(exact)} adds" if exact else "none adds"
    said = (
        f"An explanation by flow costs {ours['flow']} times the prediction itself, by the paper's Logit "
        f"{ours['logit']} and ALTI-Logit {ours['alti-logit']} times "
        f"({' / '.join(f'{length:,}' for length in lengths)} tokens, {network}, CPU time of one thread). "
        f"Other tools cost {min(others):.1f} to {max(others):.0f} times at {lengths[0]} tokens; of these "
        f"{by_hand} up to the logit difference: [beside other tools](docs/compared.md)."
    )
    return textwrap.fill(said, 108, break_long_words=False, break_on_hyphens=False)
