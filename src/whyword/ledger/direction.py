"""Directions in which a logit (difference) is read: U_w − U_f [eq. 12]."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ..models.model import Model, output_bias

__all__ = ["Target", "contrast", "read_logits", "unembedding_bias", "unembedding_direction"]


@dataclass(frozen=True)
class Target:
    """The token explained at one position, and those it is contrasted with."""

    token: int
    foils: tuple[int, ...] = ()
    """No foil: the logit itself. Several: the mean of their directions."""


def contrast(
    rows: Float[Tensor, " vocab *model"], target: Target, dtype: torch.dtype
) -> Float[Tensor, "*model"]:
    """Give the target's row minus the mean of the foils' rows."""
    row = rows[target.token].to(dtype)
    return row - rows[list(target.foils)].to(dtype).mean(0) if target.foils else row


def unembedding_direction(model: Model, targets: Sequence[Target]) -> Float[Tensor, "position unembedded"]:
    """Give the direction of each target where the unembedding reads it."""
    rows = model.unembedding_rows
    directions = torch.stack([contrast(rows, target, model.compute_dtype) for target in targets])
    return directions if model.logit_multiplier == 1 else directions * model.logit_multiplier


def unembedding_bias(model: Model, targets: Sequence[Target]) -> Float[Tensor, " position"]:
    """Give what the unembedding's own bias adds to each target."""
    bias = output_bias(model.unembedding, model.compute_dtype)
    if bias is None:
        return torch.zeros(len(targets), dtype=model.compute_dtype, device=model.device)
    return torch.stack([contrast(bias, target, bias.dtype) for target in targets]) * model.logit_multiplier


def read_logits(
    logits: Float[Tensor, "position vocab"], targets: Sequence[Target]
) -> Float[Tensor, " position"]:
    """Read the model's own logit (difference) of each target."""
    return torch.stack(
        [contrast(row, target, row.dtype) for row, target in zip(logits, targets, strict=True)]
    )
