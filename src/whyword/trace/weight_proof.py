"""Attention weights times values along one direction, gathered from all blocks and compared at once.

A comparison of one block takes as long as everything else that its proof computes.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from ..maths.proof import Identity, require_close, tolerance_of

__all__ = ["WeightProof"]

_Compared = tuple[Tensor, Tensor, Tensor]
"""What was found, what is expected, and what the error is relative to."""


class WeightProof:
    """Gathers what is to be compared in one run of a network."""

    def __init__(self, dtype: torch.dtype) -> None:
        """`dtype`: of the model."""
        self._dtype = dtype
        self._gathered: dict[tuple[torch.Size, torch.Size, torch.device], list[tuple[str, _Compared]]] = {}

    def gather(
        self,
        name: str,
        found: Float[Tensor, "example head row"],
        expected: Float[Tensor, "example head row"],
        scale: Float[Tensor, "example head _row"],
    ) -> None:
        """Take what is compared of some rows of an attention sub-layer."""
        shape = found.shape, scale.shape, found.device
        self._gathered.setdefault(shape, []).append((name, (found, expected, scale)))

    def prove(self) -> None:
        """Compare all of it."""
        for gathered in self._gathered.values():
            names = [name for name, _ in gathered]
            columns = zip(*(compared for _, compared in gathered), strict=True)
            found, expected, scale = map(torch.stack, columns)
            require_close(
                Identity.WEIGHTS,
                names,
                found=found,
                expected=expected,
                scale=scale,
                tolerance=tolerance_of(self._dtype),
            )
