"""What is known of a logit (difference) at every depth once its direction has been pulled back."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

__all__ = ["Edges", "Moved", "PulledBack", "PulledSource", "PulledStack", "Reversible"]


@dataclass(frozen=True)
class Edges:
    """Some edges of one attention sub-layer, of each example: strong ones."""

    head: Int[Tensor, "example edge"]
    source: Int[Tensor, "example edge"]
    """From which position."""
    target: Int[Tensor, "example edge"]
    """To which position."""
    amount: Float[Tensor, "example edge"]


@dataclass(frozen=True)
class Moved:
    """What one attention sub-layer moves between positions."""

    outgoing: Float[Tensor, "example source"]
    """What leaves every position: the sum of its edges."""
    incoming: Float[Tensor, "example position"]
    """What comes to every position."""
    outgoing_size: Float[Tensor, "example source"]
    """The sum of the sizes |edge|, which errors are compared with."""
    incoming_size: Float[Tensor, "example position"]
    strongest: Edges
    """Those that may be among the strongest of the prediction."""


@dataclass(frozen=True)
class PulledStack:
    """A direction at every depth of a stack: before block 1, …, after the last block."""

    flow: Float[Tensor, "depth example position"]
    """What of the logit is in the residual stream at each position: x · G."""
    size: Float[Tensor, "depth example position"]
    """Σ |x G| over the components of the stream: what the rounding of that product is relative to."""
    biases: Float[Tensor, "depth example position"]
    """What biases add between this depth and the next, at each position; last, above all blocks."""
    moved: tuple[Moved, ...]
    """What self-attention moves, block by block."""


@dataclass(frozen=True)
class PulledSource:
    """A direction where the blocks of a decoder read the encoder's output."""

    read: Float[Tensor, "depth example source"]
    """What of the logit is in the encoder's output, for blocks above each depth of the decoder."""
    size: Float[Tensor, "depth example source"]
    """The size of its summands."""
    biases: Float[Tensor, "depth example source"]
    """What biases add to what is read of it, between this depth and the next."""
    moved: tuple[Moved, ...]
    """What cross-attention moves, block by block."""
    encoder: PulledStack


@dataclass(frozen=True)
class PulledBack:
    """A direction at every depth of the decoder, and of the encoder where there is one."""

    decoder: PulledStack
    source: PulledSource | None = None


@runtime_checkable
class Reversible(Protocol):
    """A run through which directions can be pulled back."""

    def descend(self, direction: Float[Tensor, "position unembedded"], again: bool = False) -> PulledBack:
        """Pull the direction of each explained position back to every depth, all of them together.

        `again`: keep what is needed to do so once more.
        """
        ...

    def list_biases(self, direction: Float[Tensor, "position unembedded"]) -> list[tuple[str, bytes]]:
        """List what is counted as a bias while a direction is pulled back: where, and a hash of it."""
        ...
