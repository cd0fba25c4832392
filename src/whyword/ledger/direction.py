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
    directions = _contrast_all(model.unembedding_rows, targets, model.compute_dtype)
    return directions if model.logit_multiplier == 1 else directions * model.logit_multiplier


def unembedding_bias(model: Model, targets: Sequence[Target]) -> Float[Tensor, " position"]:
    """Give what the unembedding's own bias, and one that is added to the logits, add to each target."""
    added = torch.zeros(len(targets), dtype=model.compute_dtype, device=model.device)
    bias = output_bias(model.unembedding, model.compute_dtype)
    for each, factor in ((bias, model.logit_multiplier), (model.logit_bias, 1.0)):
        if each is not None:
            added = added + factor * _contrast_all(each, targets, added.dtype).to(added.device)
    return added


def read_logits(
    logits: Float[Tensor, "position vocab"], targets: Sequence[Target]
) -> Float[Tensor, " position"]:
    """Read the model's own logit (difference) of each target."""
    read = logits[range(len(targets)), [target.token for target in targets]]
    for row, target in enumerate(targets):
        if target.foils:
            read[row] = contrast(logits[row], target, logits.dtype)
    return read


def _contrast_all(
    rows: Float[Tensor, " vocab *model"], targets: Sequence[Target], dtype: torch.dtype
) -> Float[Tensor, " position *model"]:
    """Give the contrast of every target: all at once, but for those that have foils."""
    found = rows[[target.token for target in targets]].to(dtype)
    for row, target in enumerate(targets):
        if target.foils:
            found[row] = contrast(rows, target, dtype)
    return found
