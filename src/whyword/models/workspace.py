"""Buffers that are reused: touching fresh memory pages costs as much as filling them."""

from collections.abc import Sequence
from math import prod

from torch import Tensor

__all__ = ["Workspace"]

_MOST_KEPT = 64 * 2**20
"""Size in bytes of the largest buffer that is kept."""


class Workspace:
    """Buffers by name, each as large as it was last needed. Not for concurrent use."""

    def __init__(self) -> None:
        self._buffers: dict[str, Tensor] = {}

    def take(self, name: str, shape: Sequence[int], like: Tensor) -> Tensor:
        """Return a tensor of a given shape; its content is arbitrary."""
        size, buffer = prod(shape), self._buffers.get(name)
        if (
            buffer is None
            or buffer.numel() < size
            or buffer.dtype != like.dtype
            or buffer.device != like.device
        ):
            buffer = like.new_empty(size)
            if buffer.nbytes <= _MOST_KEPT:
                self._buffers[name] = buffer
        return buffer[:size].view(*shape)
