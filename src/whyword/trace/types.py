"""What is kept of one run of the network.

Axes: `position` are the explained positions, in the order asked for; `source` are all positions of the
prompt (of the encoder's input, in cross-attention); `stream` are all positions as rows of a contribution
matrix. All tensors are in the model's compute type, on the device of the block they come from.
"""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

__all__ = ["AttentionTrace", "BlockTrace", "MlpTrace", "StackTrace", "Trace"]


@dataclass(frozen=True)
class AttentionTrace:
    """What one attention sub-layer did."""

    weights: Float[Tensor, "position head source"]
    """Attention weights of the explained positions."""
    value: Float[Tensor, "value_head source dim"]
    """Value vectors as the model computed them; groups of heads may share one."""
    output: Float[Tensor, "position model"]
    """What the output projection gave, its bias included."""
    contributions: Float[Tensor, "stream source"] | None
    """C, where it was asked for."""


@dataclass(frozen=True)
class MlpTrace:
    """What one MLP did."""

    output: Float[Tensor, "position model"]
    """What it gave, its bias included."""


@dataclass(frozen=True)
class BlockTrace:
    """What happened to the stream in one block."""

    stream_in: Float[Tensor, "position model"]
    """The stream that entered."""
    sublayers: tuple[AttentionTrace | MlpTrace, ...]
    """What was written, in the order of the description."""
    stream_out: Float[Tensor, "position model"]
    """The stream that left."""


@dataclass(frozen=True)
class StackTrace:
    """What happened in a stack of blocks."""

    blocks: tuple[BlockTrace, ...]


@dataclass(frozen=True)
class Trace:
    """One recorded run."""

    positions: tuple[int, ...]
    """The explained positions."""
    decoder: StackTrace
    unembedded: Float[Tensor, "position model"]
    """What entered the unembedding: after the final norm and projection."""
    logits: Float[Tensor, "position vocab"]
    """The model's own logits."""
    encoder: StackTrace | None = None
