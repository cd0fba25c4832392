"""Metrics of how well scores agree with evidence. Every function takes one example.

`scores` is one number per ranked token, `evidence` the indices of the deciding tokens, at least one.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import groupby
from math import comb, nan

import numpy as np
from jaxtyping import Float

__all__ = [
    "CORRELATIONS",
    "METRICS",
    "average_precision",
    "correlate",
    "correlate_ranks",
    "count_probes",
    "draw_means",
    "expect_by_chance",
    "expect_first",
    "expect_reciprocal_rank",
    "rank_densely",
    "weigh_evidence",
]

Scores = Sequence[float]
Evidence = Collection[int]


def expect_reciprocal_rank(scores: Scores, evidence: Evidence) -> float:
    """Return the reciprocal best rank of an evidence token, in expectation over orders of equal scores.

    Where k of n tokens with equal scores are evidence, the first of them has rank i among these with
    probability C(n − i, k − 1) / C(n, k).
    """
    above, equal, deciding = _find_best(scores, evidence)
    return sum(
        comb(equal - place, deciding - 1) / comb(equal, deciding) / (above + place)
        for place in range(1, equal - deciding + 2)
    )


def expect_first(scores: Scores, evidence: Evidence) -> float:
    """Return the chance that evidence comes first, over orders of equal scores."""
    above, equal, deciding = _find_best(scores, evidence)
    return 0.0 if above else deciding / equal


def rank_densely(scores: Scores, evidence: Evidence) -> float:
    """Return the reciprocal of the best rank as published: tokens − ascending dense rank + 1.

    Equal scores share a rank. With ties the best possible rank is above 1: if all scores are equal, it is the
    number of tokens.
    """
    dense = {score: rank for rank, score in enumerate(sorted(set(scores)), start=1)}
    return 1 / (len(scores) - max(dense[scores[index]] for index in evidence) + 1)


def expect_by_chance(tokens: int, evidence: int) -> float:
    """Return the expected reciprocal rank of random scores."""
    return expect_reciprocal_rank([0.0] * tokens, range(evidence))


def count_probes(scores: Scores, evidence: Evidence) -> float:
    """Count the tokens to look at, the strongest first, until one is evidence: 1 is best.

    Among equal scores evidence comes after (n − k) / (k + 1) others on average.
    """
    above, equal, deciding = _find_best(scores, evidence)
    return above + (equal - deciding) / (deciding + 1) + 1


def weigh_evidence(scores: Scores, evidence: Evidence) -> float:
    """Return the dot product of evidence with scores that are divided by the sum of their absolute values."""
    size = sum(abs(score) for score in scores)
    return sum(scores[index] for index in evidence) / size if size else 0.0


def average_precision(scores: Scores, evidence: Evidence) -> float:
    """Return the area under the precision–recall curve, in steps; equal scores are one step."""
    order = sorted(range(len(scores)), key=lambda index: -scores[index])
    seen = found = 0
    area = 0.0
    for _, tied in groupby(order, key=lambda index: scores[index]):
        step = list(tied)
        new = sum(index in evidence for index in step)
        seen, found = seen + len(step), found + new
        area += new / len(evidence) * found / seen
    return area


def correlate(scores: Scores, changes: Scores) -> float:
    """Return the linear correlation of scores and changes; NaN for less than 3, or where all are equal."""
    one, two = (np.asarray(each, dtype=float) - np.mean(each) for each in (scores, changes))
    size = float(np.linalg.norm(one) * np.linalg.norm(two))
    return float(one @ two) / size if len(one) >= 3 and size > 0 else nan


def correlate_ranks(scores: Scores, changes: Scores) -> float:
    """Return Spearman's correlation: that of ranks, where equal numbers share their mean rank."""
    return correlate(_rank(scores), _rank(changes))


def _rank(numbers: Scores) -> list[float]:
    _, places, counts = np.unique(np.asarray(numbers), return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - (counts - 1) / 2
    return [float(rank) for rank in ranks[places]]


METRICS: Mapping[str, Callable[[Scores, Evidence], float]] = {
    "MRR": expect_reciprocal_rank,
    "top 1": expect_first,
    "probes needed": count_probes,
    "dot product": weigh_evidence,
    "AUPRC": average_precision,
}
"""By name; MRR is that of the paper's table. For probes needed lower is better, for the others higher."""


CORRELATIONS: Mapping[str, Callable[[Scores, Scores], float]] = {
    "rank correlation with swaps": correlate_ranks,
    "linear correlation with swaps": correlate,
}
"""Agreement of scores with what swaps change, by name; higher is better."""


def draw_means(
    values: Float[np.ndarray, "metric example"], draws: int, seed: int
) -> Float[np.ndarray, "metric draw"]:
    """Return bootstrap means: examples are drawn with replacement, the same ones for every metric."""
    count = values.shape[1]
    generator = np.random.default_rng(seed)
    weights = generator.multinomial(count, [1 / count] * count, size=draws)
    means: Float[np.ndarray, "metric draw"] = values @ (weights / count).T
    return means


def _find_best(scores: Scores, evidence: Evidence) -> tuple[int, int, int]:
    """Count the tokens above the best evidence, those equal to it, and the evidence among these."""
    best = max(scores[index] for index in evidence)
    above = sum(score > best for score in scores)
    equal = sum(score == best for score in scores)
    return above, equal, sum(scores[index] == best for index in evidence)
