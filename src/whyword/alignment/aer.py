"""Alignment error rate against sure and possible links [Och and Ney 2000].

    precision = |A ∩ P| / |A|      recall = |A ∩ S| / |S|      S ⊆ P
    AER = 1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|)

Counts are summed over all sentences.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np

from ..errors import InputError
from .links import Link, LinkFile, Links, read_links, require_inside, require_parallel

__all__ = ["Score", "compare_bases", "compare_files", "find_interval", "score_links"]


@dataclass(frozen=True)
class Score:
    """How well links agree with gold links: counts over all sentences."""

    links: int
    """|A|"""
    sure: int
    """|S|"""
    found_sure: int
    """|A ∩ S|"""
    found_allowed: int
    """|A ∩ P|"""

    def __add__(self, other: "Score") -> "Score":
        return Score(
            self.links + other.links,
            self.sure + other.sure,
            self.found_sure + other.found_sure,
            self.found_allowed + other.found_allowed,
        )

    @property
    def aer(self) -> float:
        """The alignment error rate; 0 where there are no links at all."""
        size = self.links + self.sure
        return 1 - (self.found_sure + self.found_allowed) / size if size else 0.0

    @property
    def precision(self) -> float:
        """The share of links that are allowed; 1 where there are none."""
        return self.found_allowed / self.links if self.links else 1.0

    @property
    def recall(self) -> float:
        """The share of sure links that were found; 1 where there are none."""
        return self.found_sure / self.sure if self.sure else 1.0


def score_links(pairs: Iterable[tuple[Collection[Link], Links]]) -> Score:
    """Score the links of sentences, each against its gold links."""
    total = Score(0, 0, 0, 0)
    for links, gold in pairs:
        own = frozenset(links)
        total += Score(len(own), len(gold.sure), len(own & gold.sure), len(own & gold.allowed))
    return total


def find_interval(scores: Sequence[Score], draws: int = 1000, seed: int = 0) -> tuple[float, float]:
    """Return the 95 % bootstrap interval of the error rate: sentences are drawn with replacement."""
    if not scores:
        return 0.0, 0.0
    counts = np.array([[each.links + each.sure, each.found_sure + each.found_allowed] for each in scores])
    count = len(scores)
    drawn = np.random.default_rng(seed).multinomial(count, [1 / count] * count, size=draws) @ counts
    rates = 1 - drawn[:, 1] / np.maximum(drawn[:, 0], 1)
    low, high = np.quantile(np.where(drawn[:, 0] > 0, rates, 0.0), (0.025, 0.975))
    return float(low), float(high)


def compare_files(
    hypothesis: str | Path,
    gold: str | Path,
    forms: tuple[str | None, str | None] = (None, None),
    bases: tuple[int | None, int | None] = (None, None),
    sizes: Sequence[tuple[int, int]] | None = None,
) -> tuple[Score, LinkFile, LinkFile]:
    """Score a file of links against another; formats and bases of both are inferred where they are None.

    `sizes`: the numbers of words of all sentences, to refuse links outside of them. A file without an index 0
    may count words from 0 or from 1: the base by which both files agree best is taken.
    """
    return compare_bases(hypothesis, gold, forms, bases, sizes)[0]


def compare_bases(
    hypothesis: str | Path,
    gold: str | Path,
    forms: tuple[str | None, str | None] = (None, None),
    bases: tuple[int | None, int | None] = (None, None),
    sizes: Sequence[tuple[int, int]] | None = None,
) -> list[tuple[Score, LinkFile, LinkFile]]:
    """Score a file of links against another by every base that the files allow, the best agreement first."""
    found, known = (
        read_links(path, form, base)
        for path, form, base in zip((hypothesis, gold), forms, bases, strict=True)
    )
    count = max(len(found.sentences), len(known.sentences)) if sizes is None else len(sizes)
    for file, path in ((found, hypothesis), (known, gold)):
        require_parallel(file, str(path), count)
        if sizes is not None:
            require_inside(file, sizes, str(path))
    ways = product(_list_readings(found, sizes), _list_readings(known, sizes))
    return sorted(
        ((_score(own, other, count), own, other) for own, other in ways), key=lambda way: way[0].aer
    )


def _list_readings(file: LinkFile, sizes: Sequence[tuple[int, int]] | None) -> list[LinkFile]:
    """List a file as it is read, and as counting from 0 where it may, and its links fit the sentences."""
    if not file.open:
        return [file]
    other = file.count_from_zero()
    try:
        if sizes is not None:
            require_inside(other, sizes, "")
    except InputError:
        return [file]
    return [file, other]


def _score(found: LinkFile, known: LinkFile, count: int) -> Score:
    none = Links()
    return score_links((_at(found, index, none).allowed, _at(known, index, none)) for index in range(count))


def _at(file: LinkFile, index: int, none: Links) -> Links:
    return file.sentences[index] if index < len(file.sentences) else none
