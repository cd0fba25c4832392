"""Distances ‖y − part‖₁ as shares of a row: what is closer to y has a larger one."""

import torch
from jaxtyping import Float
from torch import Tensor

__all__ = ["find_closeness", "normalise"]


def find_closeness(
    distances: Float[Tensor, "example row source"], whole: Float[Tensor, "example row model"]
) -> Float[Tensor, "example row source"]:
    """Return max(0, ‖y‖₁ − ‖y − part‖₁), overwriting the distances ‖y − part‖₁."""
    length = torch.linalg.vector_norm(whole, ord=1, dim=-1, keepdim=True)
    return torch.sub(length, distances, out=distances).clamp_(min=0)


def normalise(
    closeness: Float[Tensor, "example row source"], first: int
) -> Float[Tensor, "example row source"]:
    """Make rows sum to 1; a row without a positive entry becomes the identity row.

    `first`: index of the first row among the sources.
    """
    total = closeness.sum(-1, keepdim=True)
    if not total.all():
        nothing = total == 0
        closeness.diagonal(first, 1, 2).masked_fill_(nothing[:, :, 0], 1)
        total = total + nothing
    return closeness.div_(total)
