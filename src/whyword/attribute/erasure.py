"""Erasure: what is lost of a prediction without one token of its context [section 4 of the paper].

    score[s] = (p_w − p_w without s) − (p_f − p_f without s)        p: probabilities, or logits

A token is hidden by a zero in the attention mask, as published, or deleted. What a mask does to positions is
the model's own business: GPT-2 and Llama keep them, OPT and BLOOM count them anew. Masked or not, a position
sees nothing after it, so one run without s serves every later position that is explained.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import InputError
from ..ledger import Target, contrast, read_choices
from ..models.model import Model
from ..runs.progress import report
from ..trace import Inputs, Places, Readout, pad, read_out
from ..trace.memory_plan import free_memory

__all__ = ["WAYS", "Chances", "Erasure", "erase", "erase_each", "read_chances", "score_loss"]

_TOKENS = {"cpu": 1024}
"""Tokens of a run by device: beyond so many a processor is no faster."""
_MOST_TOKENS = 16384
_SHARE = 0.25
"""The share of free memory that a run may take."""


@dataclass(frozen=True)
class Erasure:
    """A prediction, and sets of positions that are erased from its context, one set at a time."""

    ids: Sequence[int]
    target: Target
    sets: Sequence[Collection[int]]


@dataclass(frozen=True)
class Chances:
    """What the model gives target and foils (`choice`: the target first), one row for each input."""

    logits: Float[Tensor, "input choice"]
    """Before they are capped."""
    probabilities: Float[Tensor, "input choice"]


@dataclass(frozen=True)
class Variant:
    """An altered input, and the positions where its predictions are read."""

    ids: tuple[int, ...]
    hidden: frozenset[int]
    """Positions that attention does not see."""
    read: range
    targets: tuple[Target, ...]
    """One for each position that is read."""


def hide(ids: Sequence[int], positions: Collection[int], read: range, targets: Sequence[Target]) -> Variant:
    """Hide positions by the attention mask."""
    return Variant(tuple(ids), frozenset(positions), read, tuple(targets))


def delete(ids: Sequence[int], positions: Collection[int], read: range, targets: Sequence[Target]) -> Variant:
    """Delete positions: what follows moves up, and the last token that is left predicts."""
    kept = tuple(id_ for place, id_ in enumerate(ids) if place not in positions)
    moved = range(read.start - len(positions), read.stop - len(positions))
    return Variant(kept, frozenset(), moved, tuple(targets))


WAYS: Mapping[str, Callable[[Sequence[int], Collection[int], range, Sequence[Target]], Variant]] = {
    "mask": hide,
    "deletion": delete,
}
"""The ways to erase tokens."""


def erase(model: Model, erasures: Sequence[Erasure], way: str = "mask") -> list[Chances]:
    """Give logits and probabilities of target and foils with sets of tokens erased; what faithfulness needs.

    All inputs of all erasures are run together, in batches as large as pay. The empty set gives the
    prediction itself. A set cannot be the whole context: nothing would be left to predict from.
    """
    variants = []
    for erasure in erasures:
        last = range(len(erasure.ids) - 1, len(erasure.ids))
        for positions in map(frozenset, erasure.sets):
            _require_positions(positions, len(erasure.ids))
            variants.append(WAYS[way](erasure.ids, positions, last, [erasure.target]))
    read, found = iter(_run_variants(model, variants)), []
    for erasure in erasures:
        own = [next(read) for _ in erasure.sets]
        empty = torch.empty(0, len(erasure.target.choices))
        found.append(
            Chances(
                torch.cat([each.logits for each in own]) if own else empty,
                torch.cat([each.probabilities for each in own]) if own else empty,
            )
        )
    return found


def _require_positions(positions: frozenset[int], count: int) -> None:
    if positions and not 0 <= min(positions) <= max(positions) < count:
        raise InputError(
            f"The positions {sorted(positions)} are to be erased from {count} tokens.",
            f"Positions go from 0 to {count - 1}.",
        )
    if len(positions) >= count:
        raise InputError(f"All {count} tokens are to be erased.", "Leave at least one to predict from.")


def erase_each(
    model: Model, prompts: Sequence[Sequence[int]], places: Places, targets: Sequence[Target], way: str
) -> list[Chances | None]:
    """Give every prediction without each token of its context, one row for each.

    None for a context of one token: without it nothing is left to predict from.
    """
    varied = _vary(prompts, places, targets, way)
    read = iter(_run_variants(model, [variant for own in varied for variant in own]))
    by_example = [[next(read) for _ in own] for own in varied]
    found: list[Chances | None] = []
    for own, positions in zip(by_example, places.ranges, strict=True):
        first = max(1, positions.start)
        for position in positions:
            rows = own[: position + 1] if position > 0 else []
            found.append(
                Chances(
                    torch.stack([each.logits[position - first] for each in rows]),
                    torch.stack([each.probabilities[position - first] for each in rows]),
                )
                if rows
                else None
            )
    return found


def score_loss(
    whole: Float[Tensor, " choice"], without: Float[Tensor, "source choice"], target: Target
) -> Float[Tensor, " source"]:
    """Score each token by what is lost without it of the target, minus the mean of the foils."""
    lost = whole[: without.shape[1]] - without
    return contrast(lost, [target] * len(lost))


def _vary(
    prompts: Sequence[Sequence[int]], places: Places, targets: Sequence[Target], way: str
) -> list[list[Variant]]:
    """List the inputs without each token, by example; what is predicted from one token alone is left out."""
    varied = []
    for example, (ids, positions) in enumerate(zip(prompts, places.ranges, strict=True)):
        own = targets[example * places.each : (example + 1) * places.each]
        skipped = 1 if positions.start == 0 else 0
        read = positions[skipped:]
        varied.append([WAYS[way](ids, {source}, read, own[skipped:]) for source in range(len(ids)) if read])
    return varied


def _run_variants(model: Model, variants: Sequence[Variant]) -> list[Chances]:
    """Run altered inputs in batches of like length, and read what becomes of their targets."""
    found: dict[int, Chances] = {}
    for batch in _cut(model, variants):
        own = [variants[place] for place in batch]
        chances = _run_batch(model, own)
        found.update(zip(batch, chances, strict=True))
        if len(variants) > len(batch):
            report("erased inputs", len(found), len(variants))
    return [found[place] for place in range(len(variants))]


def _cut(model: Model, variants: Sequence[Variant]) -> Iterator[list[int]]:
    """Cut inputs into batches, the longest first: what does not fit shows at once."""
    most = _TOKENS.get(model.device.type, _MOST_TOKENS)
    size, width = torch.finfo(model.compute_dtype).bits // 8, int(model.config.hidden_size)
    room = int(_SHARE * free_memory(model.device)) if variants else 0
    batch: list[int] = []
    for place in sorted(range(len(variants)), key=lambda place: -len(variants[place].ids)):
        tokens = (len(batch) + 1) * len(variants[batch[0] if batch else place].ids)
        rows = (len(batch) + 1) * len(variants[place].read)
        fits = size * (24 * tokens * width + 4 * rows * model.vocabulary) <= room
        if batch and not (tokens <= most and fits):
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch


@torch.no_grad()
def _run_batch(model: Model, variants: Sequence[Variant]) -> list[Chances]:
    ids = pad(model, [variant.ids for variant in variants])
    mask = None
    if any(variant.hidden for variant in variants):
        mask = torch.ones_like(ids)
        for row, variant in enumerate(variants):
            mask[row, list(variant.hidden)] = 0
    places = Places(tuple(variant.read for variant in variants))
    readout = read_out(model, places, Inputs(ids=ids, mask=mask))
    chances = read_chances(readout, [target for variant in variants for target in variant.targets])
    found, each = [], places.each
    for row, variant in enumerate(variants):
        own, choices = slice(row * each, (row + 1) * each), max(len(each.choices) for each in variant.targets)
        found.append(Chances(chances.logits[own, :choices], chances.probabilities[own, :choices]))
    return found


def read_chances(readout: Readout, targets: Sequence[Target]) -> Chances:
    """Read logits and probabilities of targets and foils, on the CPU."""
    normaliser = readout.logits.logsumexp(-1, keepdim=True)
    return Chances(
        read_choices(readout.uncapped, targets).cpu(),
        (read_choices(readout.logits, targets) - normaliser).exp().cpu(),
    )
