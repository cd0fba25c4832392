"""A run whose blocks can be pulled back: from the direction of a logit down to what entered the first block.

Every block is noted by itself, from the residual stream that entered it, so that one direction goes down
block by block; what biases add, and what attention moves, is counted in the block that is pulled back. In a
model with an encoder, directions of the encoder's output are gathered from all blocks of the decoder, and go
on down the encoder.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..errors import ModelError
from ..models.model import LoadedStack, Model
from .attention import AttentionCall
from .edges import move
from .frozen_operations import FrozenOperations
from .noted_operation import Listener
from .precision import keep_precision
from .pulled_back import Moved, PulledBack, PulledSource, PulledStack
from .reduction import Weigher
from .row_positions import Rows, set_rows

__all__ = ["Call", "FrozenRun"]

Call = tuple[tuple[Any, ...], dict[str, Any]]
"""What a block was called with."""


@dataclass
class _Noted:
    """The residual streams of a stack, between its blocks."""

    entered: list[Tensor] = field(default_factory=list)
    """The stream that enters each block, and last that after all: where notes begin."""
    left: list[Tensor] = field(default_factory=list)
    """What notes end in: the same streams from the second on, and last what leaves the stack."""


@dataclass
class _Counted:
    """What is counted in one step down."""

    biases: dict[bool, Tensor]
    """By position of the decoder (False) and the encoder (True)."""
    own: list[Moved] = field(default_factory=list)
    cross: list[Moved] = field(default_factory=list)


class FrozenRun(Listener):
    """Gathers the streams between blocks while the network runs; pulls directions back through them later."""

    run_again: Callable[[int, Call, Tensor], Tensor]
    """Runs a block of the decoder once more, from a stream."""

    def __init__(self, model: Model, recomputed: int = 0) -> None:
        self._model = model
        self._recomputed = recomputed
        """In how many blocks of the decoder, from the first, nothing is noted until it is needed."""
        self._calls: dict[int, Call] = {}
        self._weighers: dict[int, Weigher] = {}
        """Of blocks that are computed again, where attention is not seen as a whole then."""
        self._again: int | None = None
        """Which block is computed again."""
        self._operations = FrozenOperations(self)
        self._stacks = {False: _Noted(), True: _Noted()}
        self._source: Tensor | None = None
        """The encoder's output, as the decoder reads it."""
        self._sees_attention = False
        self._context: Tensor | None = None
        self._place = ""
        self._in_encoder = False
        self._counted: _Counted | None = None

    @contextmanager
    def running(self) -> Iterator[None]:
        """Note what is computed inside."""
        with torch.inference_mode(False), torch.enable_grad(), self._operations:
            yield

    def enter(
        self, stack: LoadedStack, stream: Float[Tensor, "example position model"], call: Call = ((), {})
    ) -> Tensor:
        """Take the stream between two blocks of a stack; give the one that goes on."""
        noted, encoder = self._stacks[not stack.causal], not stack.causal
        if noted.entered:
            noted.left.append(stream)
        noted.entered.append(_begin(stream, encoder))
        index = len(noted.entered) - 1
        self._place = stack.name_block(index) if index < len(stack.blocks) else "final norm"
        noting = encoder or index >= self._recomputed
        if not noting:
            self._calls[index] = call
        torch.set_grad_enabled(noting)  # until the next block; `running` sets it back
        return noted.entered[-1]

    def enter_source(self, source: Float[Tensor, "example source model"]) -> Tensor:
        """Take what the encoder gave; give what the decoder reads."""
        self._stacks[True].left.append(source)
        self._source = _begin(source, encoder=True)
        return self._source

    def end(self, unembedded: Float[Tensor, "position unembedded"]) -> None:
        """Take what enters the unembedding, at the explained positions."""
        self._stacks[False].left.append(unembedded)

    def activate(self, module: nn.Module, inputs: Tensor, outputs: Tensor) -> Tensor | None:
        """Take what a module without parameters gave; give what goes on, None: the same."""
        return self._operations.activate(module, inputs, outputs)

    def take_context(self, stack: LoadedStack, context: Tensor) -> None:
        """Take what attention gave, before its output projection."""
        self._context = context
        set_rows(context, Rows(not stack.causal, *self._stacks[not stack.causal].entered[-1].shape[:2]))
        if self._again in self._weighers:
            self.take_weigher(self._weighers[self._again], stack, cross=False)

    def take_weigher(self, weigher: Weigher, stack: LoadedStack, cross: bool) -> None:
        """Take how attention was computed, where its own operations were noted."""
        context, self._context = self._context, None
        if not self._sees_attention and context is not None:
            causal, weigher = stack.causal and not cross, weigher.detach()
            if context.requires_grad:
                see = partial(self._pull_context, weigher, causal, cross)
                context.register_hook(see)  # type: ignore[no-untyped-call]
            else:
                self._weighers[len(self._stacks[False].entered) - 1] = weigher
        self._sees_attention = False

    def _pull_context(self, weigher: Weigher, causal: bool, cross: bool, gradient: Tensor) -> None:
        heads = weigher.weigh(slice(0, 1), 1).shape[1]
        by_head = gradient.reshape(weigher.value.shape[0], -1, heads, gradient.shape[-1] // heads)
        self._move(weigher, by_head.transpose(1, 2), causal, cross)

    def name_place(self) -> str:
        """Name the block that runs."""
        return self._place

    def see_attention(self) -> None:
        """Know that the attention that runs is pulled back as a whole."""
        self._sees_attention = True

    def add_constant(self, rows: Rows, amounts: Tensor, what: str) -> None:
        """Take what a bias adds."""
        assert self._counted is not None
        added, biases = rows.add_up(amounts), self._counted.biases[rows.encoder]
        if added is None:
            raise ModelError(
                f"{what}: something of shape {tuple(amounts.shape)} is added, which is not one row per "
                "position.",
                "Use another method (logit, alti-logit).",
            )
        biases += added.to(biases)

    def pull_back(self, call: AttentionCall, rows: Rows, gradient: Tensor) -> Tensor:
        """Pull a direction back through attention, to the values."""
        causal = not rows.encoder
        cross = rows.encoder and not self._in_encoder
        return self._move(call, gradient, causal, cross).to(gradient.dtype)

    def _move(self, weigher: Weigher, gradient: Tensor, causal: bool, cross: bool) -> Tensor:
        assert self._counted is not None
        with keep_precision(self._model.dtype), torch.no_grad():
            pulled, moved = move(weigher, gradient.to(self._model.compute_dtype), causal)
        (self._counted.cross if cross else self._counted.own).append(moved)
        return pulled

    def descend(self, direction: Float[Tensor, "position unembedded"], again: bool = False) -> PulledBack:
        """Pull the direction of each explained position back to every depth, all of them together.

        `again`: keep what is needed to do so once more.
        """
        self._in_encoder = False
        read, source = [], None if self._source is None else torch.zeros_like(self._source)
        steps = []
        for flow, counted, gradient in self._step_down(self._stacks[False], direction, again):
            if source is not None and self._source is not None:
                source = source + gradient
                read.append(self._project(self._source, source))
            steps.append((flow, counted))
        decoder = _stack_up(steps)
        if source is None:
            return PulledBack(decoder)
        self._in_encoder = True
        below = [(flow, counted) for flow, counted, _ in self._step_down(self._stacks[True], source, again)]
        return PulledBack(
            decoder,
            PulledSource(
                torch.stack(read[::-1]),
                torch.stack([counted.biases[True] for _, counted in reversed(steps)]),
                tuple(_only(counted.cross) for _, counted in reversed(steps[1:])),
                _stack_up(below, encoder=True),
            ),
        )

    def _step_down(
        self, noted: _Noted, direction: Tensor, again: bool
    ) -> Iterator[tuple[Tensor, _Counted, Tensor]]:
        """Pull a direction back through the blocks of a stack, and through what is above them.

        Gives, from the top, what is in the stream, what was counted, and the direction of the encoder's
        output that the step adds.
        """
        gradient = direction.to(noted.left[-1])
        for index in reversed(range(len(noted.entered))):
            entered, end = noted.entered[index], noted.left[index]
            if index in self._calls and not self._in_encoder:
                end = self._compute_again(index)
            counted = self._counted = _Counted(self._zeros())
            reading = [entered] if self._source is None or self._in_encoder else [entered, self._source]
            found = torch.autograd.grad(end, reading, gradient, retain_graph=again, allow_unused=True)
            gradient, source = found[0], found[-1]
            nothing = torch.zeros_like(reading[-1]) if source is None else source
            yield self._project(entered, gradient), counted, nothing

    def _compute_again(self, index: int) -> Tensor:
        """Run a block of which nothing was noted."""
        self._again, self._place = index, self._model.decoder_stack.name_block(index)
        try:
            return self.run_again(index, self._calls[index], self._stacks[False].entered[index])
        finally:
            self._again, self._sees_attention = None, False

    def _project(self, stream: Tensor, gradient: Tensor) -> Float[Tensor, "example position"]:
        dtype = self._model.compute_dtype
        product: Tensor = torch.linalg.vecdot(stream.detach().to(dtype), gradient.to(dtype))
        return product

    def _zeros(self) -> dict[bool, Tensor]:
        return {
            encoder: torch.zeros(
                noted.entered[0].shape[:2], dtype=self._model.compute_dtype, device=noted.entered[0].device
            )
            for encoder, noted in self._stacks.items()
            if noted.entered
        }


def _begin(stream: Float[Tensor, "example position model"], encoder: bool) -> Tensor:
    """Begin notes at a stream."""
    entered = stream.detach().requires_grad_()
    set_rows(entered, Rows(encoder, *stream.shape[:2]))
    return entered


def _stack_up(steps: list[tuple[Tensor, _Counted]], encoder: bool = False) -> PulledStack:
    """Give what was found in all steps from the top, in the order of the blocks."""
    return PulledStack(
        torch.stack([flow for flow, _ in reversed(steps)]),
        torch.stack([counted.biases[encoder] for _, counted in reversed(steps)]),
        tuple(_only(counted.own) for _, counted in reversed(steps[1:])),
    )


def _only(moved: list[Moved]) -> Moved:
    (only,) = moved
    return only
