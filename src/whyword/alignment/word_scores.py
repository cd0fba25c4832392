"""Scores of words for words: pairs read and cut into batches of similar length, each recorded in one run."""

from collections.abc import Sequence
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from ..errors import InputError
from ..models.model import Model
from ..runs.batches import cut_batches
from ..trace.untouched_run import must_run_alone
from .agreeing_heads import combine
from .linking import LINKING, Linking, share_both_sides
from .preparing import Prepared, SentenceText, prepare
from .smoothgrad import smooth_gradients
from .token_scores import MEASURES, STEPS, Recorded, record_prepared

__all__ = [
    "COMBINED",
    "Refused",
    "Settings",
    "cut",
    "find_evidence",
    "look_ahead",
    "measure_words",
    "prepare_all",
    "prepare_each",
]

COMBINED = "combined"
_ROWS = 512
"""Most decoder steps, and most source tokens, of a batch, including padding."""
_AHEAD = 256


@dataclass(frozen=True)
class Settings:
    """How words are aligned."""

    method: str
    step: str
    block: int | None
    """Counted from 1; None: summed over all, or a method without blocks."""
    linking: Linking = LINKING
    """How links are chosen."""


@dataclass(frozen=True)
class Refused:
    """A pair that cannot be aligned, and why."""

    error: InputError


def look_ahead(methods: Sequence[str]) -> int:
    """Return how many pairs are read ahead, to find some of similar length.

    smoothgrad takes up to minutes per pair and gains nothing from batches: each pair is yielded when done.
    """
    return 1 if "smoothgrad" in methods else _AHEAD


def prepare_each(
    model: Model,
    pairs: Sequence[tuple[SentenceText, SentenceText]],
    languages: tuple[str | None, str | None],
    words: str = "auto",
) -> list[Prepared | Refused | None]:
    """Read pairs; None where one side is empty, and an error where a pair cannot be read."""
    prepared: list[Prepared | Refused | None] = []
    for source, target in pairs:
        try:
            prepared.append(prepare(model, source, target, languages, words))
        except InputError as error:
            prepared.append(Refused(error))
    return prepared


def prepare_all(
    model: Model,
    pairs: Sequence[tuple[SentenceText, SentenceText]],
    languages: tuple[str | None, str | None],
    first: int | None,
    words: str = "auto",
) -> list[Prepared | None]:
    """Read pairs; an error names the line, counted from `first` where that is given."""
    prepared: list[Prepared | None] = []
    for number, found in enumerate(prepare_each(model, pairs, languages, words)):
        if isinstance(found, Refused):
            where = "" if first is None else f"Line {first + number + 1}: "
            raise InputError(f"{where}{found.error.wrong}", found.error.remedy) from None
        prepared.append(found)
    return prepared


def cut(model: Model, prepared: Sequence[Prepared | Refused | None]) -> list[list[int]]:
    """Cut pairs into batches of similar length, without empty and refused ones."""
    rows = 0 if must_run_alone(model) else _ROWS
    sizes = {
        index: (len(each.read), len(each.pair.source))
        for index, each in enumerate(prepared)
        if isinstance(each, Prepared)
    }
    return cut_batches(
        list(sizes),
        sizes.__getitem__,
        lambda batch: len(batch) * max(max(sizes[index]) for index in batch) <= rows,
    )


def measure_words(
    model: Model, pairs: Sequence[Prepared], wanted: Sequence[Settings]
) -> dict[Settings, list[Float[Tensor, "_target_word _source_word"]]]:
    """Score every pair of words of several sentence pairs in several ways, from one recorded run."""
    methods = list(dict.fromkeys(settings.method for settings in wanted))
    read = ["logit" if method == COMBINED else method for method in methods]
    recorded = None
    if any(method in MEASURES for method in read):
        recorded = record_prepared(model, pairs, [method for method in read if method in MEASURES])
    found: dict[Settings, list[Tensor]] = {}
    for method in methods:
        ways = [settings for settings in wanted if settings.method == method]
        if method == COMBINED:
            assert recorded is not None
            found.update(dict.fromkeys(ways, _combine_all(recorded)))
            continue
        if method not in MEASURES:
            gradients = [smooth_gradients(model, pair) @ pair.source_shares.T for pair in pairs]
            found.update(dict.fromkeys(ways, gradients))
            continue
        assert recorded is not None
        measured = MEASURES[method].measure(recorded)
        for settings in ways:
            found[settings] = [_to_words(recorded, index, measured, settings) for index in range(len(pairs))]
    return found


def find_evidence(method: str, scores: Float[Tensor, "target source"]) -> Float[Tensor, "target source"]:
    """Return what mutual links are found by: shares of both sides, which `combined` consists of already."""
    return scores if method == COMBINED else share_both_sides(scores)


def _combine_all(recorded: Recorded) -> list[Float[Tensor, "_target_word _source_word"]]:
    updates = MEASURES["logit"].measure(recorded).sum(1)
    attention, each = recorded.trace.decoder.cross_attention.weights, recorded.trace.places.each
    found = []
    for index, pair in enumerate(recorded.pairs):
        steps, sources = pair.target_shares.shape[1], len(pair.pair.source)
        start = index * each
        consumed = [weights[start + 1 : start + 1 + steps, :, :sources].cpu() for weights in attention]
        produced = updates[start : start + steps, :sources]
        found.append(combine(produced, consumed, (pair.target_shares, pair.source_shares)))
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
