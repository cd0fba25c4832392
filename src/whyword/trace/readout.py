"""Read logits at some positions of a run, before and after they are capped."""

from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from ..errors import ModelError
from ..maths.proof import Identity, require_close, tolerance_of
from ..models.model import Model
from .store import require_called
from .trace import Places

__all__ = ["Inputs", "Reader", "Readout"]


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """What a network is run on: token ids, or what the token embedding gave for them."""

    ids: Int[Tensor, "example position"] | None = None
    mask: Int[Tensor, "example _seen"] | None = None
    """0 hides a position from attention, also one that a cache holds. None: nothing is hidden."""
    embedded: Float[Tensor, "example position embedded"] | None = None
    decoder_ids: Int[Tensor, "example step"] | None = None
    """What the decoder reads, where the ids are what an encoder reads."""
    returns_weights: bool = False
    """Whether the network is to return attention weights."""

    def pick(self, example: int, length: int) -> "Inputs":
        """Return one example alone, and only so much of what the decoder reads."""
        own, read = slice(example, example + 1), slice(length if self.decoder_ids is None else None)
        given = (self.ids, self.mask, self.embedded)
        ids, mask, embedded = (None if each is None else each[own, read] for each in given)
        steps = None if self.decoder_ids is None else self.decoder_ids[own, :length]
        return replace(self, ids=ids, mask=mask, embedded=embedded, decoder_ids=steps)


@dataclass(frozen=True)
class Readout:
    """Logits at the positions that were read, example after example."""

    logits: Float[Tensor, "position vocab"]
    """The model's own: what it chooses by."""
    uncapped: Float[Tensor, "position vocab"]
    """Before they are capped; where nothing caps them, `logits`."""


class Reader:
    """Picks positions where they are unembedded; lives for one run. The recorder hooks it in."""

    unembedded: Tensor
    """What entered the unembedding at these positions."""
    _unbounded: Tensor
    """What the unembedding gave, of a model that caps its logits."""

    def __init__(self, model: Model, places: Places, foreign: bool) -> None:
        """`foreign`: whether code of a user's own may look at logits of other positions."""
        self._model = model
        self._places = places
        self.foreign = foreign
        self._unembeds = sum(map(len, places.ranges))

    def pick(self, _module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
        """Let the unembedding see the positions that are read only, where it may: a vocabulary is wide."""
        stream = args[0].reshape(len(self._places.ranges), -1, args[0].shape[-1])
        rows = self._places.pick(stream).flatten(0, 1)
        self.unembedded = rows.to(self._model.compute_dtype)
        if self.foreign:
            self._unembeds = stream.shape[:2].numel()
            return None
        return (rows[None], *args[1:])

    def keep(self, _module: nn.Module, _args: Any, output: Tensor) -> None:
        """Keep the logits before they are capped."""
        self._unbounded = self._read_rows(output)

    def read(self, output: Float[Tensor, "_example _position vocab"]) -> Readout:
        """Return the logits, after the run."""
        require_called("the unembedding", "the network", hasattr(self, "unembedded"))
        if output.shape[:-1].numel() != self._unembeds:
            raise ModelError(
                f"{self._model.name} unembeds {self._unembeds} positions and gives logits of "
                f"{output.shape[:-1].numel()}.",
                "Undo what was changed in it: its logits must be those of the tokens that it is given.",
            )
        logits = self._read_rows(output).to(self._model.compute_dtype)
        uncapped = logits if self._model.logit_cap is None else _uncap(self._model, self._unbounded, logits)
        return Readout(logits, uncapped)

    def _read_rows(
        self, logits: Float[Tensor, "_example _position vocab"]
    ) -> Float[Tensor, "position vocab"]:
        """Return the logits of the positions that are read."""
        return self._places.pick(logits).flatten(0, 1) if self.foreign else logits[0]


def _uncap(
    model: Model, unbounded: Float[Tensor, "position vocab"], logits: Float[Tensor, "position vocab"]
) -> Float[Tensor, "position vocab"]:
    """Return the logits before they were capped, after proving that capping them gives the model's own."""
    cap = cast(float, model.logit_cap)
    uncapped = unbounded.to(logits) * model.logit_multiplier
    require_close(
        Identity.CAP,
        "logits",
        found=(cap * torch.tanh(uncapped / cap)).detach(),
        expected=logits.detach(),
        scale=logits.detach().abs().amax(),
        tolerance=tolerance_of(model.dtype),
    )
    return uncapped
