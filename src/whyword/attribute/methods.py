"""Every method by its name. What its scores are is in measures.py."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from ..errors import InputError
from ..models.model import Model
from ..trace import Plan
from .alti_logit import attribute_alti_logit
from .attention_shares import follow_back, weigh_last
from .erasure import Chances, score_loss
from .logit import attribute_logit
from .random_scores import draw
from .recorded_predictions import Predictions

__all__ = ["METHODS", "Method", "find_methods", "plan_methods"]

Attributions = list[Float[Tensor, "block _"]]
"""One matrix per prediction; one row where a method has no blocks."""


@dataclass(frozen=True)
class Method:
    """A way to explain predictions, and what must be recorded for it."""

    attribute: Callable[[Predictions], Attributions]
    mixed: Callable[[int], int] = lambda blocks: 0
    """In how many blocks, of so many, it needs contributions."""
    rolled: Callable[[int], int] = lambda blocks: 0
    """In how many blocks it needs attention between all positions."""
    differentiated: Callable[[int], int] = lambda blocks: 0
    """In how many blocks it keeps activations for a backward pass."""


def find_methods(names: Iterable[str]) -> dict[str, Method]:
    """Find methods by their names."""
    found = {}
    for name in names:
        if name not in METHODS:
            raise InputError(f"There is no method {name!r}.", f"Methods: {', '.join(METHODS)}.")
        found[name] = METHODS[name]
    if not found:
        raise InputError("No method is named.", f"Methods: {', '.join(METHODS)}.")
    return found


def plan_methods(model: Model, names: Iterable[str]) -> Plan:
    """Say what must be recorded for some methods."""
    methods, blocks = find_methods(names).values(), len(model.blocks)
    return Plan(
        mixed_blocks=max(method.mixed(blocks) for method in methods),
        rolled_blocks=max(method.rolled(blocks) for method in methods),
        differentiated_blocks=max(method.differentiated(blocks) for method in methods),
    )


def _score_losses(predictions: Predictions, kind: str, without: Sequence[Chances | None]) -> Attributions:
    """Score erased tokens; 0 where the only token cannot be erased."""
    whole = getattr(predictions.chances, kind)
    return _single(
        whole.new_zeros(1) if each is None else score_loss(own, getattr(each, kind), target)
        for own, each, target in zip(whole, without, predictions.targets, strict=True)
    )


def _single(scores: Iterable[Float[Tensor, " _"]]) -> Attributions:
    """Give scores that have no blocks as matrices of one row."""
    return [each[None] for each in scores]


METHODS: Mapping[str, Method] = {
    "alti-logit": Method(
        lambda predictions: attribute_alti_logit(predictions.trace, predictions.ledgers),
        mixed=lambda blocks: blocks - 1,
    ),
    "logit": Method(lambda predictions: attribute_logit(predictions.trace, predictions.ledgers)),
    "erasure": Method(lambda predictions: _score_losses(predictions, "probabilities", predictions.hidden)),
    "erasure-logits": Method(lambda predictions: _score_losses(predictions, "logits", predictions.hidden)),
    "erasure-deletion": Method(
        lambda predictions: _score_losses(predictions, "probabilities", predictions.deleted)
    ),
    "erasure-deletion-logits": Method(
        lambda predictions: _score_losses(predictions, "logits", predictions.deleted)
    ),
    "gradient-norm": Method(
        lambda predictions: _single(each.norm for each in predictions.gradients),
        differentiated=lambda blocks: blocks,
    ),
    "gradient-x-input": Method(
        lambda predictions: _single(each.product for each in predictions.gradients),
        differentiated=lambda blocks: blocks,
    ),
    "alti": Method(
        lambda predictions: _single(follow_back(predictions.trace, predictions.trace.decoder.contributions)),
        mixed=lambda blocks: blocks,
    ),
    "attention-rollout": Method(
        lambda predictions: _single(
            follow_back(predictions.trace, predictions.trace.decoder.attention.rolled)
        ),
        rolled=lambda blocks: blocks,
    ),
    "attention": Method(lambda predictions: _single(weigh_last(predictions.trace))),
    "random": Method(lambda predictions: _single(map(draw, predictions.contexts))),
}
