"""What people ask of a whole corpus: mean scores by word, part and position, heads, edges, differences.

One pass over the shards; what is kept grows with the words and edges that there are, not with the rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..view.sheet import Sheet
from .opened_run import OpenedRun

__all__ = ["Aggregates", "MethodSums", "aggregate", "lay_out_tables"]

_POSITIONS = 32
"""Positions before the explained one that are told apart; the rest are added up."""
_KEPT = 100_000
"""Words, parts and edges that are counted at once; of more, the rarest are dropped."""
_SHOWN = 50
"""Rows of a table."""


@dataclass
class _Sum:
    count: int = 0
    total: float = 0.0
    size: float = 0.0

    def add(self, score: float) -> None:
        self.count += 1
        self.total += score
        self.size += abs(score)


@dataclass
class MethodSums:
    """Sums of one method."""

    words: dict[str, _Sum] = field(default_factory=dict)
    parts: dict[str, _Sum] = field(default_factory=dict)
    positions: dict[int, _Sum] = field(default_factory=dict)
    """By distance: 1 is the token before the explained one."""
    differences: list[float] = field(default_factory=list)
    heads: Any = None
    """Blocks × heads: what every head adds by itself, added up over rows; None where it was not kept."""
    edges: dict[tuple[int, int, str, str], _Sum] = field(default_factory=dict)
    """What attention heads move between tokens: block, head, text of source and destination."""
    moved: Any = None
    """Blocks × heads: |what they move|, added up over the strongest edges of every row."""
    rows: int = 0


@dataclass(frozen=True)
class Aggregates:
    """The sums of a run by method."""

    model: str
    methods: Mapping[str, MethodSums]
    failed: int


def aggregate(run: OpenedRun) -> Aggregates:
    """Add up the rows of a run."""
    wanted = ["method", "error", "difference", "words", "word_scores", "parts", "part_scores", "scores"]
    if run.settings["keep"] != "scores":
        wanted.append("heads")
    if run.settings["keep"] == "flow":
        wanted += [
            "tokens",
            *(f"route_{name}" for name in ("blocks", "heads", "sources", "destinations", "amounts")),
        ]
    found, failed = {name: MethodSums() for name in run.methods}, 0
    shape = (int(run.settings["blocks"]), int(run.settings["heads"]))
    for record in run.records(wanted):
        if record["error"] is not None:
            failed += 1
            continue
        _add(found[record["method"]], record, shape)
    return Aggregates(str(run.settings["model"]), found, failed)


def _add(sums: MethodSums, record: Mapping[str, Any], shape: tuple[int, int]) -> None:
    sums.rows += 1
    sums.differences.append(record["difference"])
    _add_named(sums.words, record["words"], record["word_scores"])
    _add_named(sums.parts, record["parts"] or (), record["part_scores"] or ())
    for place, score in enumerate(reversed(record["scores"]), 1):
        sums.positions.setdefault(min(place, _POSITIONS), _Sum()).add(score)
    if record.get("heads") is not None:
        own = np.asarray(record["heads"], dtype=np.float64).reshape(shape)
        sums.heads = own if sums.heads is None else sums.heads + own
    if record.get("route_blocks"):
        _add_edges(sums, record, shape)


def _add_named(sums: dict[Any, _Sum], names: Sequence[Any], scores: Sequence[float]) -> None:
    for name, score in zip(names, scores, strict=True):
        sums.setdefault(name, _Sum()).add(score)
    if len(sums) > 2 * _KEPT:
        for name in sorted(sums, key=lambda each: sums[each].size)[:_KEPT]:
            del sums[name]


def _add_edges(sums: MethodSums, record: Mapping[str, Any], shape: tuple[int, int]) -> None:
    if sums.moved is None:
        sums.moved = np.zeros(shape)
    names = ("blocks", "heads", "sources", "destinations", "amounts")
    tokens, edges, amounts = record["tokens"], [], []
    for block, head, source, destination, amount in zip(
        *(record[f"route_{name}"] for name in names), strict=True
    ):
        if source == destination:
            continue  # it moves nothing between positions
        sums.moved[block, head] += abs(amount)
        edges.append((block, head, tokens[source], tokens[destination]))
        amounts.append(amount)
    _add_named(sums.edges, edges, amounts)


def lay_out_tables(found: Aggregates) -> dict[str, Sheet]:
    """Lay out the tables of a corpus, by the names of their files."""
    made: dict[str, Sheet] = {}
    for name, sums in found.methods.items():
        named = {"words": sums.words, "parts": sums.parts}
        for what, own in named.items():
            if own:
                made[f"{what}-{name}"] = _lay_out_sums(f"{name}: mean score by {what[:-1]}", what[:-1], own)
        by_place = {
            f"−{place}{'…' if place == _POSITIONS else ''}": each
            for place, each in sorted(sums.positions.items())
        }
        made[f"positions-{name}"] = _lay_out_sums(
            f"{name}: mean score by position before the explained token", "position", by_place, ranked=False
        )
        if sums.heads is not None:
            made[f"heads-{name}"] = _lay_out_heads(name, sums)
        if sums.edges:
            made[f"edges-{name}"] = _lay_out_edges(name, sums)
        made[f"differences-{name}"] = _lay_out_differences(name, sums)
    return made


def _lay_out_sums(title: str, what: str, sums: Mapping[str, _Sum], *, ranked: bool = True) -> Sheet:
    order = sorted(sums, key=lambda name: (-sums[name].size, name))[:_SHOWN] if ranked else list(sums)
    rows = tuple(
        (name, f"{own.count:,}", f"{own.total / own.count:+.4f}", f"{own.size:.2f}")
        for name, own in ((name, sums[name]) for name in order)
    )
    return Sheet(title, (what, "count", "mean score", "Σ |score|"), rows)


def _lay_out_heads(name: str, sums: MethodSums) -> Sheet:
    """Rank heads by what they add by themselves; beside it what they move, where routes were kept."""
    order = np.argsort(-np.abs(sums.heads), axis=None, kind="stable")[:_SHOWN]
    places = [tuple(int(each) for each in np.unravel_index(place, sums.heads.shape)) for place in order]
    rows = tuple(
        (
            f"{block + 1}.{head + 1}",
            f"{sums.heads[block, head] / sums.rows:+.4f}",
            "" if sums.moved is None else f"{sums.moved[block, head] / sums.rows:.4f}",
        )
        for block, head in places
    )
    title = f"{name}: heads, mean over rows of what each adds, and of |what it moves| on the strongest edges"
    return Sheet(title, ("head", "adds", "moves"), rows)


def _lay_out_edges(name: str, sums: MethodSums) -> Sheet:
    order = sorted(sums.edges, key=lambda edge: (-sums.edges[edge].size, edge))[:_SHOWN]
    rows = tuple(
        (
            f"{block + 1}.{head + 1}",
            repr(source)[1:-1],
            repr(destination)[1:-1],
            f"{sums.edges[block, head, source, destination].count:,}",
            f"{sums.edges[block, head, source, destination].total / sums.rows:+.4f}",
        )
        for block, head, source, destination in order
    )
    title = f"{name}: edges, what heads move from token to token, per row (of the strongest 256 of each row)"
    return Sheet(title, ("head", "from", "to", "count", "moves per row"), rows, names=3)


def _lay_out_differences(name: str, sums: MethodSums) -> Sheet:
    values = np.array(sums.differences)
    at = (0, 5, 25, 50, 75, 95, 100)
    cells = tuple(f"{each:+.3f}" for each in np.percentile(values, at)) if len(values) else ("",) * len(at)
    mean = (f"{values.mean():+.3f}", f"{(values > 0).mean():.1%}") if len(values) else ("", "")
    headings = ("method", *(f"{each} %" for each in at), "mean", "above 0")
    return Sheet(f"{name}: differences over {len(values):,} rows", headings, ((name, *cells, *mean),))
