"""Gradients of a logit (difference) at the token embeddings [section 4 of the paper].

    gradient norm[s]    = ‖∂(logit_w − logit_f) / ∂e_s‖₁
    gradient × input[s] = ∂(logit_w − logit_f) / ∂e_s · e_s

e is what the token-embedding module gives: no positions in it, and before any norm or factor that follows.
Examples do not see each other, so one backward pass serves a whole batch. Parameters get no gradient.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ..ledger import Target, read_logits
from ..maths.proof import Identity, require_close, tolerance_of
from ..models.model import Model
from ..runs.batches import cut_batches
from ..trace import Inputs, Places, pad, read_out
from ..trace.memory_plan import ACTIVATIONS, estimate_gradient
from .recorded_predictions import Attributions, Predictions, make_rows

__all__ = ["Gradient", "attribute_gradient_norm", "attribute_gradient_times_input", "differentiate"]

Running = Callable[[Model], AbstractContextManager[None]]
"""Gives what a network runs in."""


_EMBEDDINGS = "embeddings"


@dataclass(frozen=True)
class Gradient:
    """The gradient of one prediction at its tokens' embeddings, by what is read off it."""

    norm: Float[Tensor, " source"]
    """L1."""
    product: Float[Tensor, " source"]
    """Times the embedding."""


def _as_it_is(_model: Model) -> AbstractContextManager[None]:
    return nullcontext()


def attribute_gradient_norm(predictions: Predictions) -> Attributions:
    """Score tokens by the L1 norm of the gradient at their embeddings."""
    return make_rows(each.norm for each in predictions.share(_differentiate))


def attribute_gradient_times_input(predictions: Predictions) -> Attributions:
    """Score tokens by the gradient at their embeddings, times the embedding."""
    return make_rows(each.product for each in predictions.share(_differentiate))


def _differentiate(predictions: Predictions) -> list[Gradient]:
    return differentiate(predictions)


def differentiate(predictions: Predictions, running: Running = _as_it_is) -> list[Gradient]:
    """Return the gradient of every prediction; `running`: what the network runs in, which may modify it."""
    model, prompts, places = predictions.model, predictions.prompts, predictions.trace.places
    _require_same_logits(predictions)
    alone = model.runs_alone

    def fits(batch: Sequence[int]) -> bool:
        return not alone and estimate_gradient(model, len(batch) * len(prompts[batch[-1]])) <= ACTIVATIONS

    found: dict[int, list[Gradient]] = {}
    for batch in cut_batches(range(len(prompts)), lambda example: len(prompts[example]), fits):
        some = Places(tuple(places.ranges[example] for example in batch))
        targets = [
            target
            for example in batch
            for target in predictions.targets[example * places.each : (example + 1) * places.each]
        ]
        own = _differentiate_batch(model, [prompts[example] for example in batch], some, targets, running)
        for row, example in enumerate(batch):
            found[example] = own[row * places.each : (row + 1) * places.each]
    return [gradient for example in range(len(prompts)) for gradient in found[example]]


@torch.no_grad()
def _require_same_logits(predictions: Predictions) -> None:
    """Refuse a model that reads embeddings in another way than ids, as some do that scale them (MVP).

    This is compared once for a loaded model, and of every prompt where code of a user's own may look at ids.
    In half precision it is compared of prompts that were run alone: of several, rounding differs by shape.
    """
    model, trace, foreign = predictions.model, predictions.trace, predictions.model.runs_alone
    prompts, each = predictions.prompts, trace.places.each
    if not foreign and (
        _EMBEDDINGS in model.lengths.compared or (model.exactness.itemsize <= 2 and len(prompts) > 1)
    ):
        return
    for example in range(len(prompts) if foreign else 1):
        embedded = model.network.get_input_embeddings()(pad(model, [prompts[example]]))
        places = Places((trace.places.ranges[example],))
        found = read_out(model, places, Inputs(embedded=embedded)).logits
        expected = trace.logits[example * each : (example + 1) * each].to(found)
        require_close(
            Identity.EMBEDDINGS,
            "whole model",
            found=found,
            expected=expected,
            scale=expected.abs().amax(),
            tolerance=tolerance_of(model.exactness),
        )
    model.lengths.compared.add(_EMBEDDINGS)


def _differentiate_batch(
    model: Model,
    prompts: Sequence[Sequence[int]],
    places: Places,
    targets: Sequence[Target],
    running: Running,
) -> list[Gradient]:
    # Whoever calls may have switched gradients off, in either of torch's ways.
    with torch.inference_mode(False), torch.enable_grad():
        embedded = model.network.get_input_embeddings()(pad(model, prompts)).detach().requires_grad_()
        with running(model):
            readout = read_out(model, places, Inputs(embedded=embedded))
        logits = read_logits(readout.uncapped, targets)
        by_place = logits.reshape(len(prompts), places.each)
        gradients = [
            torch.autograd.grad(column.sum(), embedded, retain_graph=place + 1 < places.each)[0]
            for place, column in enumerate(by_place.unbind(1))
        ]
    dtype = model.compute_dtype
    norms = torch.stack([each.to(dtype).abs().sum(-1) for each in gradients], dim=1).cpu()
    products = torch.stack([(each.to(dtype) * embedded.detach().to(dtype)).sum(-1) for each in gradients], 1)
    norms, products = norms.flatten(0, 1), products.cpu().flatten(0, 1)
    return [
        Gradient(norm[: position + 1], product[: position + 1])
        for norm, product, position in zip(norms, products, places, strict=True)
    ]
