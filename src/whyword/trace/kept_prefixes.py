"""Keys and values of prompts, so that inputs which begin alike are run from where they begin to differ.

What a position of a causal model holds depends on the positions before it alone. The model's own cache keeps
it, as in generation: here for several prompts at once, to be read from any position on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..models.model import Model
from .finite import require_finite_readout
from .hooks import reading
from .precision import keep_precision
from .readout import Inputs, Reader, Readout
from .running import call_network, in_two_lines, pad
from .trace import Places

if TYPE_CHECKING:
    from transformers import DynamicCache

__all__ = ["KeptPrefixes", "keep_prefixes", "read_on"]


Kept = Float[Tensor, "prompt head position _"]


@dataclass(frozen=True, eq=False)
class KeptPrefixes:
    """What attention reads of some prompts at each of their positions."""

    layers: Sequence[
        tuple[Float[Tensor, "prompt head position _key"], Float[Tensor, "prompt head position _"]]
    ]
    """Keys and values."""

    def pick(self, prompts: Sequence[int], length: int) -> "DynamicCache":
        """Return a cache of the first positions of some prompts, given by their place."""
        from transformers import DynamicCache

        rows = torch.tensor(prompts, device=self.layers[0][0].device)
        cache = DynamicCache()
        for index, (keys, values) in enumerate(self.layers):
            cache.update(keys[rows, :, :length], values[rows, :, :length], index)
        return cache


@torch.no_grad()
def keep_prefixes(model: Model, prompts: Sequence[Sequence[int]]) -> KeptPrefixes | None:
    """Run some prompts, and keep what attention reads of them.

    None where the model has another cache than keys and values of all positions: windows, or a state.
    """
    last = Places(tuple(range(len(ids) - 1, len(ids)) for ids in prompts))
    with in_two_lines(model), keep_precision(model.dtype), reading(model, Reader(model, last, foreign=False)):
        output = call_network(model, Inputs(ids=pad(model, prompts)), use_cache=True)
    return _read_cache(getattr(output, "past_key_values", None))


def _read_cache(cache: Any) -> KeptPrefixes | None:
    from transformers import DynamicCache
    from transformers.cache_utils import DynamicLayer

    if type(cache) is not DynamicCache or not all(type(layer) is DynamicLayer for layer in cache.layers):
        return None
    if not cache.layers or any(layer.keys is None for layer in cache.layers):
        return None
    return KeptPrefixes([(cast(Tensor, layer.keys), cast(Tensor, layer.values)) for layer in cache.layers])


@torch.no_grad()
def read_on(
    model: Model,
    places: Places,
    ids: Int[Tensor, "example position"],
    mask: Int[Tensor, "example _"] | None,
    cache: "DynamicCache",
) -> Readout:
    """Run inputs that go on where a cache ends, and read logits; `places` count from there.

    `mask`: of all positions, also those in the cache.
    """
    reader = Reader(model, places, foreign=False)
    with in_two_lines(model), keep_precision(model.dtype), reading(model, reader):
        output = call_network(model, Inputs(ids=ids, mask=mask), use_cache=True, past_key_values=cache)
        readout = reader.read(output.logits)
    require_finite_readout(model, readout)
    return readout
