"""Where a run keeps what it keeps: few large pieces of memory instead of many small ones.

A small tensor that outlives its block lands in the hole that a large one has just left; the next large one
no longer fits there, and the heap grows block by block onto pages that were never touched. That cost as much
as all sums of a logit explanation.
"""

from collections.abc import Iterator
from itertools import groupby
from typing import Any

import torch
from torch import Tensor

from ..errors import ModelError
from ..models.model import Model

__all__ = ["Store", "require_called", "require_one_stream"]


def require_called(module: str, where: str, called: bool) -> None:
    """Refuse a run in which a module was not called: what it gives was computed in another way."""
    if not called:
        raise ModelError(
            f"The run did not call a module of {where}: {module}.",
            "Load the network again after changing its modules; each block needs modules of its own.",
        )


def require_one_stream(model: Model, stream: Tensor) -> Tensor:
    """Refuse a model whose blocks pass on more than one residual stream (AltUp, hyper-connections)."""
    if stream.ndim > 3:
        raise ModelError(
            f"{model.name} has several residual streams: its blocks read {list(stream.shape)} numbers "
            "instead of [examples, positions, width].",
            "Load a model with one residual stream, which every block adds to.",
        )
    return stream


class Store:
    """Tensors by name and block. Those of one name, shape and device lie in one piece of memory."""

    def __init__(self, blocks: int, dtype: torch.dtype) -> None:
        self._blocks = blocks
        self._dtype = dtype
        self._pieces: dict[Any, Tensor] = {}
        self._kept: dict[str, dict[int, Tensor]] = {}

    def keep(
        self,
        name: str,
        block: int,
        tensor: Tensor,
        device: torch.device | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Copy a tensor of a block; to a device, or where it is; in the type of the store, or another."""
        key = (name, tensor.shape, device or tensor.device)
        piece = self._pieces.get(key)
        if piece is None:
            piece = tensor.new_empty(self._blocks, *tensor.shape, dtype=dtype or self._dtype, device=device)
            self._pieces[key] = piece
        piece[block].copy_(tensor)
        self._kept.setdefault(name, {})[block] = piece

    def share(self, name: str, block: int, tensor: Tensor) -> None:
        """Hold a tensor of a block that is held elsewhere, too: it is copied only where its type differs."""
        own = tensor.detach().to(self._dtype)
        self._kept.setdefault(name, {})[block] = own.expand(self._blocks, *own.shape)

    def by_block(self, name: str) -> tuple[Tensor, ...]:
        """Return what was kept under a name, block by block."""
        return tuple(piece[block] for block, piece in self._kept.get(name, {}).items())

    def in_runs(self, *names: str) -> Iterator[tuple[Tensor, ...]]:
        """Return what was kept under some names in every block: one tensor each for blocks, one after the
        other, that lie in one piece."""
        columns = [self._of_every_block(name) for name in names]
        for _, run in groupby(range(self._blocks), lambda block: [id(column[block]) for column in columns]):
            blocks = [*run]
            yield tuple(column[blocks[0]][blocks[0] : blocks[-1] + 1] for column in columns)

    def of_all(self, name: str) -> Tensor:
        """Return what was kept under a name in every block, as one tensor."""
        (piece,) = {id(piece): piece for piece in self._of_every_block(name).values()}.values()
        return piece

    def _of_every_block(self, name: str) -> dict[int, Tensor]:
        """Give what was kept under a name, and refuse a run in which a block kept nothing."""
        kept = self._kept.get(name, {})
        missing = [f"block {block + 1}" for block in range(self._blocks) if block not in kept]
        if missing:
            require_called(f"what gives its {name.rstrip(' 0123456789')}", missing[0], called=False)
        return kept
