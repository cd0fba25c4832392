"""A run whose blocks can be pulled back: from the direction of a logit down to what entered the first block.

Torch's autograd notes every block by itself, from the residual stream that entered it. One direction then
goes down block by block; a tally counts what biases add and what attention moves in each. In a model with an
encoder, directions of the encoder's output are gathered from all blocks of the decoder, and go on down the
encoder.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from threading import RLock
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..models.model import LoadedStack, Model
from ..models.projection import Projection
from ..runs.batches import is_out_of_memory
from .block_tally import BlockTally, Counts
from .frozen_mode import FreezingMode
from .heap_holes import LARGE, give_back_holes
from .held_values import hold
from .intercepted_operation import cannot_follow
from .pulled_back import Moved, PulledBack, PulledSource, PulledStack
from .reduction import Weigher
from .row_positions import RowPositions, set_rows

__all__ = ["Call", "FrozenRun"]

_BETWEEN = 4
"""After how many blocks holes in the heap are given back: pages that are used again must be cleared first."""
Call = tuple[tuple[Any, ...], dict[str, Any]]
"""What a block was called with."""


@dataclass
class _Streams:
    """The residual streams of a stack, between its blocks."""

    entered: list[Tensor] = field(default_factory=list)
    """The stream that enters each block, and last that after all: where torch's notes begin."""
    left: list[Tensor] = field(default_factory=list)
    """What those notes end in: the same streams from the second on, and last what leaves the stack."""


class FrozenRun:
    """Gathers the streams between blocks while the network runs; pulls directions back through them later."""

    run_again: Callable[["FrozenRun", int, Call, Tensor], Tensor]
    """Runs a block of the decoder once more, from a stream."""

    def __init__(self, model: Model, recomputed: int, foreign: bool) -> None:
        self._model = model
        self._recomputed = recomputed
        """In how many blocks of the decoder, from the first, nothing is noted until it is needed."""
        self.foreign = foreign
        """Whether there is code of a user's own in the network."""
        self._calls: dict[int, Call] = {}
        """What those blocks were called with."""
        self._weighers: dict[int, Weigher] = {}
        """How attention was computed in those blocks, where it is not an operation of torch."""
        self._again: int | None = None
        """Which block is computed again."""
        self._tally = BlockTally(model)
        self._mode = FreezingMode(self._tally)
        self._stacks = {False: _Streams(), True: _Streams()}
        """Those of the decoder (False) and the encoder (True)."""
        self._source: Tensor | None = None
        """The encoder's output, as the decoder reads it."""
        self._context: Tensor | None = None
        """What the attention that runs gave, before its output projection."""
        self._hidden: dict[nn.Module, Tensor] = {}
        """What modules that run now, and are followed as a whole, have read."""
        self._one_at_a_time = RLock()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Note what is computed inside."""
        with torch.inference_mode(False), torch.enable_grad(), self._mode.running():
            yield

    def resting(self) -> AbstractContextManager[None]:
        """Let what is computed inside pass unnoticed, for a while."""
        return self._mode.resting()

    def enter(
        self, stack: LoadedStack, stream: Float[Tensor, "example position model"], call: Call = ((), {})
    ) -> Tensor:
        """Take the stream between two blocks of a stack; give the one that goes on."""
        streams, encoder = self._stacks[not stack.causal], not stack.causal
        if streams.entered:
            streams.left.append(stream)
        streams.entered.append(_begin(stream, encoder))
        index = len(streams.entered) - 1
        _tidy_up(index, stream)
        self._tally.place = stack.name_block(index) if index < len(stack.blocks) else "final norm"
        noting = encoder or index >= self._recomputed
        if not noting:
            self._calls[index] = call
        self._mode.noting = noting
        torch.set_grad_enabled(noting)  # until the next block; `running` sets it back
        return streams.entered[-1]

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
        hidden = self._hidden.pop(module, None)
        result = self._mode.activate(module, inputs if hidden is None else hidden, outputs)
        if hidden is None or result is not None:
            return result
        again: Tensor = module.forward(hidden)  # not a function of every element alone: step by step
        return again

    def hide(self, module: nn.Module, inputs: Tensor) -> Tensor:
        """Take what an activation or projection reads that is followed as a whole; give it as a constant."""
        if torch.is_grad_enabled() and inputs.requires_grad:
            self._hidden[module] = inputs
            inputs = hold(inputs.detach())
        return inputs

    def hide_operations(self, module: nn.Module, inputs: Tensor) -> Tensor:
        """Hide what a projection reads, and look at none of its operations until `reveal`."""
        hidden = self.hide(module, inputs)
        if hidden is not inputs:
            self._mode.pause()
        return hidden

    def reveal(self, projection: Projection, outputs: Tensor) -> Tensor | None:
        """Take what a projection gave; give what goes on, None: the same."""
        inputs = self._hidden.pop(projection.module, None)
        return None if inputs is None else self._mode.resume(projection, inputs, outputs)

    def take_context(self, stack: LoadedStack, context: Tensor) -> None:
        """Take what attention gave, before its output projection."""
        self._context = context
        shape = self._stacks[not stack.causal].entered[-1].shape[:2]
        set_rows(context, RowPositions(not stack.causal, *shape))
        if self._again in self._weighers:
            self.take_weigher(self._weighers[self._again], stack, cross=False)

    def take_weigher(self, weigher: Weigher, stack: LoadedStack, cross: bool) -> None:
        """Take how attention was computed, where its own operations were noted one by one."""
        context, self._context = self._context, None
        if not self._tally.sees_attention and context is not None:
            causal, weigher = stack.causal and not cross, weigher.detach()
            if context.requires_grad:
                see = partial(self._tally.pull_context, weigher, causal, cross)
                context.register_hook(see)  # type: ignore[no-untyped-call]
            else:
                self._weighers[len(self._stacks[False].entered) - 1] = weigher
        self._tally.sees_attention = False

    def descend(self, direction: Float[Tensor, "position unembedded"], again: bool = False) -> PulledBack:
        """Pull the direction of each explained position back to every depth, all of them together.

        `again`: keep what is needed to do so once more.
        """
        with self._one_at_a_time:
            return self._descend(direction, again)

    def list_biases(self, direction: Float[Tensor, "position unembedded"]) -> list[tuple[str, bytes]]:
        """List what is counted as a bias while a direction is pulled back: where, and a hash of it."""
        with self._one_at_a_time:
            noted: list[tuple[str, bytes]] = []
            self._tally.noted = noted
            try:
                self._descend(direction, again=False)
            finally:
                self._tally.noted = None
        return noted

    def _descend(self, direction: Float[Tensor, "position unembedded"], again: bool) -> PulledBack:
        self._tally.in_encoder = False
        self._tally.forget_edges()
        read, source = [], None if self._source is None else torch.zeros_like(self._source)
        steps = []
        for flow, counts, gradient in self._step_down(self._stacks[False], direction, again):
            if source is not None and self._source is not None:
                source = source + gradient
                read.append(self._project(self._source, source))
            steps.append((flow, counts))
        decoder = _stack_up(steps)
        if source is None:
            return PulledBack(decoder)
        self._tally.in_encoder = True
        below = [(flow, counts) for flow, counts, _ in self._step_down(self._stacks[True], source, again)]
        amounts, sizes = torch.stack(read[::-1], dim=1)
        return PulledBack(
            decoder,
            PulledSource(
                amounts,
                sizes,
                torch.stack([counts.biases[True] for _, counts in reversed(steps)]),
                tuple(_only(counts.cross) for _, counts in reversed(steps[1:])),
                _stack_up(below, encoder=True),
            ),
        )

    def _step_down(
        self, streams: _Streams, direction: Tensor, again: bool
    ) -> Iterator[tuple[Tensor, Counts, Tensor]]:
        """Pull a direction back through the blocks of a stack, and through what is above them.

        Gives, from the top, what is in the stream, what was counted, and the direction of the encoder's
        output that the step adds.
        """
        gradient = direction.to(streams.left[-1])
        for index in reversed(range(len(streams.entered))):
            entered, end = streams.entered[index], streams.left[index]
            place = self._name_step(index)
            if index in self._calls and not self._tally.in_encoder:
                with _in_two_lines(place):
                    end = self._compute_again(index)
            counts = self._tally.begin(self._shapes(), entered.device)
            reading = [entered]
            if self._source is not None and not self._tally.in_encoder:
                reading.append(self._source)
            with _in_two_lines(place):
                found = torch.autograd.grad(end, reading, gradient, retain_graph=again, allow_unused=True)
            gradient, source = found[0], found[-1]
            nothing = torch.zeros_like(reading[-1]) if source is None else source
            yield self._project(entered, gradient), counts, nothing

    def _name_step(self, index: int) -> str:
        """Name a block of the stack that a direction goes down, or what is above them."""
        encoder, decoder = self._model.encoder_stack, self._model.decoder_stack
        stack = encoder if self._tally.in_encoder and encoder is not None else decoder
        return stack.name_block(index) if index < len(stack.blocks) else "final norm"

    def _compute_again(self, index: int) -> Tensor:
        """Run a block of which nothing was noted."""
        self._again, self._tally.place = index, self._model.decoder_stack.name_block(index)
        self._mode.noting = True
        try:
            return self.run_again(self, index, self._calls[index], self._stacks[False].entered[index])
        finally:
            self._again, self._tally.sees_attention = None, False

    def _project(self, stream: Tensor, gradient: Tensor) -> Float[Tensor, "2 example position"]:
        """Give x · G of every position, and Σ |x G| over its components, which rounding is relative to."""
        products = stream.detach().to(self._model.compute_dtype) * gradient
        return torch.stack([products.sum(-1), products.abs_().sum(-1)])

    def _shapes(self) -> dict[bool, tuple[int, ...]]:
        """Give examples and positions of the stacks that ran."""
        return {
            encoder: tuple(streams.entered[0].shape[:2])
            for encoder, streams in self._stacks.items()
            if streams.entered
        }


@contextmanager
def _in_two_lines(place: str) -> Iterator[None]:
    """Raise in two lines what torch raises while a direction is pulled back: networks may note otherwise."""
    try:
        yield
    except RuntimeError as error:
        if is_out_of_memory(error):
            raise
        raise cannot_follow(place, error) from error


def _tidy_up(index: int, stream: Tensor) -> None:
    """Give back the holes that some blocks have left in the heap, where streams are large."""
    if index % _BETWEEN == _BETWEEN - 1 and stream.nbytes >= LARGE:
        give_back_holes()


def _begin(stream: Float[Tensor, "example position model"], encoder: bool) -> Tensor:
    """Begin notes at a stream."""
    entered = stream.detach().requires_grad_()
    set_rows(entered, RowPositions(encoder, *stream.shape[:2]))
    return entered


def _stack_up(steps: list[tuple[Tensor, Counts]], encoder: bool = False) -> PulledStack:
    """Give what was found in all steps from the top, in the order of the blocks."""
    flow, size = torch.stack([projected for projected, _ in reversed(steps)], dim=1)
    biases = torch.stack([counts.biases[encoder] for _, counts in reversed(steps)])
    return PulledStack(flow, size, biases, tuple(_only(counts.own) for _, counts in reversed(steps[1:])))


def _only(moved: list[Moved]) -> Moved:
    (only,) = moved
    return only
