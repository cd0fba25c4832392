"""Erasure: what is lost of a prediction without one token of its context [section 4 of the paper].

    score[s] = (p_w − p_w without s) − (p_f − p_f without s)        p: probabilities, or logits

A token is hidden by a zero in the attention mask, as published, or deleted. What a mask does to positions is
the model's own business: GPT-2 and Llama keep them, OPT and BLOOM count them anew. Masked or not, a position
sees nothing after it, so one run without s serves every later position that is explained.

Whole parts of a prompt (documents, turns) are erased in the same way; every token of a part then has the same
share of what is lost without the part.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import InputError
from ..ledger import Likelihoods, Target, contrast
from ..models.model import Model
from ..trace import Places
from .erased_inputs import WAYS, Variant, run_variants
from .recorded_predictions import Attributions, Predictions, make_rows

__all__ = [
    "Erasure",
    "attribute_deleted_logits",
    "attribute_deleted_probabilities",
    "attribute_hidden_logits",
    "attribute_hidden_probabilities",
    "erase",
]


def attribute_hidden_probabilities(predictions: Predictions) -> Attributions:
    """Score what is lost of probabilities when a token is hidden."""
    return _score_losses(predictions, "probabilities", predictions.share(_hide_each))


def attribute_hidden_logits(predictions: Predictions) -> Attributions:
    """Score what is lost of logits when a token is hidden."""
    return _score_losses(predictions, "logits", predictions.share(_hide_each))


def attribute_deleted_probabilities(predictions: Predictions) -> Attributions:
    """Score what is lost of probabilities when a token is deleted."""
    return _score_losses(predictions, "probabilities", predictions.share(_delete_each))


def attribute_deleted_logits(predictions: Predictions) -> Attributions:
    """Score what is lost of logits when a token is deleted."""
    return _score_losses(predictions, "logits", predictions.share(_delete_each))


@dataclass(frozen=True)
class Erasure:
    """A prediction, and sets of positions that are erased from its context, one set at a time."""

    ids: Sequence[int]
    target: Target
    sets: Sequence[Collection[int]]


def erase(model: Model, erasures: Sequence[Erasure], way: str = "mask") -> list[Likelihoods]:
    """Return logits and probabilities of target and foils with sets of tokens erased (for faithfulness).

    All inputs of all erasures are run together, in batches as large as help. The empty set gives the
    prediction itself. A set cannot be the whole context: nothing would be left to predict from.
    """
    variants = []
    for erasure in erasures:
        last = range(len(erasure.ids) - 1, len(erasure.ids))
        for positions in map(frozenset, erasure.sets):
            _require_positions(positions, len(erasure.ids))
            variants.append(WAYS[way](erasure.ids, positions, last, [erasure.target]))
    read, found = iter(run_variants(model, variants)), []
    for erasure in erasures:
        own = [next(read) for _ in erasure.sets]
        empty = torch.empty(0, len(erasure.target.choices), dtype=model.compute_dtype, device="cpu")
        found.append(
            Likelihoods(
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


def _erase_each(predictions: Predictions, way: str) -> list[Likelihoods | None]:
    """Predict again without each token of the context: one row of logits and probabilities per token.

    None for a context of one token: without it nothing is left to predict from.
    """
    places = predictions.trace.places
    varied = _vary(predictions.prompts, places, predictions.targets, way)
    read = iter(run_variants(predictions.model, [variant for own in varied for variant in own]))
    by_example = [[next(read) for _ in own] for own in varied]
    found: list[Likelihoods | None] = []
    for own, positions in zip(by_example, places.ranges, strict=True):
        first = max(1, positions.start)
        for position in positions:
            rows = own[: position + 1] if position > 0 else []
            found.append(
                Likelihoods(
                    torch.stack([each.logits[position - first] for each in rows]),
                    torch.stack([each.probabilities[position - first] for each in rows]),
                )
                if rows
                else None
            )
    return found


def _score_losses(predictions: Predictions, kind: str, without: Sequence[Likelihoods | None]) -> Attributions:
    """Score each token by what is lost without it of the target, minus the mean of the foils.

    A context of one token scores 0: it cannot be erased.
    """
    scores, whole, contexts = [], getattr(predictions.likelihoods, kind), predictions.contexts
    for row, (own, each, target) in enumerate(zip(whole, without, predictions.targets, strict=True)):
        if each is None:
            scores.append(own.new_zeros(len(contexts[row])))
            continue
        left = getattr(each, kind)
        lost = contrast(own[: left.shape[1]] - left, [target] * len(left))
        if predictions.parts is not None:
            lost = _share_out(lost, predictions.parts[row], len(contexts[row]))
        scores.append(lost)
    return make_rows(scores)


def _hide_each(predictions: Predictions) -> list[Likelihoods | None]:
    return (
        _erase_each(predictions, "mask") if predictions.parts is None else _erase_parts(predictions, "mask")
    )


def _delete_each(predictions: Predictions) -> list[Likelihoods | None]:
    if predictions.parts is None:
        return _erase_each(predictions, "deletion")
    return _erase_parts(predictions, "deletion")


def _erase_parts(predictions: Predictions, way: str) -> list[Likelihoods | None]:
    """Give every prediction without each part of its context; None where the context is one part."""
    assert predictions.parts is not None
    several = [len(parts) > 1 for parts in predictions.parts]
    erasures = [
        Erasure(ids, target, parts)
        for ids, target, parts in zip(
            predictions.contexts, predictions.targets, predictions.parts, strict=True
        )
        if len(parts) > 1
    ]
    found = iter(erase(predictions.model, erasures, way))
    return [next(found) if erased else None for erased in several]


def _share_out(
    scores: Float[Tensor, " _part"], parts: Sequence[frozenset[int]], tokens: int
) -> Float[Tensor, " _token"]:
    """Give every token of a part the same share of the part's score."""
    shared = scores.new_zeros(tokens)
    for score, positions in zip(scores, parts, strict=True):
        shared[list(positions)] = score / len(positions)
    return shared


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
