"""Scores of every source token for every token of a translation, by decoder block.

    T_i = Σ_h A[h,t,i] v[h,i] W_O[h]      what cross-attention writes at step t from source position i

    attention      A, averaged over heads
    vector-norms   ‖T_i‖₂                                                       [Kobayashi et al. 2020]
    distance       ‖y‖₁ − ‖y − T_i‖₁ with y = Σ_i T_i + b_O                     [Ferrando et al. 2022]
    logit-raw      T_i · U_w, no norm at all
    logit          T_i · u, the direction pulled back through all frozen norms: entries of the ledger, exact
    alti-logit     the same, traced back to the source's tokens                 (mixing is a heuristic)

A distance alone, summed over tokens, would favour words of few tokens. Subtracting it from ‖y‖₁ keeps the
order of tokens and avoids that.

A word's row is read at the step that produces it, the only one where a logit has a meaning; for the other
methods also at the step that consumes it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from ..attribute.source_and_prefix import attribute_jointly, mix_jointly, sum_heads
from ..ledger import Entries, Target, close, compute_entries
from ..ledger.direction import unembedding_direction
from ..ledger.parts import AttentionPart, replay
from ..models.model import Model
from ..trace import Places, Plan, Trace, record
from .preparing import Prepared

__all__ = ["MEASURES", "STEPS", "Measure", "Recorded", "record_prepared"]

STEPS = ("output", "input")


@dataclass(frozen=True)
class Recorded:
    """Several pairs, recorded in one teacher-forced run."""

    model: Model
    pairs: Sequence[Prepared]
    trace: Trace
    targets: tuple[Target, ...]

    @cached_property
    def entries(self) -> Entries:
        """The entries of all ledgers, proven."""
        entries = compute_entries(self.model, self.trace, self.targets)
        close(self.model, entries, list(self.trace.places))
        return entries

    @cached_property
    def cross(self) -> AttentionPart:
        """Cross-attention, replayed and proven."""
        parts = replay(self.model, self.model.decoder_stack, self.trace.decoder)
        return next(part for part in parts if isinstance(part, AttentionPart) and part.trace.cross)


def record_prepared(model: Model, pairs: Sequence[Prepared], methods: Sequence[str]) -> Recorded:
    """Record pairs for some methods. All pairs must have the same number of forced tokens."""
    first, longest = pairs[0].pair.first, max(len(pair.read) for pair in pairs)
    places = Places((range(first - 1, longest),) * len(pairs))
    mixed = len(model.blocks) if any(MEASURES[name].mixes for name in methods) else 0
    prompts, sources = [list(pair.read) for pair in pairs], [pair.pair.source.ids for pair in pairs]
    trace = record(model, prompts, places, Plan(mixed), sources)
    targets = [
        Target(id_)
        for pair in pairs
        for id_ in [*pair.read[first:], *[pair.read[-1]] * (longest - len(pair.read) + 1)]
    ]
    return Recorded(model, pairs, trace, tuple(targets))


@dataclass(frozen=True)
class Measure:
    """One way to score tokens."""

    measure: Callable[[Recorded], Float[Tensor, "position block source"]]
    steps: tuple[str, ...]
    """The steps at which it can be read."""
    adds_up: bool
    """Whether blocks may be summed: they are parts of one logit."""
    mixes: bool = False
    """Whether it needs the mixing of encoder and decoder."""


def _attention(recorded: Recorded) -> Float[Tensor, "position block source"]:
    return torch.stack([weights.mean(1) for weights in recorded.cross.trace.weights], dim=1).cpu()


def _vector_norms(recorded: Recorded) -> Float[Tensor, "position block source"]:
    return _of_vectors(recorded, lambda vectors, _: torch.linalg.vector_norm(vectors, dim=-1))


def _distance(recorded: Recorded) -> Float[Tensor, "position block source"]:
    def near(
        vectors: Float[Tensor, "each source model"], output: Float[Tensor, "each model"]
    ) -> Float[Tensor, "each source"]:
        return output.abs().sum(-1, keepdim=True) - (output[:, None] - vectors).abs().sum(-1)

    return _of_vectors(recorded, near)


def _of_vectors(
    recorded: Recorded,
    reduce: Callable[
        [Float[Tensor, "each source model"], Float[Tensor, "each model"]], Float[Tensor, "each source"]
    ],
) -> Float[Tensor, "position block source"]:
    """Reduce the vectors T of every block, one example at a time: positions × sources × width is large."""
    part, each = recorded.cross, recorded.trace.places.each
    by_block = []
    for block, (weights, value) in enumerate(zip(part.trace.weights, part.trace.values, strict=True)):
        reduced, weight = [], part.weight(block)
        for example, own in enumerate(value):
            rows = slice(example * each, (example + 1) * each)
            projected = own.repeat_interleave(weights.shape[1] // own.shape[0], 0) @ weight
            vectors = torch.einsum("phs,hsm->psm", weights[rows], projected)
            reduced.append(reduce(vectors, part.trace.output[block, rows].to(vectors.device)))
        by_block.append(torch.cat(reduced).cpu())
    return torch.stack(by_block, dim=1)


def _logit_raw(recorded: Recorded) -> Float[Tensor, "position block source"]:
    direction = unembedding_direction(recorded.model, recorded.targets)
    read = [recorded.cross.read(block, direction) for block in range(len(recorded.model.blocks))]
    return recorded.cross.update(read).sum(2)


def _logit(recorded: Recorded) -> Float[Tensor, "position block source"]:
    return sum_heads(recorded.entries).source


def _alti_logit(recorded: Recorded) -> Float[Tensor, "position block source"]:
    return attribute_jointly(recorded.trace, recorded.entries, mix_jointly(recorded.trace)).source


MEASURES: Mapping[str, Measure] = {
    "attention": Measure(_attention, STEPS, adds_up=False),
    "vector-norms": Measure(_vector_norms, STEPS, adds_up=False),
    "distance": Measure(_distance, STEPS, adds_up=False),
    "logit-raw": Measure(_logit_raw, STEPS[:1], adds_up=True),
    "logit": Measure(_logit, STEPS[:1], adds_up=True),
    "alti-logit": Measure(_alti_logit, STEPS[:1], adds_up=True, mixes=True),
}
