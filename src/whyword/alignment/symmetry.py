"""Symmetrisation: one alignment from those of both directions [Koehn, Och and Marcu 2003].

scores: not the links but the evidence of both directions is joined, before links are chosen (aligner.py).

intersection: links of both; union: links of either; grow-diag: start from the intersection, and repeatedly
add links of the union that neighbour one already there (also diagonally) and have an unlinked word on one
side; grow-diag-final: then also add remaining links of either direction with an unlinked word on one side.
"""

from collections.abc import Callable, Collection, Mapping

from ..errors import InputError
from .links import Link

__all__ = ["LINK_SYMMETRISATIONS", "SCORES", "SYMMETRISATIONS", "symmetrise"]

SCORES = "scores"

_AROUND = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def symmetrise(forward: Collection[Link], backward: Collection[Link], way: str) -> frozenset[Link]:
    """Symmetrise the alignments of both directions, both given as links from source to translation."""
    if way not in LINK_SYMMETRISATIONS:
        raise InputError(
            f"There is no symmetrisation {way!r} of links.", f"Ways: {', '.join(LINK_SYMMETRISATIONS)}."
        )
    return LINK_SYMMETRISATIONS[way](frozenset(forward), frozenset(backward))


def _grow_diag(forward: frozenset[Link], backward: frozenset[Link]) -> frozenset[Link]:
    links, union = set(forward & backward), forward | backward
    grown = True
    while grown:
        grown = False
        for source, target in sorted(links):
            for down, right in _AROUND:
                near = (source + down, target + right)
                if near in union and near not in links and _is_free(near, links):
                    links.add(near)
                    grown = True
    return frozenset(links)


def _grow_diag_final(forward: frozenset[Link], backward: frozenset[Link]) -> frozenset[Link]:
    links = set(_grow_diag(forward, backward))
    for direction in (forward, backward):
        for link in sorted(direction):
            if link not in links and _is_free(link, links):
                links.add(link)
    return frozenset(links)


def _is_free(link: Link, links: Collection[Link]) -> bool:
    """Tell whether a word of a link, on either side, has no link yet."""
    return all(source != link[0] for source, _ in links) or all(target != link[1] for _, target in links)


LINK_SYMMETRISATIONS: Mapping[str, Callable[[frozenset[Link], frozenset[Link]], frozenset[Link]]] = {
    "intersection": lambda forward, backward: forward & backward,
    "union": lambda forward, backward: forward | backward,
    "grow-diag": _grow_diag,
    "grow-diag-final": _grow_diag_final,
}
SYMMETRISATIONS = (SCORES, *LINK_SYMMETRISATIONS)
