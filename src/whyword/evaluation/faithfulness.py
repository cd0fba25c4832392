"""Faithfulness without labels: what erasing the highest-scoring tokens does to the preference.

    preference         p_w / (p_w + p_f)
    comprehensiveness  preference − preference without the top tokens       high: they were needed
    sufficiency        preference − preference with the top tokens alone    low: they are enough

Tokens are erased as in the erasure method, by the attention mask; special tokens stay. Sets that methods
share are run once.
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
) -> list[Mapping[str, tuple[float, float]]]:
    """Measure comprehensiveness and sufficiency of every method on every example; none for a single token."""
    sets = [_choose_sets(record, share) for record in records]
    erasures = [
        Erasure(ids, target, [frozenset(), *_distinct(own)])
        for ids, target, own in zip(contexts, targets, sets, strict=True)
    ]
    return [_compare(own, likelihoods) for own, likelihoods in zip(sets, erase(model, erasures), strict=True)]


def _choose_sets(record: Record, share: float) -> Sets:
    kept = [index for index in range(record.tokens) if index not in record.left_out]
    count = ceil(share * len(kept))
    if count >= len(kept):
        return {}
    sets = {}
    for method, scores in record.scores.items():
        order = sorted(kept, key=lambda index: -scores[index])
        sets[method] = (frozenset(order[:count]), frozenset(order[count:]))
    return sets


def _distinct(sets: Sets) -> list[frozenset[int]]:
    return list(dict.fromkeys(each for pair in sets.values() for each in pair))


def _compare(sets: Sets, likelihoods: Likelihoods) -> dict[str, tuple[float, float]]:
    target, foil = likelihoods.probabilities[:, 0], likelihoods.probabilities[:, 1]
    whole, *others = (target / (target + foil)).tolist()
    erased = dict(zip(_distinct(sets), others, strict=True))
    return {method: (whole - erased[top], whole - erased[rest]) for method, (top, rest) in sets.items()}
