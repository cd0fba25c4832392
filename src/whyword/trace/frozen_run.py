"""A run whose blocks can be pulled back: from the direction of a logit down to what entered the first block.

Every block is noted by itself, from the residual stream that entered it, so that one direction goes down
block by block; what biases add, and what attention moves, is counted in the block that is pulled back.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..errors import ModelError
from ..models.model import Model
from .attention import AttentionCall
from .edges import move
from .frozen_operations import FrozenOperations, Listener, Rows
from .precision import keep_precision
from .pulled_back import Moved, PulledBack
from .reduction import Weigher

__all__ = ["FrozenRun"]


class FrozenRun(Listener):
    """Gathers the streams between blocks while the network runs; pulls directions back through them later."""

    unembedded: Tensor
    """What entered the unembedding, at the explained positions."""

    def __init__(self, model: Model, examples: int) -> None:
        self._model = model
        self._operations = FrozenOperations(self)
        self._examples = examples
        self._entered: list[Tensor] = []
        """The stream that enters each block, and that after the last."""
        self._left: list[Tensor] = []
        """The same, as the block below made it."""
        self._biases: Tensor | None = None
        self._moved: list[Moved] = []
        self._sees_attention = False
        self._context: Tensor | None = None

    @contextmanager
    def running(self) -> Iterator[None]:
        """Note what is computed inside."""
        with torch.inference_mode(False), torch.enable_grad(), self._operations:
            yield

    def activate(self, module: nn.Module, inputs: Tensor, outputs: Tensor) -> Tensor | None:
        """Take what a module without parameters gave; give what goes on, None: the same."""
        return self._operations.activate(module, inputs, outputs)

    def enter(self, stream: Float[Tensor, "example position model"]) -> Tensor:
        """Take the stream between two blocks; give the one that goes on."""
        if self._entered:
            self._left.append(stream)
        entered = stream.detach().requires_grad_()
        entered.rows = Rows(0, *stream.shape[:2])  # type: ignore[attr-defined]
        self._entered.append(entered)
        self._sees_attention = False
        return entered

    def take_context(self, context: Tensor) -> None:
        """Take what attention gave before its output projection."""
        self._context = context

    def take_weigher(self, weigher: Weigher) -> None:
        """Take how attention was computed, of a block whose own operations were noted."""
        if not self._sees_attention and self._context is not None:
            self._context.register_hook(lambda gradient: self._pull_context(weigher, gradient))
        self._context = None

    def name_place(self) -> str:
        """Name the block that runs."""
        index = len(self._entered)
        return f"block {index}" if index <= len(self._model.blocks) else "final norm"

    def add_constant(self, rows: Rows, amounts: Tensor, what: str) -> None:
        """Take what a bias adds."""
        assert self._biases is not None
        added = rows.add_up(amounts)
        if added is None:
            raise ModelError(
                f"{what}: something of shape {tuple(amounts.shape)} is added, which is not one row per "
                "position.",
                "Use another method (logit, alti-logit).",
            )
        self._biases += added.to(self._biases.dtype)

    def pull_back(self, call: AttentionCall, gradient: Tensor) -> Tensor:
        """Pull a direction back through attention, to the values."""
        return self._move(call, gradient).to(gradient.dtype)

    def see_attention(self) -> None:
        """Know that the attention of this block is pulled back as a whole."""
        self._sees_attention = True

    def _pull_context(self, weigher: Weigher, gradient: Tensor) -> None:
        heads = weigher.weigh(slice(0, 1), 1).shape[1]
        by_head = gradient.reshape(self._examples, -1, heads, gradient.shape[-1] // heads).transpose(1, 2)
        self._move(weigher, by_head)

    def _move(self, weigher: Weigher, gradient: Tensor) -> Tensor:
        with keep_precision(self._model.dtype), torch.no_grad():
            pulled, moved = move(weigher, gradient.to(self._model.compute_dtype), causal=True)
        self._moved.append(moved)
        return pulled

    def descend(self, direction: Float[Tensor, "position unembedded"], again: bool = False) -> PulledBack:
        """Pull the direction of each explained position back to every depth, all of them together.

        `again`: keep what is needed to do so once more.
        """
        flows, biases, by_block = [], [], []
        ends = [*self._left, self.unembedded]
        gradient = direction.to(self.unembedded)
        for end, entered in zip(reversed(ends), reversed(self._entered), strict=True):
            dtype = self._model.compute_dtype
            self._biases = torch.zeros(entered.shape[:2], dtype=dtype, device=entered.device)
            self._moved = []
            (gradient,) = torch.autograd.grad(end, entered, gradient, retain_graph=again)
            flows.append(torch.linalg.vecdot(entered.detach().to(dtype), gradient.to(dtype)))
            biases.append(self._biases)
            by_block.append(self._moved)
        moved = tuple(_only(each) for each in reversed(by_block[1:]))
        return PulledBack(torch.stack(flows[::-1]), torch.stack(biases[::-1]), moved)


def _only(moved: list[Moved]) -> Moved:
    (only,) = moved
    return only

