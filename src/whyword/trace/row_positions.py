"""Which positions the rows of a tensor belong to, followed through the operations of a network."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

__all__ = ["RowPositions", "rows_of", "set_rows"]


@dataclass(frozen=True)
class RowPositions:
    """The positions of the rows of a tensor, in the decoder or the encoder."""

    encoder: bool
    examples: int
    positions: int
    index: Int[Tensor, " row"] | None = None
    """The position of every row, counted through all examples; None: all of them, in order."""

    def add_up(self, amounts: Tensor) -> Float[Tensor, "example position"] | None:
        """Add up amounts by position; None where rows cannot be told apart."""
        shape, (examples, positions) = amounts.shape, (self.examples, self.positions)
        if amounts.numel() == 0:  # of an expert that no position is sent to
            return amounts.new_zeros(examples, positions)
        if self.index is not None:
            own = amounts.reshape(self.index.numel(), -1).sum(1)
            total = own.new_zeros(examples * positions).index_add_(0, self.index, own)
            return total.view(examples, positions)
        if shape[:2] == (examples, positions):
            return amounts.flatten(2).sum(2) if len(shape) > 2 else amounts
        if shape[0] == examples * positions:
            return amounts.reshape(examples, positions, -1).sum(2)
        if len(shape) == 4 and (shape[0], shape[2]) == (examples, positions):
            return amounts.sum((1, 3))
        return None

    def pick(self, before: Tensor, axis: int, pick: Callable[[Tensor], Tensor]) -> "RowPositions":
        """Follow rows that were picked along one axis of a tensor."""
        counted = torch.arange(self.examples * self.positions, device=before.device)
        rows = counted if self.index is None else self.index
        return replace(self, index=pick(rows).flatten()) if before.shape[axis] == rows.numel() else self

    def place(self, index: Int[Tensor, " row"]) -> "RowPositions":
        """Follow rows that were written into a tensor in another order."""
        if self.index is None or self.index.numel() != index.numel():
            return self
        return replace(self, index=torch.empty_like(self.index).index_copy_(0, index, self.index))

    def follow(self, after: Tensor) -> "RowPositions":
        """Follow rows to a tensor that was made of them; others are in order again."""
        if self.index is None or self.index.numel() in after.shape[:2]:
            return self
        return replace(self, index=None)


def rows_of(tensor: Tensor) -> RowPositions | None:
    """Give the rows of a tensor, None where they were not followed."""
    return getattr(tensor, "rows", None)


def set_rows(tensor: Tensor, rows: RowPositions) -> None:
    """Say which positions the rows of a tensor belong to."""
    tensor.rows = rows  # type: ignore[attr-defined]
