"""One call of an attention function, and the weights it stands for.

Weights are computed with the modelling file's own eager function, only for the rows that are needed; where
that function is the one that the model called, they are those it returned. They are never taken on trust:
what they give with the values is compared, head by head, with what the model's attention gave (reduction.py,
and the replay of the ledger).
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, cast

import torch
import transformers
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn

from .trace import Places

__all__ = ["AttentionCall", "AttentionFunction"]

AttentionFunction = Callable[..., tuple[Tensor, Tensor | None]]
# What weights give with the values is known already, so none need be multiplied; but transformers 4 reads the
# head's width off the values (GPT-2).
_VALUE_COLUMNS = slice(0) if int(transformers.__version__.split(".")[0]) >= 5 else slice(None)


@dataclass(frozen=True)
class AttentionCall:
    """One call of an attention function."""

    module: nn.Module | None
    """The attention module; None where torch's function was called without saying for which."""
    query: Float[Tensor, "example head position key_dim"]
    key: Float[Tensor, "example value_head source key_dim"]
    value: Float[Tensor, "example value_head source dim"]
    mask: Tensor | None
    options: dict[str, Any]
    attend: AttentionFunction
    """Eager attention: gives the weights, second."""
    bias: Float[Tensor, "_example _head position source"] | None = None
    """What is added to the scores by position (T5)."""
    returned: Shaped[Tensor, "example head position source"] | None = None
    """The weights themselves, where the model called eager attention."""

    def weigh(self, rows: slice, sources: int) -> Float[Tensor, "example head row source"]:
        """Return the weights of some rows over the first sources."""
        if self.returned is not None:
            return self.returned[:, :, rows, :sources].to(self._dtype)
        return self._attend(self.query[:, :, rows], self._mask_of(rows, sources), sources)

    def weigh_places(self, places: Places) -> Float[Tensor, "example head each source"]:
        """Return the weights of the explained positions."""
        sources = self.key.shape[2]
        if places.shared is not None:
            return self.weigh(places.shared, sources)
        if self.returned is not None:
            return places.pick(self.returned.transpose(1, 2)).transpose(1, 2).to(self._dtype)
        query = places.pick(self.query.transpose(1, 2)).transpose(1, 2)
        return self._attend(query, self._mask_places(places), sources)

    def detach(self) -> "AttentionCall":
        """Return the same without what led to it."""
        query, key, value = (each.detach() for each in (self.query, self.key, self.value))
        returned = None if self.returned is None else self.returned.detach()
        return replace(self, query=query, key=key, value=value, returned=returned)

    @property
    def _dtype(self) -> torch.dtype:
        return torch.promote_types(self.query.dtype, torch.float32)

    def _attend(
        self,
        query: Float[Tensor, "example head row key_dim"],
        mask: Float[Tensor, "_example _head row source"] | None,
        sources: int,
    ) -> Float[Tensor, "example head row source"]:
        """Compute weights by the eager function."""
        _, weights = self.attend(
            self.module,
            query.to(self._dtype),
            self.key[:, :, :sources].to(self._dtype),
            self.value[:, :, :sources, _VALUE_COLUMNS].to(self._dtype),
            mask,
            **self.options,
        )
        return cast(Tensor, weights)

    def _mask_of(self, rows: slice, sources: int) -> Float[Tensor, "_example _head row source"] | None:
        """Return what is added to the scores of some rows."""
        mask = self._mask_rows(rows, sources)
        return mask if self.bias is None else _sum(self.bias[:, :, rows, :sources], mask)

    def _mask_rows(self, rows: slice, sources: int) -> Float[Tensor, "_example _head row source"] | None:
        """Return the additive mask of some rows, whatever form the model's attention takes its mask in."""
        if self.mask is not None:
            return _add(self._each_row(self.mask)[:, :, rows, :sources], self._dtype)
        if not self.is_causal or (rows.start >= sources - 1 and self._window >= sources):
            return None
        return _mask_causally((rows.start, rows.stop), sources, self._window, self._dtype, self.key.device)

    def _mask_places(self, places: Places) -> Float[Tensor, "example _head each source"] | None:
        """Return what is added to the scores of the explained positions."""
        mask = self._mask_at(places)
        return mask if self.bias is None else _sum(self._pick(self.bias, places), mask)

    def _mask_at(self, places: Places) -> Float[Tensor, "example _head each source"] | None:
        """Return the additive mask of the explained positions."""
        if self.mask is not None:
            return _add(self._pick(self._each_row(self.mask), places), self._dtype)
        if not self.is_causal:
            return None
        rows = places.index(self.key.device)[:, :, None]
        return _add(_see_before(rows, self.key.shape[2], self._window)[:, None], self._dtype)

    def _each_row(self, mask: Shaped[Tensor, "_example _head _ _source"]) -> Tensor:
        """Return a mask that may be one for all rows with an entry for each; some are wider than the keys."""
        return mask[..., : self.key.shape[2]].expand(-1, -1, self.query.shape[2], -1)

    def _pick(self, added: Shaped[Tensor, "_example _head row source"], places: Places) -> Tensor:
        """Pick the explained positions of what is added to scores."""
        return places.pick(added.expand(self.query.shape[0], -1, -1, -1).transpose(1, 2)).transpose(1, 2)

    @property
    def is_causal(self) -> bool:
        """Say whether attention without a mask is causal, as transformers' sdpa decides it."""
        given = self.options.get("is_causal")
        causal = getattr(self.module, "is_causal", True) if given is None else given
        return bool(causal) and self.query.shape[2] > 1

    @property
    def _window(self) -> int:
        """How many sources a row sees; flash attention is given no mask that says so."""
        return self.options.get("sliding_window") or sys.maxsize


@lru_cache(maxsize=8)
def _mask_causally(
    rows: tuple[int, int], sources: int, window: int, dtype: torch.dtype, device: torch.device
) -> Float[Tensor, "1 one row source"]:
    """Return the additive mask of some rows that see what is not after them; the same in all blocks."""
    index = torch.arange(*rows, device=device)[:, None]
    return _add(_see_before(index, sources, window)[None, None], dtype)


def _see_before(rows: Int[Tensor, "*row 1"], sources: int, window: int) -> Bool[Tensor, "*row source"]:
    """Say which sources rows see: what is not after them, and within the window."""
    index = torch.arange(sources, device=rows.device)
    seen = index <= rows
    return seen if window >= sources else seen & (index > rows - window)


def _add(
    mask: Shaped[Tensor, "_example _head row source"], dtype: torch.dtype
) -> Float[Tensor, "_example _head row source"]:
    """Make a mask that is added to scores, also from one of what may be seen."""
    if mask.dtype != torch.bool:
        return mask.to(dtype)
    return torch.zeros_like(mask, dtype=dtype).masked_fill(~mask, torch.finfo(dtype).min)


def _sum(
    bias: Float[Tensor, "_example _head row source"], mask: Float[Tensor, "_example _head row source"] | None
) -> Float[Tensor, "_example _head row source"]:
    return bias if mask is None else bias.to(mask.dtype) + mask
