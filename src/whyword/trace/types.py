"""What is kept of one run of the network.

Axes: `position` are the explained positions; `source` are all positions of the prompt (of the encoder's
input, in cross-attention); `stream` are all positions as rows of a contribution matrix. All tensors are in
the model's compute type. What is small is one tensor for all blocks, on the device of the token ids; what
grows with the prompt is one tensor per block, on the device of that block.
"""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

__all__ = ["AttentionTrace", "MlpTrace", "StackTrace", "Trace"]


@dataclass(frozen=True)
class AttentionTrace:
    """What one attention sub-layer did, in all blocks."""

    weights: tuple[Float[Tensor, "position _head _source"], ...]
    """Attention weights of the explained positions, by block."""
    values: tuple[Float[Tensor, "_value_head _source _dim"], ...]
    """Value vectors as the model computed them, by block; groups of heads may share one."""
    output: Float[Tensor, "block position model"]
    """What the output projection gave, its bias included."""
    contributions: tuple[Float[Tensor, "stream source"], ...]
    """C, in as many blocks from the first as it was asked for."""


@dataclass(frozen=True)
class MlpTrace:
    """What one MLP did, in all blocks."""

    output: Float[Tensor, "block position model"]
    """What it gave, its bias included."""


@dataclass(frozen=True)
class StackTrace:
    """What happened to the stream in a stack of blocks."""

    stream_in: Float[Tensor, "block position model"]
    """The stream that entered each block."""
    sublayers: tuple[AttentionTrace | MlpTrace, ...]
    """What was written, in the order of the description."""
    stream_out: Float[Tensor, "block position model"]
    """The stream that left each block."""

    @property
    def contributions(self) -> tuple[Float[Tensor, "stream source"], ...]:
        """C of the blocks it was asked for."""
        return next(part.contributions for part in self.sublayers if isinstance(part, AttentionTrace))


@dataclass(frozen=True)
class Trace:
    """One recorded run."""

    positions: range
    """The explained positions."""
    decoder: StackTrace
    unembedded: Float[Tensor, "position model"]
    """What entered the unembedding: after the final norm and projection."""
    logits: Float[Tensor, "position vocab"]
    """The model's own logits."""
    encoder: StackTrace | None = None
