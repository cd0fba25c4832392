"""Align words: one pair, or many in batches."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import InputError
from ..models.model import Model
from ..pipeline.one_translation import require_translator
from ..runs.batches import cut_batches
from .alignment import CHOICES, Alignment, align_words
from .links import Link
from .preparing import Prepared, SentenceText, prepare
from .smoothgrad import smooth_gradients
from .symmetry import symmetrise
from .token_scores import MEASURES, STEPS, Recorded, record_prepared

__all__ = [
    "ALIGNMENT_METHODS",
    "Settings",
    "align",
    "align_all",
    "align_pair",
    "choose_settings",
    "cut",
    "look_ahead",
    "measure_words",
    "prepare_all",
]

ALIGNMENT_METHODS = (
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
_ROWS = 512
"""Most decoder steps, and most source tokens, of a batch, including padding."""
_AHEAD = 64
_logger = logging.getLogger("whyword")


@dataclass(frozen=True)
class Settings:
    """How words are aligned."""

    method: str
    step: str
    block: int | None
    """Counted from 1; None: summed over all, or a method without blocks."""
    links: str = "best"
    """One of CHOICES."""


def align(
    model: Model,
    source: SentenceText,
    translation: SentenceText,
    *,
    method: str = "logit",
    block: int | None = None,
    step: str = "output",
    links: str = "best",
    source_language: str | None = None,
    target_language: str | None = None,
) -> Alignment:
    """Align the words of a translation with those of its source, teacher-forced.

    Both may be texts or lists of words; spaces separate the words of a text whose punctuation is tokenized.
    `block`: a decoder block, counted from 1; None: updates summed over all blocks; for methods that cannot be
    summed, the block that was best in our measurements, which is logged. `step`: where attention,
    vector-norms and distance are read: at the step that produces a word (output) or consumes it (input).
    `links`: "best" links every word of the translation, "mutual" only words that are each other's best.
    """
    settings = choose_settings(require_translator(model), method, block, step, links)
    return align_pair([model], (source, translation), settings, (source_language, target_language))


def align_pair(
    models: Sequence[Model],
    pair: tuple[SentenceText, SentenceText],
    settings: Settings,
    languages: tuple[str | None, str | None] = (None, None),
    way: str = "grow-diag-final",
) -> Alignment:
    """Align one pair; with a second model, for the reverse direction, the links of both are symmetrised."""
    (forward,) = align_all(models[0], [pair], settings, languages, numbered=False)
    if len(models) == 1:
        return forward
    (backward,) = align_all(models[1], [pair[::-1]], settings, languages[::-1], numbered=False)
    if (forward.source, forward.target) != (backward.target, backward.source):
        raise InputError(
            "The models read these texts as different words.",
            "Pass lists of words, or text with spaces between words.",
        )
    turned = [(source, target) for target, source in backward.links]
    links = symmetrise(forward.links, turned, way)
    return replace(forward, method=f"{forward.method}, {way}", links=tuple(sorted(links)))


def choose_settings(model: Model, method: str, block: int | None, step: str, links: str = "best") -> Settings:
    """Refuse settings that contradict each other, and choose a block where one is needed."""
    if method not in ALIGNMENT_METHODS:
        raise InputError(
            f"There is no method {method!r} for alignments.", f"Methods: {', '.join(ALIGNMENT_METHODS)}."
        )
    if step not in STEPS:
        raise InputError(f"step is {step!r}.", f"Steps: {', '.join(STEPS)}.")
    if links not in CHOICES:
        raise InputError(f"links is {links!r}.", f"Links: {', '.join(CHOICES)}.")
    blocks = len(model.blocks)
    measure = MEASURES.get(method)
    if step == "input" and (measure is None or "input" not in measure.steps):
        raise InputError(
            f"{method} is read at the step that produces a word.",
            "step='input' is for attention, vector-norms and distance.",
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
    return Settings(method, step, block, links)


def align_all(
    model: Model,
    pairs: Sequence[tuple[SentenceText, SentenceText]],
    settings: Settings,
    languages: tuple[str | None, str | None] = (None, None),
    *,
    first: int = 0,
    numbered: bool = True,
) -> Iterator[Alignment]:
    """Align pairs, in order, with one run of the network per batch of similar length.

    `numbered`: an error names the pair by its line, counted from `first`.
    """
    ahead = look_ahead([settings.method])
    for start in range(0, len(pairs), ahead):
        window = pairs[start : start + ahead]
        prepared = prepare_all(model, window, languages, first + start if numbered else None)
        found: dict[int, Alignment] = {}
        for batch in cut(prepared):
            own = [prepared[index] for index in batch]
            measured = measure_words(model, [each for each in own if each is not None], [settings])
            for index, scores in zip(batch, measured[settings], strict=True):
                found[index] = _finish(model, prepared[index], scores, settings)
        for index in range(len(window)):
            yield found.get(index) or _finish(model, None, torch.zeros(0, 0), settings)


def look_ahead(methods: Sequence[str]) -> int:
    """Return how many pairs are read ahead, to find some of similar length.

    smoothgrad takes up to minutes per pair and gains nothing from batches: each pair is yielded when done.
    """
    return 1 if "smoothgrad" in methods else _AHEAD


def prepare_all(
    model: Model,
    pairs: Sequence[tuple[SentenceText, SentenceText]],
    languages: tuple[str | None, str | None],
    first: int | None,
) -> list[Prepared | None]:
    """Read pairs; an error names the line, counted from `first` where that is given."""
    prepared = []
    for number, (source, target) in enumerate(pairs):
        try:
            prepared.append(prepare(model, source, target, languages))
        except InputError as error:
            if first is None:
                raise
            raise InputError(f"Line {first + number + 1}: {error.wrong}", error.remedy) from None
    return prepared


def cut(prepared: Sequence[Prepared | None]) -> list[list[int]]:
    """Cut pairs into batches of similar length, without empty ones."""
    sizes = {
        index: (len(each.read), len(each.pair.source))
        for index, each in enumerate(prepared)
        if each is not None
    }
    return cut_batches(
        list(sizes),
        sizes.__getitem__,
        lambda batch: len(batch) * max(max(sizes[index]) for index in batch) <= _ROWS,
    )


def measure_words(
    model: Model, pairs: Sequence[Prepared], wanted: Sequence[Settings]
) -> dict[Settings, list[Float[Tensor, "_target_word _source_word"]]]:
    """Score every pair of words of several sentence pairs in several ways, from one recorded run."""
    methods = list(dict.fromkeys(settings.method for settings in wanted))
    recorded = None
    if any(method in MEASURES for method in methods):
        recorded = record_prepared(model, pairs, [method for method in methods if method in MEASURES])
    found: dict[Settings, list[Tensor]] = {}
    for method in methods:
        ways = [settings for settings in wanted if settings.method == method]
        if method not in MEASURES:
            gradients = [smooth_gradients(model, pair) @ pair.source_shares.T for pair in pairs]
            found.update(dict.fromkeys(ways, gradients))
            continue
        assert recorded is not None
        measured = MEASURES[method].measure(recorded)
        for settings in ways:
            found[settings] = [_to_words(recorded, index, measured, settings) for index in range(len(pairs))]
    return found


def _to_words(
    recorded: Recorded, index: int, measured: Float[Tensor, "position block source"], settings: Settings
) -> Float[Tensor, "target_word source_word"]:
    """Sum over the tokens of words, each weighted by the word's share of it."""
    pair, each = recorded.pairs[index], recorded.trace.places.each
    start = index * each + STEPS.index(settings.step)
    rows = measured[start : start + pair.target_shares.shape[1], :, : len(pair.pair.source)]
    tokens = rows.sum(1) if settings.block is None else rows[:, settings.block - 1]
    return pair.target_shares @ tokens @ pair.source_shares.T


def _finish(
    model: Model, prepared: Prepared | None, scores: Float[Tensor, "target source"], settings: Settings
) -> Alignment:
    source, target = ((), ()) if prepared is None else (prepared.source_words, prepared.target_words)
    links: tuple[Link, ...] = ()
    if prepared is not None:
        links = align_words(scores, (prepared.target_shares, prepared.source_shares), settings.links)
    return Alignment(
        model=model.name,
        method=settings.method if settings.links == "best" else f"{settings.method}, {settings.links}",
        step=settings.step,
        block=settings.block,
        source=source,
        target=target,
        scores=scores.float(),
        links=links,
    )
