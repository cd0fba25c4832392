"""Align words: one pair, or many in batches; with one model, or with one of each direction."""

import logging
from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import InputError
from ..models.model import Model
from ..pipeline.one_translation import require_translator
from .alignment import Alignment
from .confidence import estimate_confidence
from .linking import Linking, link_words, read_linking
from .preparing import Prepared, SentenceText
from .symmetry import SCORES, SYMMETRISATIONS, symmetrise
from .token_scores import MEASURES, STEPS
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
    "ALIGNMENT_METHODS",
    "align",
    "align_all",
    "align_each",
    "align_pair",
    "choose_settings",
]

ALIGNMENT_METHODS = (
    COMBINED,
    "attention",
    "vector-norms",
    "distance",
    "smoothgrad",
    "logit",
    "logit-raw",
    "alti-logit",
)
BEST_DEPTH = {
    ("attention", "output"): 5 / 6,
    ("attention", "input"): 3 / 6,
    ("vector-norms", "output"): 5 / 6,
    ("vector-norms", "input"): 3 / 6,
    ("distance", "output"): 5 / 6,
    ("distance", "input"): 2 / 6,
}
"""The default block of methods whose blocks cannot be summed: the best of the six blocks of OPUS-MT by
`whyword evaluate alignment` (docs/alignment.md), as a share of the decoder's depth."""
_logger = logging.getLogger("whyword")


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


def choose_settings(
    model: Model, method: str, block: int | None, step: str, linking: Linking = Linking()
) -> Settings:
    """Refuse settings that contradict each other, and choose a block where one is needed."""
    if method not in ALIGNMENT_METHODS:
        raise InputError(
            f"There is no method {method!r} for alignments.", f"Methods: {', '.join(ALIGNMENT_METHODS)}."
        )
    if step not in STEPS:
        raise InputError(f"step is {step!r}.", f"Steps: {', '.join(STEPS)}.")
    blocks = len(model.blocks)
    measure = MEASURES.get(method)
    if step == "input" and (measure is None or "input" not in measure.steps):
        where = "both steps" if method == COMBINED else "the step that produces a word"
        raise InputError(
            f"{method} is read at {where}.", "step='input' is for attention, vector-norms and distance."
        )
    if block is not None and measure is None:
        raise InputError(f"{method} has no blocks, but block is {block}.", "Leave block out.")
    if block is not None and not 1 <= block <= blocks:
        raise InputError(f"block is {block}.", f"{model.name} has decoder blocks 1 to {blocks}.")
    if block is None and measure is not None and not measure.adds_up:
        block = min(blocks, max(1, round(BEST_DEPTH[method, step] * blocks)))
        _logger.info(
            f"{method} cannot be summed over blocks: using decoder block {block} of {blocks}, where "
            f"it aligned best at the {step} step in our measurements."
        )
    return Settings(method, step, block, linking)


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
) -> list[Alignment | Refused]:
    """Align some pairs, with one run of each network per batch of similar length."""
    if way not in SYMMETRISATIONS:
        raise InputError(f"There is no symmetrisation {way!r}.", f"Ways: {', '.join(SYMMETRISATIONS)}.")
    forward, prepared = _measure_each(models[0], pairs, settings, languages, words)
    if len(models) == 1:
        return [
            _finish(models, each, scores, settings) for each, scores in zip(prepared, forward, strict=True)
        ]
    turned = [(target, source) for source, target in pairs]
    backward, read = _measure_each(models[1], turned, settings, languages[::-1], words)
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
) -> tuple[list[_Scores], list[Prepared | Refused | None]]:
    prepared = prepare_each(model, pairs, languages, words)
    found = [torch.zeros(0, 0)] * len(pairs)
    for batch in cut(prepared):
        own = [each for each in (prepared[index] for index in batch) if isinstance(each, Prepared)]
        for index, scores in zip(batch, measure_words(model, own, [settings])[settings], strict=True):
            found[index] = scores
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
        return _give(models, ((), ()), torch.zeros(0, 0), (), settings)
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
    forward, backward = find_evidence(settings.method, scores[0]), find_evidence(settings.method, scores[1]).T
    evidence = (forward + backward.to(forward)) / 2
    targets, sources = own.written
    if way == SCORES:
        written = targets & other.written[1], sources & other.written[0]
        links = link_words(evidence, evidence, written, settings.linking)
    else:
        each = link_words(scores[0], forward, own.written, settings.linking)
        back = link_words(scores[1], backward.T, other.written, settings.linking)
        links = tuple(sorted(symmetrise(each, [link[::-1] for link in back], way)))
    sides = own.source_words, own.target_words
    return _give(models, sides, evidence, links, settings, evidence, f", {way} of both directions")


def _give(
    models: Sequence[Model],
    sides: tuple[tuple[str, ...], tuple[str, ...]],
    scores: _Scores,
    links: tuple[tuple[int, int], ...],
    settings: Settings,
    evidence: _Scores | None = None,
    joined: str = "",
) -> Alignment:
    known = settings.method == COMBINED and evidence is not None
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
    )
