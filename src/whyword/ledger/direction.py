"""Directions in which a logit (difference) is read: U_w − U_f [eq. 12]."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..models.model import Model

__all__ = [
    "Target",
    "contrast",
    "list_choices",
    "read_choices",
    "read_logits",
    "unembedding_bias",
    "unembedding_direction",
]


@dataclass(frozen=True)
class Target:
    """The token explained at one position, and those it is contrasted with."""

    token: int
    foils: tuple[int, ...] = ()
    """No foil: the logit itself. Several: the mean of their directions."""

    @property
    def choices(self) -> tuple[int, ...]:
        """The target and its foils."""
        return (self.token, *self.foils)


def contrast(
    choices: Float[Tensor, "position choice ..."], targets: Sequence[Target]
) -> Float[Tensor, "position ..."]:
    """Return target minus mean of foils at every position; the columns are those of `list_choices`."""
    most = choices.shape[1]
    weights = choices.new_tensor(
        [
            [1.0, *[-1.0 / (len(each.foils) or 1)] * len(each.foils), *[0.0] * (most - 1 - len(each.foils))]
            for each in targets
        ]
    )
    return torch.einsum("pc...,pc->p...", choices, weights)


def list_choices(targets: Sequence[Target], device: torch.device) -> Int[Tensor, "position choice"]:
    """List target and foils of every position; the target again where others have more foils."""
    most = max(len(each.foils) for each in targets)
    rows = [[*each.choices, *[each.token] * (most - len(each.foils))] for each in targets]
    return torch.tensor(rows, device=device)


def unembedding_direction(model: Model, targets: Sequence[Target]) -> Float[Tensor, "position unembedded"]:
    """Return the direction of each target in the space that the unembedding reads."""
    directions = contrast(model.unembedding_rows(list_choices(targets, model.device)), targets)
    return directions if model.logit_multiplier == 1 else directions * model.logit_multiplier


def unembedding_bias(model: Model, targets: Sequence[Target]) -> Float[Tensor, " position"]:
    """Return what the biases of unembedding and logits add to each target."""
    added = torch.zeros(len(targets), dtype=model.compute_dtype, device=model.device)
    bias = model.project(model.unembedding).bias()
    for each, factor in ((bias, model.logit_multiplier), (model.logit_bias, 1.0)):
        if each is not None:
            read = contrast(each[list_choices(targets, each.device)].to(added.dtype), targets)
            added = added + factor * read.to(added.device)
    return added


def read_choices(
    logits: Float[Tensor, "position vocab"], targets: Sequence[Target]
) -> Float[Tensor, "position choice"]:
    """Read the logits of each target and its foils."""
    return logits.gather(1, list_choices(targets, logits.device))


def read_logits(
    logits: Float[Tensor, "position vocab"], targets: Sequence[Target]
) -> Float[Tensor, " position"]:
    """Read the model's own logit (difference) of each target."""
    return contrast(read_choices(logits, targets), targets)
