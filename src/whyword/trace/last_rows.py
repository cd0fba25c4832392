"""The MLPs of the last block, run at the explained positions only: nothing reads what they write elsewhere.

The unembedding is treated in the same way (readout.py). Of twelve blocks this is a fifteenth of a forward
pass. It is done where all code that could read other positions is known: that of transformers and torch.
"""

from collections.abc import Iterator
from contextlib import nullcontext

import torch
from torch import Tensor, nn

from ..models.architecture import Attention, Mlp
from ..models.model import Model, find_experts, module_at
from ..models.paths import list_modules
from ..runs.foreign_code import is_from_library
from .frozen_run import FrozenRun
from .network_state import is_intervened
from .row_positions import RowPositions, set_rows
from .trace import Places

__all__ = ["LastRows", "find_last_mlps"]


def find_last_mlps(model: Model) -> Iterator[nn.Module]:
    """Find the MLPs of the last block that can be run at some positions only, where all code is known.

    Not in half precision: matrices of another shape are rounded in another way than in an untouched run.
    """
    if model.exactness.itemsize <= 2 or is_intervened():
        return
    stack = model.decoder_stack
    for sublayer in reversed(stack.stack.sublayers):
        if isinstance(sublayer, Attention):  # it reads what was written before it at all positions
            return
        if isinstance(sublayer, Mlp) and find_experts(stack.blocks[-1], sublayer) is None:
            module = module_at(stack.blocks[-1], sublayer.output)
            if _is_whole(module):
                yield module


def _is_whole(module: nn.Module) -> bool:
    """Say whether a module is an MLP of a library, with its projections inside."""
    return len(module._modules) > 1 and all(map(is_from_library, list_modules(module)))


class LastRows:
    """Gives one MLP the explained positions, one below the other, and puts what it wrote where it belongs."""

    def __init__(self, places: Places, frozen: FrozenRun | None) -> None:
        self._places = places
        self._resting = nullcontext if frozen is None else frozen.resting
        self._shape: torch.Size | None = None
        """That of the stream, while only some of its rows are read."""

    def pick(self, _module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
        """Give the rows that are read; None: all, where the MLP is called in another way."""
        self._shape = None
        if len(args) != 1 or args[0].ndim != 3 or args[0].shape[1] == self._places.each:
            return None
        (stream,) = args
        self._shape = stream.shape
        examples, positions, width = stream.shape
        with self._resting():
            index = self._index(stream)
            rows = stream.reshape(-1, width)[index][None]
            set_rows(rows, RowPositions(False, examples, positions, index))
        return (rows,)

    def put_back(self, _module: nn.Module, _args: tuple[Tensor, ...], output: Tensor) -> Tensor | None:
        """Give what was written at the explained positions, and zeros elsewhere, which nobody reads."""
        if self._shape is None:
            return None
        examples, positions, _ = self._shape
        with self._resting():
            everywhere = output.new_zeros(examples * positions, output.shape[-1])
            written = everywhere.index_copy(0, self._index(output), output[0])
            written = written.view(examples, positions, -1)
            set_rows(written, RowPositions(False, examples, positions))
        return written

    def _index(self, like: Tensor) -> Tensor:
        """Count the explained positions through all examples."""
        assert self._shape is not None
        index = self._places.index(like.device)
        start = torch.arange(self._shape[0], device=like.device) * self._shape[1]
        return (index + start[:, None]).flatten()
