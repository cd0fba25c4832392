"""Faithfulness without labels: what erasing the highest-scoring tokens does to the preference.

    preference         p_w / (p_w + p_f)
    comprehensiveness  preference − preference without the top tokens       high: they were needed
    sufficiency        preference − preference with the top tokens alone    low: they are enough

Tokens are erased as in the erasure method, by the attention mask; special tokens stay. Where documents or
turns are ranked, the strongest of them is erased, or all others. Sets that methods share are run once.
"""

from collections.abc import Mapping, Sequence
from math import ceil

from ..attribute import Erasure, erase
from ..ledger import Likelihoods, Target
from ..models.model import Model
from .records import Record

__all__ = ["measure_faithfulness"]

Sets = Mapping[str, tuple[frozenset[int], frozenset[int]]]
"""The tokens erased for comprehensiveness and for sufficiency, by method."""


def measure_faithfulness(
    model: Model,
    contexts: Sequence[Sequence[int]],
    targets: Sequence[Target],
    records: Sequence[Record],
    share: float,
    units: Sequence[Sequence[Sequence[int]]],
) -> list[Mapping[str, tuple[float, float]]]:
    """Measure comprehensiveness and sufficiency of every method on every example; none for a single token.

    `units`: the tokens of every part that is ranked, by example; empty where tokens are.
    """
    sets = [_choose_sets(record, share, own) for record, own in zip(records, units, strict=True)]
    erasures = [
        Erasure(ids, target, [frozenset(), *_distinct(own)])
        for ids, target, own in zip(contexts, targets, sets, strict=True)
    ]
    return [_compare(own, likelihoods) for own, likelihoods in zip(sets, erase(model, erasures), strict=True)]


def _choose_sets(record: Record, share: float, units: Sequence[Sequence[int]]) -> Sets:
    kept = [index for index in range(record.tokens) if index not in record.left_out]
    count = 1 if units else ceil(share * len(kept))
    if count >= len(kept):
        return {}
    sets = {}
    for method, scores in record.scores.items():
        order = sorted(kept, key=lambda index: -scores[index])
        sets[method] = (_list_tokens(order[:count], units), _list_tokens(order[count:], units))
    return sets


def _list_tokens(ranked: Sequence[int], units: Sequence[Sequence[int]]) -> frozenset[int]:
    return frozenset(token for place in ranked for token in units[place]) if units else frozenset(ranked)


def _distinct(sets: Sets) -> list[frozenset[int]]:
    return list(dict.fromkeys(each for pair in sets.values() for each in pair))


def _compare(sets: Sets, likelihoods: Likelihoods) -> dict[str, tuple[float, float]]:
    whole, *others = likelihoods.preference.tolist()
    erased = dict(zip(_distinct(sets), others, strict=True))
    return {method: (whole - erased[top], whole - erased[rest]) for method, (top, rest) in sets.items()}
