"""Agreement with evidence: by hand, and against all orders of what is equal."""

from itertools import pairwise, permutations
from statistics import mean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whyword.evaluation.metrics import (
    average_precision,
    count_probes,
    draw_means,
    expect_by_chance,
    expect_reciprocal_rank,
    rank_densely,
    weigh_evidence,
)

EXAMPLES = st.integers(1, 6).flatmap(
    lambda tokens: st.tuples(
        st.lists(st.sampled_from([-1.0, 0.0, 0.5, 2.0]), min_size=tokens, max_size=tokens),
        st.sets(st.integers(0, tokens - 1), min_size=1),
    )
)


def best_ranks(scores: list[float], evidence: set[int]) -> list[int]:
    """The best rank of evidence in every order of the tokens that has no lower score before a higher one."""
    orders = [
        order
        for order in permutations(range(len(scores)))
        if all(scores[a] >= scores[b] for a, b in pairwise(order))
    ]
    return [1 + min(order.index(index) for index in evidence) for order in orders]


@given(EXAMPLES)
def test_equal_scores_count_as_any_of_their_orders(example: tuple[list[float], set[int]]) -> None:
    scores, evidence = example
    ranks = best_ranks(scores, evidence)
    assert expect_reciprocal_rank(scores, evidence) == pytest.approx(mean(1 / rank for rank in ranks))
    assert count_probes(scores, evidence) == pytest.approx(mean(ranks))


def test_reciprocal_rank_by_hand() -> None:
    assert expect_reciprocal_rank([0.1, 0.9, 0.5], [2]) == 1 / 2
    assert expect_reciprocal_rank([0.1, 0.9, 0.5], [0, 2]) == 1 / 2
    assert expect_reciprocal_rank([-3.0, -1.0], [1]) == 1
    assert expect_reciprocal_rank([0.0, 0.0], [0]) == 0.75


def test_the_published_rank_by_hand() -> None:
    """Ascending dense ranks of 3 1 1 2 are 3 1 1 2; the rank of the highest is 4 − 3 + 1 = 2."""
    assert rank_densely([3.0, 1.0, 1.0, 2.0], [0]) == 1 / 2
    assert rank_densely([3.0, 1.0, 1.0, 2.0], [1, 3]) == 1 / 3
    assert rank_densely([0.0], [0]) == 1
    assert rank_densely([0.0, 0.0, 0.0], [1]) == 1 / 3


@given(EXAMPLES)
def test_without_ties_both_ranks_are_the_same(example: tuple[list[float], set[int]]) -> None:
    scores, evidence = example
    different = [score + 0.01 * place for place, score in enumerate(scores)]
    assert rank_densely(different, evidence) == pytest.approx(expect_reciprocal_rank(different, evidence))


def test_chance_is_the_mean_of_drawn_scores() -> None:
    generator = np.random.default_rng(0)
    drawn = [expect_reciprocal_rank(generator.random(9).tolist(), [2, 5]) for _ in range(4000)]
    assert expect_by_chance(9, 2) == pytest.approx(mean(drawn), abs=0.015)
    assert expect_by_chance(4, 4) == 1


def test_dot_product() -> None:
    assert weigh_evidence([1.0, -2.0, 1.0], [0, 2]) == 0.5
    assert weigh_evidence([1.0, -2.0, 1.0], [1]) == -0.5
    assert weigh_evidence([0.0, 0.0], [1]) == 0


def test_average_precision() -> None:
    assert average_precision([0.9, 0.8, 0.1], [0, 1]) == 1
    assert average_precision([0.9, 0.8, 0.1], [1]) == 1 / 2
    assert average_precision([0.9, 0.8, 0.7], [0, 2]) == pytest.approx((1 + 2 / 3) / 2)
    assert average_precision([0.5, 0.5, 0.5, 0.5], [3]) == 1 / 4


def test_means_drawn_again_lie_around_the_mean() -> None:
    values = np.random.default_rng(1).normal([[1.0], [5.0]], 1.0, size=(2, 400))
    draws = draw_means(values, 1000, seed=0)
    np.testing.assert_allclose(draws.mean(1), values.mean(1), atol=0.01)
    np.testing.assert_allclose(draws.std(1), values.std(1) / 20, rtol=0.1)
    np.testing.assert_array_equal(draws, draw_means(values, 1000, seed=0))
