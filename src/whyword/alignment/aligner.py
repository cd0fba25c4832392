"""Align words: one pair, or many in batches; with one model, or with one of each direction."""

import time
from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ..errors import InputError
from ..models.model import Model
from ..pipeline.one_translation import require_translator
from .alignment import Alignment
from .confidence import estimate_confidence
from .linking import Linking, link_words, read_linking
from .links import Link
from .method_choice import choose_settings
from .preparing import Prepared, SentenceText
from .symmetry import SCORES, SYMMETRISATIONS, symmetrise
from .throughput import Meter
from .word_scores import (
    COMBINED,
    Refused,
    Settings,
    cut,
    find_evidence,
    look_ahead,
    measure_words,
    prepare_each,
)

__all__ = [
    "align",
    "align_all",
    "align_each",
    "align_pair",
    "link_together",
]


def align(
    model: Model,
    source: SentenceText,
    translation: SentenceText,
    *,
    reverse: Model | None = None,
    method: str = COMBINED,
    block: int | None = None,
    step: str = "output",
    links: str = "mutual",
    recall: float | None = None,
    null: float | None = None,
    words: str = "auto",
    symmetrise: str = SCORES,
    source_language: str | None = None,
    target_language: str | None = None,
) -> Alignment:
    """Align the words of a translation with those of its source, teacher-forced.

    Both may be texts or lists of words; spaces separate the words of a text whose punctuation is tokenized.
    `words`: "spaces" always splits there, "characters" makes every character of a script without spaces a
    word. `reverse`: a model of the other direction; `symmetrise` says how both are joined. `block`: a decoder
    block, counted from 1; None: all blocks, or the one that was best in our measurements, which is logged.
    `step`: where attention, vector-norms and distance are read: at the step that produces a word (output) or
    consumes it (input). `links`: "mutual" links words that are each other's best, and more of them the higher
    `recall` is (0 to 1); pairs with less evidence than `null` have no link. "best" links every word of the
    translation.
    """
    settings = choose_settings(
        require_translator(model), method, block, step, read_linking(links, recall, null)
    )
    models = [model, *([] if reverse is None else [require_translator(reverse)])]
    languages = source_language, target_language
    return align_pair(models, (source, translation), settings, languages, symmetrise, words)


def align_pair(
    models: Sequence[Model],
    pair: tuple[SentenceText, SentenceText],
    settings: Settings,
    languages: tuple[str | None, str | None] = (None, None),
    way: str = SCORES,
    words: str = "auto",
) -> Alignment:
    """Align one pair; with a second model, for the reverse direction, both are symmetrised."""
    (found,) = align_each(models, [pair], settings, languages, way, words)
    if isinstance(found, Refused):
        raise found.error
    return found


def align_all(
    model: Model,
    pairs: Sequence[tuple[SentenceText, SentenceText]],
    settings: Settings,
    languages: tuple[str | None, str | None] = (None, None),
    *,
    first: int = 0,
) -> Iterator[Alignment]:
    """Align pairs, in order; an error names the pair by its line, counted from `first`."""
    ahead = look_ahead([settings.method])
    for start in range(0, len(pairs), ahead):
        window = pairs[start : start + ahead]
        for number, found in enumerate(align_each([model], window, settings, languages), first + start + 1):
            if isinstance(found, Refused):
                raise InputError(f"Line {number}: {found.error.wrong}", found.error.remedy) from None
            yield found


def align_each(
    models: Sequence[Model],
    pairs: Sequence[tuple[SentenceText, SentenceText]],
    settings: Settings,
    languages: tuple[str | None, str | None] = (None, None),
    way: str = SCORES,
    words: str = "auto",
    *,
    meter: Meter | None = None,
) -> list[Alignment | Refused]:
    """Align some pairs, with one run of each network per batch of similar length; `meter` is told of each."""
    if way not in SYMMETRISATIONS:
        raise InputError(f"There is no symmetrisation {way!r}.", f"Ways: {', '.join(SYMMETRISATIONS)}.")
    forward, prepared = _measure_each(models[0], pairs, settings, languages, words, meter)
    if len(models) == 1:
        return [
            _finish(models, each, scores, settings) for each, scores in zip(prepared, forward, strict=True)
        ]
    turned = [(target, source) for source, target in pairs]
    backward, read = _measure_each(models[1], turned, settings, languages[::-1], words, meter)
    return [
        _join(models, (each, other), (own, back), settings, way)
        for each, other, own, back in zip(prepared, read, forward, backward, strict=True)
    ]


_Scores = Float[Tensor, "_target _source"]


def _measure_each(
    model: Model,
    pairs: Sequence[tuple[SentenceText, SentenceText]],
    settings: Settings,
    languages: tuple[str | None, str | None],
    words: str,
    meter: Meter | None,
) -> tuple[list[_Scores], list[Prepared | Refused | None]]:
    prepared = prepare_each(model, pairs, languages, words)
    found = [torch.zeros(0, 0, dtype=torch.float32, device="cpu")] * len(pairs)
    for batch in cut(model, prepared):
        own = [each for each in (prepared[index] for index in batch) if isinstance(each, Prepared)]
        start = time.perf_counter()
        for index, scores in zip(batch, measure_words(model, own, [settings])[settings], strict=True):
            found[index] = scores
        if meter is not None:
            meter.note(model, own, time.perf_counter() - start)
    return found, prepared


def _finish(
    models: Sequence[Model],
    prepared: Prepared | Refused | None,
    scores: _Scores,
    settings: Settings,
) -> Alignment | Refused:
    if isinstance(prepared, Refused):
        return prepared
    if prepared is None:
        none = torch.zeros(0, 0, dtype=torch.float32, device="cpu")
        return _give(models, ((), ()), none, (), settings)
    evidence = find_evidence(settings.method, scores)
    links = link_words(scores, evidence, prepared.written, settings.linking)
    sides = prepared.source_words, prepared.target_words
    return _give(models, sides, scores, links, settings, evidence)


def _join(
    models: Sequence[Model],
    prepared: tuple[Prepared | Refused | None, Prepared | Refused | None],
    scores: tuple[_Scores, _Scores],
    settings: Settings,
    way: str,
) -> Alignment | Refused:
    """Symmetrise both directions: the mean of their evidence, or the links of each."""
    own, other = prepared
    if not isinstance(own, Prepared) or not isinstance(other, Prepared):
        refused = next((each for each in prepared if isinstance(each, Refused)), None)
        return refused or _finish(models, None, scores[0], settings)
    if (own.source_words, own.target_words) != (other.target_words, other.source_words):
        return Refused(
            InputError(
                "The models read these texts as different words.",
                "Pass lists of words, or text with spaces between words.",
            )
        )
    both = own.written, other.written
    evidence, links = link_together(settings.method, scores, both, settings.linking)
    if way != SCORES:
        forward, backward = (
            link_words(each, find_evidence(settings.method, each), written, settings.linking)
            for each, written in zip(scores, both, strict=True)
        )
        links = tuple(sorted(symmetrise(forward, [link[::-1] for link in backward], way)))
    sides = own.source_words, own.target_words
    return _give(models, sides, evidence, links, settings, evidence, way)


_Written = tuple[Bool[Tensor, " _target"], Bool[Tensor, " _source"]]


def link_together(
    method: str, scores: tuple[_Scores, _Scores], written: tuple[_Written, _Written], linking: Linking
) -> tuple[_Scores, tuple[Link, ...]]:
    """Return the mean evidence of both directions, and its links.

    `scores`, `written`: of the forward direction, and of the backward one, which reads the translation.
    """
    forward, backward = (find_evidence(method, each) for each in scores)
    evidence = (forward + backward.T.to(forward)) / 2
    (targets, sources), (own, other) = written
    return evidence, link_words(evidence, evidence, (targets & other, sources & own), linking)


def _give(
    models: Sequence[Model],
    sides: tuple[tuple[str, ...], tuple[str, ...]],
    scores: _Scores,
    links: tuple[Link, ...],
    settings: Settings,
    evidence: _Scores | None = None,
    way: str | None = None,
) -> Alignment:
    known = settings.method == COMBINED and evidence is not None
    climbs = known and settings.linking.choice == "mutual" and way in (None, SCORES)
    joined = "" if way is None else f", {way} of both directions"
    return Alignment(
        model=" and ".join(model.name for model in models),
        method=f"{settings.method}, {settings.linking}{joined}",
        step=settings.step,
        block=settings.block,
        source=sides[0],
        target=sides[1],
        scores=scores.float(),
        links=links,
        confidence=estimate_confidence(evidence, links) if known and evidence is not None else None,
        linking=settings.linking if climbs else None,
    )
