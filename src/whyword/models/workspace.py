"""Memory that is used again: touching fresh pages costs as much as the sums that go into them."""

from collections.abc import Sequence
from math import prod

from torch import Tensor

__all__ = ["Workspace"]

_MOST_KEPT = 64 * 2**20
"""Bytes of the largest buffer that is kept."""


class Workspace:
    """Buffers by name, as large as they were last needed. One user at a time."""

    def __init__(self) -> None:
        self._buffers: dict[str, Tensor] = {}

    def take(self, name: str, shape: Sequence[int], like: Tensor) -> Tensor:
        """Give a tensor of some shape, with whatever it held before."""
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
