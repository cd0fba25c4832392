"""What is counted while a direction is pulled back through one block: biases, and what attention moves.

Torch's graph of a run holds the tally in its hooks. The tally must therefore hold no tensor of that graph:
the two would keep each other alive, and no run would ever be freed.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..errors import ModelError
from ..models.model import Model
from .attention import AttentionCall
from .edges import STRONGEST, move
from .precision import keep_precision
from .pulled_back import Moved
from .reduction import Weigher
from .row_positions import RowPositions

__all__ = ["BlockTally", "Counts"]

_ALONE = "function of every element alone"
"""Among what was compared while the network is as it is: which modules were found to be one."""


@dataclass
class Counts:
    """What was counted in one block."""

    biases: dict[bool, Float[Tensor, "example _position"]]
    """What biases add, by position of the decoder (False) and of the encoder (True)."""
    own: list[Moved] = field(default_factory=list)
    """What self-attention moves."""
    cross: list[Moved] = field(default_factory=list)
    """What cross-attention moves."""


class BlockTally:
    """Is told by the operations of a block what they add and move, while a direction passes them."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.place = ""
        """The name of the block that runs."""
        self.sees_attention = False
        """Whether the attention that runs is an operation of torch, which is pulled back as a whole."""
        self.in_encoder = False
        """Whether the block that is passed is one of the encoder."""
        self.noted: list[tuple[str, bytes]] | None = None
        """What is counted as a bias, as a hash, with where; None: that is not asked."""
        self._counts: Counts | None = None
        self._strongest: Tensor | None = None
        """The sizes of the strongest edges of every example so far."""

    def forget_edges(self) -> None:
        """Begin with another direction: none of its edges is known yet."""
        self._strongest = None

    def is_function_of_elements(self, module: nn.Module, ask: Callable[[], bool]) -> bool:
        """Say whether a module is a function of every element alone: asked once where libraries wrote all."""
        known, compared = (_ALONE, module), self._model.lengths.compared
        if known in compared:
            return True
        alone = ask()
        if alone and self._model.verify != "load" and not self._model.has_foreign_code:
            compared.add(known)
        return alone

    def begin(self, shapes: dict[bool, tuple[int, ...]], device: torch.device) -> Counts:
        """Begin to count, in another block; `shapes`: examples and positions of decoder and encoder."""
        dtype = self._model.compute_dtype
        biases = {
            encoder: torch.zeros(shape, dtype=dtype, device=device) for encoder, shape in shapes.items()
        }
        self._counts = Counts(biases)
        return self._counts

    def note_bias(self, what: str, constant: Any) -> None:
        """Note what is counted as a bias, where that is asked."""
        if self.noted is None:
            return
        if isinstance(constant, Tensor):
            constant = constant.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes()
        else:
            constant = repr(constant).encode()
        self.noted.append((what, blake2b(constant).digest()))

    def add_bias(self, rows: RowPositions, amounts: Tensor, what: str) -> None:
        """Take what a bias adds."""
        assert self._counts is not None
        added, biases = rows.add_up(amounts), self._counts.biases[rows.encoder]
        if added is None:
            raise ModelError(
                f"{what}: something of shape {tuple(amounts.shape)} is added, which is not one row per "
                "position.",
                "Use another method (logit, alti-logit).",
            )
        biases += added.to(biases)

    def pull_attention(self, call: AttentionCall, rows: RowPositions, gradient: Tensor) -> Tensor:
        """Pull a direction back through attention to its values, whose rows are these."""
        cross = rows.encoder and not self.in_encoder
        return self._move(call, gradient, not rows.encoder, cross).to(gradient.dtype)

    def pull_context(self, weigher: Weigher, causal: bool, cross: bool, gradient: Tensor) -> None:
        """Count what attention moves, from the direction of what it gives, heads side by side."""
        heads = weigher.weigh(slice(0, 1), 1).shape[1]
        by_head = gradient.reshape(weigher.value.shape[0], -1, heads, gradient.shape[-1] // heads)
        self._move(weigher, by_head.transpose(1, 2), causal, cross)

    def _move(self, weigher: Weigher, gradient: Tensor, causal: bool, cross: bool) -> Tensor:
        assert self._counts is not None
        gradient = gradient.to(self._model.compute_dtype)
        listed = causal and not cross  # edges of the decoder's own attention are
        weakest = self._find_weakest(gradient) if listed else gradient.new_full(gradient.shape[:1], torch.inf)
        with keep_precision(self._model.dtype), torch.no_grad():
            pulled, moved = move(weigher, gradient, causal, weakest)
        if listed:
            self._rank(moved.strongest.amount.abs())
        (self._counts.cross if cross else self._counts.own).append(moved)
        return pulled

    def _find_weakest(self, like: Float[Tensor, "example head position dim"]) -> Float[Tensor, " example"]:
        """Give what an edge must be larger than to be among the strongest; all are while there are few."""
        if self._strongest is None or self._strongest.shape[1] < STRONGEST:
            return like.new_full(like.shape[:1], -1)
        return self._strongest[:, -1]

    def _rank(self, sizes: Float[Tensor, "example _edge"]) -> None:
        """Take the sizes of edges that were found."""
        if sizes.shape[1] > 0:
            known = sizes if self._strongest is None else torch.cat([self._strongest, sizes], dim=1)
            self._strongest = known.topk(min(STRONGEST, known.shape[1]), dim=1).values
