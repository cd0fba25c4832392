"""Measure alignments against human ones: every method in every decoder block, from one run per batch.

A run is a folder and may be stopped at any time: every sentence is a line of its journal, and the settings
are kept next to it, so that results of different settings are never mixed.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jaxtyping import Float
from torch import Tensor

from ..errors import InputError
from ..models.model import Model
from ..pipeline.one_translation import require_translator
from ..runs.fingerprint import fingerprint_network
from ..runs.journal import append_lines, open_run, read_lines
from ..runs.progress import report as report_progress
from ..runs.single_writer import write_folder_alone
from .aer import Score, find_interval, score_links
from .aligner import link_together
from .linking import LINKING, Linking, link_words
from .links import Link, LinkFile, Links, require_inside
from .method_choice import ALIGNMENT_METHODS
from .preparing import Prepared
from .symmetry import LINK_SYMMETRISATIONS, SCORES, symmetrise
from .token_scores import MEASURES
from .word_scores import Settings, cut, find_evidence, look_ahead, measure_words, prepare_all

__all__ = ["AlignmentReport", "Asked", "Measured", "evaluate_alignment", "read_methods"]

_SCHEMA = "whyword.alignment-run/3"
_PAPER = ("attention", "vector-norms", "distance", "smoothgrad", "logit")
FORWARD, MUTUAL, DEFAULT = "forward", "mutual", f"recall {LINKING.recall:g}"
KINDS = {FORWARD: Linking("best"), MUTUAL: Linking("mutual", recall=0.0, null=0.0), DEFAULT: LINKING}
"""How links are chosen: for every word; of words that are each other's best; as `align` does by default."""


@dataclass(frozen=True)
class Measured:
    """How well one way of aligning agrees with gold links."""

    settings: Settings
    direction: str
    """forward: every word linked; mutual: only words that are each other's best; recall …: as `align` does by
    default; with a second model backward, or how both were symmetrised."""
    score: Score
    interval: tuple[float, float] = (0.0, 0.0)
    """The 95 % bootstrap interval of the error rate."""


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
    models = [require_translator(each) for each in (model, reverse) if each is not None]
    require_inside(asked.gold, [(len(own), len(other)) for own, other in asked.words], asked.name)
    wanted = _list_ways(model, asked.methods)
    journal = out / "sentences.jsonl"
    with write_folder_alone(out):
        open_run(journal, _SCHEMA, _describe(model, asked, reverse))
        done, ahead = list(read_lines(journal, _read_line)), look_ahead(asked.methods)
        if any(each.keys() != done[0].keys() for each in done):
            raise InputError(
                f"The lines of {journal} differ in methods.", "Delete it: all is computed again."
            )
        for start in range(len(done), len(asked.words), ahead):
            window = asked.words[start : start + ahead]
            found = _align_window(models, window, wanted, asked.languages, start)
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


@dataclass(frozen=True)
class _Pair:
    """A pair, with its scores in all ways."""

    prepared: Prepared | None
    scores: Mapping[Settings, Float[Tensor, "_target _source"]]


def _align_window(
    models: Sequence[Model],
    pairs: Sequence[tuple[list[str], list[str]]],
    wanted: Sequence[Settings],
    languages: tuple[str | None, str | None],
    first: int,
) -> list[_Found]:
    """Align some pairs in all ways; with a second model also backward and symmetrised."""
    forward = _measure_window(models[0], pairs, wanted, languages, first)
    if len(models) == 1:
        return [_link(pair, wanted) for pair in forward]
    turned = [(target, source) for source, target in pairs]
    shared = [way for way in wanted if (way.block or 1) <= len(models[1].blocks)]
    backward = _measure_window(models[1], turned, shared, languages[::-1], first)
    return [
        _link(own, wanted) | _link_both(own, back, shared)
        for own, back in zip(forward, backward, strict=True)
    ]


def _measure_window(
    model: Model,
    pairs: Sequence[tuple[list[str], list[str]]],
    wanted: Sequence[Settings],
    languages: tuple[str | None, str | None],
    first: int,
) -> list[_Pair]:
    prepared = prepare_all(model, pairs, languages, first)
    found = [_Pair(each, {}) for each in prepared]
    for batch in cut(model, prepared):
        own = [each for each in (prepared[index] for index in batch) if each is not None]
        measured = measure_words(model, own, wanted)
        for place, (index, pair) in enumerate(zip(batch, own, strict=True)):
            found[index] = _Pair(pair, {way: measured[way][place] for way in wanted})
    return found


def _link(pair: _Pair, wanted: Sequence[Settings]) -> _Found:
    """Link a pair in all ways, by every kind of links."""
    return {
        _key(way, kind): frozenset(_choose(pair, way, linking))
        for kind, linking in KINDS.items()
        for way in wanted
    }


def _choose(pair: _Pair, way: Settings, linking: Linking) -> tuple[Link, ...]:
    if pair.prepared is None:
        return ()
    scores = pair.scores[way]
    return link_words(scores, find_evidence(way.method, scores), pair.prepared.written, linking)


def _link_both(own: _Pair, back: _Pair, shared: Sequence[Settings]) -> _Found:
    """Return the alignment of the reverse direction, and both symmetrised: by their links, and by scores."""
    found: _Found = {}
    for way in shared:
        forward = _choose(own, way, KINDS[FORWARD])
        backward = [link[::-1] for link in _choose(back, way, KINDS[FORWARD])]
        found[_key(way, "backward")] = frozenset(backward)
        found |= {_key(way, name): symmetrise(forward, backward, name) for name in LINK_SYMMETRISATIONS}
        turned = [link[::-1] for link in _choose(back, way, KINDS[MUTUAL])]
        found[_key(way, "backward, mutual")] = frozenset(turned)
        for kind in (MUTUAL, DEFAULT):
            found[_key(way, f"{SCORES}, {kind}")] = frozenset(_sum_up(own, back, way, KINDS[kind]))
    return found


def _sum_up(own: _Pair, back: _Pair, way: Settings, linking: Linking) -> tuple[Link, ...]:
    if own.prepared is None or back.prepared is None:
        return ()
    scores = own.scores[way], back.scores[way]
    prepared = own.prepared.written, back.prepared.written
    return link_together(way.method, scores, prepared, linking)[1]


def _describe(model: Model, asked: Asked, reverse: Model | None) -> dict[str, Any]:
    gold = [[sorted(links.sure), sorted(links.possible)] for links in asked.gold.sentences]
    written = json.dumps([asked.words, gold])
    return {
        "model": model.name,
        "weights": fingerprint_network(model.network)[:12],
        "dtype": str(model.dtype),
        "reverse": None if reverse is None else reverse.name,
        "reverse weights": None if reverse is None else fingerprint_network(reverse.network)[:12],
        "methods": list(asked.methods),
        "languages": list(asked.languages),
        "sentences": len(asked.words),
        "content": hashlib.sha256(written.encode()).hexdigest(),
    }


def _write_line(found: _Found) -> str:
    return json.dumps({key: sorted(links) for key, links in found.items()})


def _read_line(line: Mapping[str, Any]) -> _Found:
    for key in line:
        _read_key(key)
    return {key: frozenset((int(own), int(other)) for own, other in links) for key, links in line.items()}


def _add_up(model: Model, asked: Asked, done: Sequence[_Found]) -> AlignmentReport:
    known = asked.gold.sentences
    golds = [known[index] if index < len(known) else Links() for index in range(len(done))]
    measured = []
    for key in done[0] if done else []:
        settings, direction = _read_key(key)
        pairs: Callable[[str], Iterator[tuple[frozenset[Link], Links]]] = lambda key: (  # noqa: E731
            (each[key], gold) for each, gold in zip(done, golds, strict=True)
        )
        scores = [score_links([pair]) for pair in pairs(key)]
        measured.append(Measured(settings, direction, sum(scores, Score(0, 0, 0, 0)), find_interval(scores)))
    return AlignmentReport(model.name, len(done), tuple(measured))
