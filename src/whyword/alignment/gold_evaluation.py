"""Measure alignments against human ones: every method in every decoder block, from one run per batch.

A run is a folder and may be stopped at any time: every sentence is a line of its journal, and the settings
are kept next to it, so that results of different settings are never mixed.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..models.model import Model
from ..pipeline.one_translation import require_translator
from ..runs.fingerprint import fingerprint_weights
from ..runs.journal import append_lines, open_run, read_lines
from ..runs.progress import report as report_progress
from ..runs.single_writer import write_folder_alone
from .aer import Score, score_links
from .aligner import ALIGNMENT_METHODS, Settings, cut, look_ahead, measure_words, prepare_all
from .alignment import align_words
from .links import Link, LinkFile, Links, require_inside
from .symmetry import SYMMETRISATIONS, symmetrise
from .token_scores import MEASURES

__all__ = ["AlignmentReport", "Asked", "Measured", "evaluate_alignment", "read_methods"]

_SCHEMA = "whyword.alignment-run/2"
_PAPER = ("attention", "vector-norms", "distance", "smoothgrad", "logit")
FORWARD = "forward"
MUTUAL = "mutual"


@dataclass(frozen=True)
class Measured:
    """How well one way of aligning agrees with gold links."""

    settings: Settings
    direction: str
    """forward; mutual: only links of words that are each other's best; with a second model backward, or how
    both were symmetrised."""
    score: Score


@dataclass(frozen=True)
class AlignmentReport:
    """All ways of aligning, scored on the same sentences."""

    model: str
    sentences: int
    measured: tuple[Measured, ...]

    def rows(self) -> Mapping[tuple[str, str, str], list[Measured]]:
        """Return the measurements by method, step and direction."""
        rows: dict[tuple[str, str, str], list[Measured]] = {}
        for each in self.measured:
            rows.setdefault((each.settings.method, each.settings.step, each.direction), []).append(each)
        return rows

    def find(self, method: str, step: str = "output", block: int | None = None) -> Score:
        """Return the score of one way, forward; `block` counts from 1, None: summed over all."""
        wanted = Settings(method, step, block)
        return next(
            each.score for each in self.measured if each.settings == wanted and each.direction == FORWARD
        )


@dataclass(frozen=True)
class Asked:
    """What is to be measured."""

    words: Sequence[tuple[list[str], list[str]]]
    gold: LinkFile
    methods: tuple[str, ...] = ALIGNMENT_METHODS
    languages: tuple[str | None, str | None] = (None, None)
    name: str = "gold"
    """The name of the gold file in messages."""


def read_methods(names: str) -> tuple[str, ...]:
    """Read the names of methods: all, paper (those of its table), or names with commas."""
    if names == "all":
        return ALIGNMENT_METHODS
    found = _PAPER if names == "paper" else tuple(name.strip() for name in names.split(","))
    for name in found:
        if name not in ALIGNMENT_METHODS:
            raise InputError(
                f"There is no method {name!r} for alignments.",
                f"Methods: all, paper, or some of {', '.join(ALIGNMENT_METHODS)}.",
            )
    return found


def evaluate_alignment(
    model: Model, asked: Asked, out: Path, reverse: Model | None = None
) -> AlignmentReport:
    """Measure methods × decoder blocks (× steps) against gold; a run that was stopped is resumed.

    `reverse`: a model for the reverse direction; its alignments are then measured too, and both symmetrised.
    """
    for network in (model, *([] if reverse is None else [reverse])):
        require_translator(network)
    require_inside(asked.gold, [(len(own), len(other)) for own, other in asked.words], asked.name)
    wanted = _list_ways(model, asked.methods)
    journal = out / "sentences.jsonl"
    with write_folder_alone(out):
        open_run(journal, _SCHEMA, _describe(model, asked, reverse))
        done, ahead = list(read_lines(journal, _read_line)), look_ahead(asked.methods)
        for start in range(len(done), len(asked.words), ahead):
            window = asked.words[start : start + ahead]
            found = _align_window(model, window, wanted, asked.languages, start)
            if reverse is not None:
                found = _join(found, _align_reverse(reverse, window, wanted, asked.languages, start))
            append_lines(journal, map(_write_line, found))
            done += found
            report_progress("pairs", len(done), len(asked.words))
    return _add_up(model, asked, done)


def _list_ways(model: Model, methods: Sequence[str]) -> list[Settings]:
    """List every method in every block, at every step, and summed over blocks where they can be."""
    ways = []
    for method in methods:
        measure = MEASURES.get(method)
        if measure is None:
            ways.append(Settings(method, "output", None))
            continue
        blocks: list[int | None] = [*range(1, len(model.blocks) + 1), *([None] if measure.adds_up else [])]
        ways += [Settings(method, step, block) for step in measure.steps for block in blocks]
    return ways


_Found = dict[str, frozenset[Link]]
"""Links by the key of the way they were found."""


def _key(settings: Settings, direction: str) -> str:
    return f"{settings.method}/{settings.step}/{settings.block or 'all'}/{direction}"


def _read_key(key: str) -> tuple[Settings, str]:
    method, step, block, direction = key.split("/")
    return Settings(method, step, None if block == "all" else int(block)), direction


def _align_window(
    model: Model,
    pairs: Sequence[tuple[list[str], list[str]]],
    wanted: Sequence[Settings],
    languages: tuple[str | None, str | None],
    first: int,
) -> list[_Found]:
    """Align some pairs in all ways."""
    prepared = prepare_all(model, pairs, languages, first)
    kinds = {FORWARD: "best", MUTUAL: "mutual"}
    found: list[_Found] = [{_key(way, kind): frozenset() for kind in kinds for way in wanted} for _ in pairs]
    for batch in cut(prepared):
        own = [each for each in (prepared[index] for index in batch) if each is not None]
        measured = measure_words(model, own, wanted)
        for place, (index, pair) in enumerate(zip(batch, own, strict=True)):
            shares = pair.target_shares, pair.source_shares
            for (kind, choice), way in product(kinds.items(), wanted):
                links = align_words(measured[way][place], shares, choice)
                found[index][_key(way, kind)] = frozenset(links)
    return found


def _align_reverse(
    model: Model,
    pairs: Sequence[tuple[list[str], list[str]]],
    wanted: Sequence[Settings],
    languages: tuple[str | None, str | None],
    first: int,
) -> list[_Found]:
    """Align with a model for the reverse direction; links are turned to go from source to translation.

    Blocks that it does not have are skipped.
    """
    ways = [way for way in wanted if (way.block or 1) <= len(model.blocks)]
    turned = [(target, source) for source, target in pairs]
    found = _align_window(model, turned, ways, languages[::-1], first)
    return [
        {
            key: frozenset((target, source) for source, target in links)
            for key, links in each.items()
            if key.endswith(FORWARD)
        }
        for each in found
    ]


def _join(forward: Sequence[_Found], backward: Sequence[_Found]) -> list[_Found]:
    """Return the alignments of both directions, and all their symmetrisations."""
    joined = []
    for own, other in zip(forward, backward, strict=True):
        both = dict(own)
        for key, links in other.items():
            name = key.removesuffix(FORWARD)
            both[f"{name}backward"] = links
            both |= {f"{name}{way}": symmetrise(own[key], links, way) for way in SYMMETRISATIONS}
        joined.append(both)
    return joined


def _describe(model: Model, asked: Asked, reverse: Model | None) -> dict[str, Any]:
    gold = [[sorted(links.sure), sorted(links.possible)] for links in asked.gold.sentences]
    written = json.dumps([asked.words, gold])
    return {
        "model": model.name,
        "weights": fingerprint_weights(model.network)[:12],
        "dtype": str(model.dtype),
        "reverse": None if reverse is None else reverse.name,
        "reverse weights": None if reverse is None else fingerprint_weights(reverse.network)[:12],
        "methods": list(asked.methods),
        "languages": list(asked.languages),
        "sentences": len(asked.words),
        "content": hashlib.sha256(written.encode()).hexdigest(),
    }


def _write_line(found: _Found) -> str:
    return json.dumps({key: sorted(links) for key, links in found.items()})


def _read_line(line: Mapping[str, Any]) -> _Found:
    return {key: frozenset((own, other) for own, other in links) for key, links in line.items()}


def _add_up(model: Model, asked: Asked, done: Sequence[_Found]) -> AlignmentReport:
    known = asked.gold.sentences
    golds = [known[index] if index < len(known) else Links() for index in range(len(done))]
    measured = []
    for key in done[0] if done else []:
        settings, direction = _read_key(key)
        pairs: Callable[[str], Iterator[tuple[frozenset[Link], Links]]] = lambda key: (  # noqa: E731
            (each[key], gold) for each, gold in zip(done, golds, strict=True)
        )
        measured.append(Measured(settings, direction, score_links(pairs(key))))
    return AlignmentReport(model.name, len(done), tuple(measured))
