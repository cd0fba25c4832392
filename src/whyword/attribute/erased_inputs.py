"""Inputs without some of their tokens, and what a network predicts from them.

An erased token changes nothing before it. So where it is cheaper, and the network keeps keys and values as
they are, each input is run once, and what is left of it without a token only from there on: about half of the
work. The first such run of a kind is compared with whole runs; a network that gives something else is run
whole from then on.
"""

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Int
from torch import Tensor

from ..ledger import Likelihoods, Target, read_likelihoods
from ..maths.proof import tolerance_of
from ..models.model import Model
from ..runs.batches import cut_batches
from ..runs.progress import report
from ..trace import Inputs, Places, Readout, pad, read_out
from ..trace.kept_prefixes import KeptPrefixes, keep_prefixes, read_on
from ..trace.memory_plan import free_memory
from ..trace.network_state import is_intervened

__all__ = ["WAYS", "Variant", "run_variants"]

_TOKENS = {"cpu": 1024}
"""Tokens of a run by device: beyond so many a processor is no faster."""
_MOST_TOKENS = 16384
_FEW_TOKENS = {"cpu": 64}
"""A run of fewer tokens takes about as long as one of so many, by device."""
_PADDED = 1.25
"""How many times as long as the shortest the longest input of a larger batch may be."""
_SHARE = 0.25
"""The share of free memory that a run may take."""
_WHOLE = "erased inputs are run whole"
"""Among the kinds of run that were compared: that prefixes cannot be kept."""


@dataclass(frozen=True)
class Variant:
    """An altered input, and the positions where its predictions are read."""

    whole: tuple[int, ...]
    """The input as it was."""
    ids: tuple[int, ...]
    hidden: frozenset[int]
    """Positions that attention does not see."""
    read: range
    targets: tuple[Target, ...]
    """One for each position that is read."""

    @cached_property
    def alike(self) -> int:
        """How many positions hold what they hold in the whole input, or are not seen, before any is read."""
        pairs = zip(self.ids, self.whole, strict=False)
        differing = (place for place, (own, whole) in enumerate(pairs) if own != whole)
        end = next(differing, min(len(self.ids), len(self.whole)))
        first = min(self.hidden, default=end)
        if first < end:
            end = next((place for place in range(first, end) if place not in self.hidden), end)
        return min(end, self.read.start)


def hide(ids: Sequence[int], positions: Collection[int], read: range, targets: Sequence[Target]) -> Variant:
    """Hide positions by the attention mask."""
    return Variant(tuple(ids), tuple(ids), frozenset(positions), read, tuple(targets))


def delete(ids: Sequence[int], positions: Collection[int], read: range, targets: Sequence[Target]) -> Variant:
    """Delete positions: what follows moves up, and the last token that is left predicts."""
    kept = tuple(id_ for place, id_ in enumerate(ids) if place not in positions)
    moved = range(read.start - len(positions), read.stop - len(positions))
    return Variant(tuple(ids), kept, frozenset(), moved, tuple(targets))


WAYS: Mapping[str, Callable[[Sequence[int], Collection[int], range, Sequence[Target]], Variant]] = {
    "mask": hide,
    "deletion": delete,
}
"""The ways to erase tokens."""


def run_variants(model: Model, variants: Sequence[Variant]) -> list[Likelihoods]:
    """Run altered inputs in batches and read what becomes of their targets."""
    found: dict[int, Likelihoods] = {}
    if _may_keep(model):
        _note(found, variants, _run_from_prefixes(model, variants))
    left = [place for place in range(len(variants)) if place not in found]
    _note(found, variants, _run_whole(model, variants, left))
    return [found[place] for place in range(len(variants))]


Found = Iterator[tuple[Sequence[int], list[Likelihoods]]]
"""Batches of variants, by their places, and what was read of each."""


def _note(found: dict[int, Likelihoods], variants: Sequence[Variant], batches: Found) -> None:
    for batch, likelihoods in batches:
        found.update(zip(batch, likelihoods, strict=True))
        if len(variants) > len(batch):
            report("erased inputs", len(found), len(variants))


def _run_whole(model: Model, variants: Sequence[Variant], places: Sequence[int]) -> Found:
    for batch in _cut(model, variants, places):
        own = [variants[place] for place in batch]
        yield batch, _read_each(own, _read_whole(model, own))


def _cut(model: Model, variants: Sequence[Variant], places: Sequence[int], start: int = 0) -> list[list[int]]:
    """Cut inputs into batches of similar length; the longest go first: what does not fit shows at once.

    `start`: the first position that is run.
    """
    most, least = _TOKENS.get(model.device.type, _MOST_TOKENS), _count_least(model)
    size, width = torch.finfo(model.compute_dtype).bits // 8, int(model.config.hidden_size)
    room, alone = int(_SHARE * free_memory(model.device)) if places else 0, model.runs_alone

    def fits(batch: Sequence[int]) -> bool:
        longest, shortest = (len(variants[place].ids) for place in (batch[0], batch[-1]))
        if alone or model.lengths.find(longest) != model.lengths.find(shortest):
            return False
        tokens = len(batch) * (longest - start)
        if tokens > least and longest - start > _PADDED * (shortest - start):
            return False
        rows = len(batch) * len(variants[batch[-1]].read)
        return tokens <= most and size * (24 * tokens * width + 4 * rows * model.vocabulary) <= room

    return cut_batches(places, lambda place: -len(variants[place].ids), fits)


def _count_least(model: Model) -> int:
    return _FEW_TOKENS.get(model.device.type, _MOST_TOKENS // 8)


@torch.no_grad()
def _read_whole(model: Model, variants: Sequence[Variant]) -> Readout:
    ids, mask = _make_inputs(model, variants)
    return read_out(model, Places(tuple(variant.read for variant in variants)), Inputs(ids=ids, mask=mask))


def _may_keep(model: Model) -> bool:
    """Whether what was read of whole inputs may serve for altered ones.

    Not where a user's own code acts, which may do something else from a cache, and not in half precision,
    where matrices of another shape are rounded in another way.
    """
    return (
        model.encoder_stack is None
        and model.exactness.itemsize > 2
        and model.verify != "always"
        and _WHOLE not in model.lengths.compared
        and not is_intervened()
        and not model.runs_alone
    )


def _run_from_prefixes(model: Model, variants: Sequence[Variant]) -> Found:
    """Run altered inputs from where they differ from whole ones, as far as that is cheaper and right."""
    by_prompt: dict[tuple[int, ...], list[int]] = {}
    for place, variant in enumerate(variants):
        if model.lengths.find(len(variant.ids)) == model.lengths.find(len(variant.whole)):
            by_prompt.setdefault(variant.whole, []).append(place)
    for prompts in _cut_prompts(model, list(by_prompt)):
        places = [place for prompt in prompts for place in by_prompt[prompt]]
        batches = _cut_by_start(model, variants, places)
        if not _is_cheaper(model, variants, prompts, places, batches):
            continue
        kept = keep_prefixes(model, prompts)
        for batch in batches:
            own = [variants[place] for place in batch]
            readout = None if kept is None else _run_on(model, own, kept, prompts)
            if readout is None or not _is_as_whole(model, own, readout):
                model.lengths.compared.add(_WHOLE)
                return
            yield batch, _read_each(own, readout)


def _cut_prompts(model: Model, prompts: Sequence[tuple[int, ...]]) -> list[list[tuple[int, ...]]]:
    """Cut whole inputs into batches whose keys and values are kept together; leave out what is too large."""
    most = _TOKENS.get(model.device.type, _MOST_TOKENS)
    size, width = torch.finfo(model.compute_dtype).bits // 8, int(model.config.hidden_size)
    room = int(_SHARE * free_memory(model.device)) if prompts else 0

    def has_room(tokens: int) -> bool:
        return size * width * tokens * (24 + 2 * len(model.blocks)) <= room

    def fits(batch: Sequence[tuple[int, ...]]) -> bool:
        longest = len(batch[-1])
        alike = model.lengths.find(len(batch[0])) == model.lengths.find(longest)
        return alike and len(batch) * longest <= most and has_room(len(batch) * longest)

    return cut_batches([each for each in prompts if has_room(len(each))], len, fits)


def _cut_by_start(model: Model, variants: Sequence[Variant], places: Sequence[int]) -> list[list[int]]:
    """Cut altered inputs into batches that are run from the same position on."""
    by_start: dict[int, list[int]] = {}
    for place in places:
        by_start.setdefault(variants[place].alike, []).append(place)
    return [batch for start, own in sorted(by_start.items()) for batch in _cut(model, variants, own, start)]


def _is_cheaper(
    model: Model,
    variants: Sequence[Variant],
    prompts: Sequence[tuple[int, ...]],
    places: Sequence[int],
    batches: Sequence[Sequence[int]],
) -> bool:
    """Whether fewer tokens are run from prefixes than whole; a small run counts as one of some size."""
    least = _count_least(model)

    def count(batch: Sequence[int], start: int) -> int:
        return max(least, len(batch) * (max(len(variants[place].ids) for place in batch) - start))

    first = max(least, len(prompts) * len(prompts[-1]))
    resumed = first + sum(count(batch, variants[batch[0]].alike) for batch in batches)
    return resumed < sum(count(batch, 0) for batch in _cut(model, variants, places))


@torch.no_grad()
def _run_on(
    model: Model, variants: Sequence[Variant], kept: KeptPrefixes, prompts: Sequence[tuple[int, ...]]
) -> Readout:
    """Run altered inputs from where they differ; all of them from the same position on."""
    start = variants[0].alike
    reads = [range(variant.read.start - start, variant.read.stop - start) for variant in variants]
    ids, mask = _make_inputs(model, variants)
    cache = kept.pick([prompts.index(variant.whole) for variant in variants], start)
    return read_on(model, Places(tuple(reads)), ids[:, start:], mask, cache)


def _is_as_whole(model: Model, variants: Sequence[Variant], readout: Readout) -> bool:
    """Whether some inputs, run from where they differ, give what they give whole; asked once for a kind."""
    longest, compared = max(len(variant.ids) for variant in variants), model.lengths.compared
    kind: Hashable = (
        _WHOLE,
        model.lengths.find(longest),
        *(number.bit_length() for number in (longest, variants[0].alike, len(variants))),
        any(variant.hidden for variant in variants),
        len(variants[0].read) > 1,
    )
    if kind in compared:
        return True
    some = sorted({0, len(variants) // 2, len(variants) - 1})
    expected = _read_whole(model, [variants[place] for place in some]).logits
    found = torch.cat([readout.logits.chunk(len(variants))[place] for place in some])
    off, scale = (each.abs().amax(1) for each in (found - expected, expected))
    if not (off <= tolerance_of(model.exactness) * scale).all():
        return False
    compared.add(kind)
    return True


def _make_inputs(
    model: Model, variants: Sequence[Variant]
) -> tuple[Int[Tensor, "example position"], Int[Tensor, "example position"] | None]:
    """Return padded ids, and a mask where positions are hidden."""
    ids = pad(model, [variant.ids for variant in variants])
    if not any(variant.hidden for variant in variants):
        return ids, None
    mask = torch.ones_like(ids)
    for row, variant in enumerate(variants):
        mask[row, list(variant.hidden)] = 0
    return ids, mask


def _read_each(variants: Sequence[Variant], readout: Readout) -> list[Likelihoods]:
    """Read the likelihoods of each input's own targets."""
    likelihoods = read_likelihoods(readout, [target for variant in variants for target in variant.targets])
    found, each = [], len(variants[0].read)
    for row, variant in enumerate(variants):
        own, choices = slice(row * each, (row + 1) * each), max(len(each.choices) for each in variant.targets)
        found.append(Likelihoods(likelihoods.logits[own, :choices], likelihoods.probabilities[own, :choices]))
    return found
