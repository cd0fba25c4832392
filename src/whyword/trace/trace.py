"""What is kept of one run of the network on one or more examples.

Axes: `position` are the explained positions, example after example; `source` are all positions of an example
(of the encoder's input, in cross-attention), padding included. All tensors are in the model's compute type.
What is small is one tensor for all blocks, on the device of the token ids; what grows with the prompt is one
tensor per block, on the device of that block.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from ..errors import ModelError
from ..maths.contributions import ROWS, Contributions
from .pulled_back import Reversible

__all__ = ["AttentionTrace", "MlpTrace", "Places", "Plan", "StackTrace", "Trace", "Weighed"]


@dataclass(frozen=True)
class Places:
    """Which positions are explained: a range of each example, all of one length."""

    ranges: tuple[range, ...]

    def __iter__(self) -> Iterator[int]:
        return (position for places in self.ranges for position in places)

    @property
    def each(self) -> int:
        """How many positions of an example are explained."""
        return len(self.ranges[0])

    @cached_property
    def shared(self) -> slice | None:
        """The positions, where they are the same in all examples."""
        first = self.ranges[0]
        return slice(first.start, first.stop) if self.ranges.count(first) == len(self.ranges) else None

    def index(self, device: torch.device) -> Int[Tensor, "example each"]:
        """Return the positions as a tensor."""
        return _index(self.ranges, device)

    def pick(self, stream: Shaped[Tensor, "example stream *rest"]) -> Shaped[Tensor, "example each *rest"]:
        """Pick the explained positions; refuse a stream that does not have them."""
        last = max(places.stop for places in self.ranges)
        if stream.shape[1] < last:
            raise ModelError(
                f"A block of the network read {stream.shape[1]} positions of a prompt of {last} or more.",
                "Let the network run without a cache or prefix of its own (past_key_values).",
            )
        if self.shared is not None:
            return stream[:, self.shared]
        index = self.index(stream.device)
        return stream[torch.arange(index.shape[0], device=stream.device)[:, None], index]


@dataclass(frozen=True)
class Plan:
    """How much is recorded, and how much of it is held at once."""

    mixed_blocks: int = 0
    """In how many blocks, from the first, contributions between all positions are computed."""
    rolled_blocks: int = 0
    """In how many blocks, from the first, attention between all positions is kept, averaged over heads."""
    differentiated_blocks: int = 0
    """In how many blocks a gradient will keep activations: nothing is recorded, but memory is needed."""
    chunk: int = ROWS
    """How many rows of these are computed at once."""
    half: bool = False
    """Whether C is kept in half precision (attributions then have 3 digits)."""
    neurons: bool = False
    """Whether the activations of the MLPs' neurons are kept."""
    frozen: bool = False
    """Whether the run is kept as the affine map that it was, so that directions can be pulled back."""
    recomputed_blocks: int = 0
    """In how many blocks, from the first, that map is not kept but made again when it is needed."""


@lru_cache(maxsize=4)
def _index(ranges: tuple[range, ...], device: torch.device) -> Int[Tensor, "example each"]:
    return torch.tensor([list(places) for places in ranges], device=device)


@dataclass(frozen=True)
class Weighed:
    """Weights and values of an attention sub-layer, in consecutive blocks of the same shape and device."""

    weights: Float[Tensor, "block position head source"]
    """Attention weights of the explained positions."""
    values: Float[Tensor, "block example value_head source dim"]
    """Value vectors as the model computed them; groups of heads may share one."""
    context: Float[Tensor, "block position written"]
    """The output of the model's own attention at the explained positions, heads side by side."""


@dataclass(frozen=True)
class AttentionTrace:
    """What one attention sub-layer did, in all blocks."""

    runs: tuple[Weighed, ...]
    """Weights and values, in as few tensors as shapes and devices allow."""
    output: Float[Tensor, "block position model"]
    """The output of the output projection, bias included."""
    contributions: tuple[Contributions, ...]
    """C of the first blocks, as many as were asked for. In cross-attention its columns are the encoder's
    positions, and the residual last."""
    rolled: tuple[Contributions, ...] = ()
    """The same for ½ A + ½ I, heads averaged, which attention rollout multiplies."""
    cross: bool = False
    """Whether sources are the encoder's positions."""

    @property
    def weights(self) -> tuple[Float[Tensor, "position _head _source"], ...]:
        """Attention weights of the explained positions, by block."""
        return tuple(weights for run in self.runs for weights in run.weights)

    @property
    def values(self) -> tuple[Float[Tensor, "example _value_head _source _dim"], ...]:
        """Value vectors, by block."""
        return tuple(values for run in self.runs for values in run.values)

    @property
    def contexts(self) -> tuple[Float[Tensor, "position _written"], ...]:
        """The output of the model's own attention at the explained positions, by block."""
        return tuple(context for run in self.runs for context in run.context)


@dataclass(frozen=True)
class MlpTrace:
    """What one MLP did, in all blocks."""

    output: Float[Tensor, "block position model"]
    """Its output, bias included."""
    read: tuple[Float[Tensor, "position _read"], ...] | None = None
    """What its down projection read, by block: the activation of every neuron. Of a mixture of experts,
    its input. None where it was not asked for."""


@dataclass(frozen=True)
class StackTrace:
    """The residual stream in a stack of blocks, and what was added to it."""

    stream_in: Float[Tensor, "block position model"]
    """The residual stream that entered each block."""
    sublayers: tuple[AttentionTrace | MlpTrace, ...]
    """What each sub-layer did, in the order of the description."""
    stream_out: Float[Tensor, "block position model"]
    """The residual stream that left each block."""

    @property
    def contributions(self) -> tuple[Contributions, ...]:
        """C of self-attention, for the blocks where it was asked for."""
        return self.attention.contributions

    @property
    def attention(self) -> AttentionTrace:
        """The self-attention sub-layer."""
        return self._attention(cross=False)

    @property
    def cross_attention(self) -> AttentionTrace:
        """The cross-attention sub-layer, of a model with an encoder."""
        return self._attention(cross=True)

    def _attention(self, *, cross: bool) -> AttentionTrace:
        parts = (part for part in self.sublayers if isinstance(part, AttentionTrace))
        return next(part for part in parts if part.cross == cross)


@dataclass(frozen=True)
class Trace:
    """One recorded run."""

    places: Places
    """The explained positions."""
    decoder: StackTrace
    unembedded: Float[Tensor, "position model"]
    """What entered the unembedding: after the final norm and projection."""
    logits: Float[Tensor, "position vocab"]
    """The model's own logits, from which probabilities are computed."""
    uncapped: Float[Tensor, "position vocab"]
    """The logits before they are capped, which are explained; the same as `logits` where there is no cap."""
    encoder: StackTrace | None = None
    """The encoder at all its positions, where contributions were asked for."""
    lengths: tuple[int, ...] | None = None
    """The number of tokens of each source, where the model has an encoder; what follows is padding."""
    frozen: Reversible | None = None
    """The run as an affine map, where that was asked for."""
