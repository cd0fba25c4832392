"""Logits before they were capped (Gemma 2): what is explained."""

from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor

from ..models.model import Model
from ..proof import require_close, tolerance_of

__all__ = ["uncap"]


def uncap(
    model: Model, unbounded: Float[Tensor, "position vocab"], logits: Float[Tensor, "position vocab"]
) -> Float[Tensor, "position vocab"]:
    """Give the logits before they were capped, after proving that capping them gives the model's own."""
    cap = cast(float, model.logit_cap)
    uncapped = unbounded.to(logits) * model.logit_multiplier
    require_close(
        "capped output of the unembedding",
        "logits",
        found=cap * torch.tanh(uncapped / cap),
        expected=logits,
        scale=logits.abs().amax(),
        tolerance=tolerance_of(model.dtype),
    )
    return uncapped
