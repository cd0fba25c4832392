"""See attention weights and values while the model's own attention runs.

transformers lets an attention function be registered. Ours calls the very function the model would have
called, so that the recorded run *is* the model's run, and keeps references to the queries, keys and values
it was called with. Weights are then computed with the modelling file's own eager function, only for the rows
that are needed. They are never taken on trust: what they give with the values is compared with what the
model's attention gave (reduction.py, and the replay of the ledger).

The mask must be registered beside the function: for an attention it has no mask for, transformers passes
none, the model silently attends to the future, and every sum still adds up.
"""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import torch
import transformers
from jaxtyping import Bool, Float
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import eager_mask, sdpa_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from ..errors import ModelError
from ..models.model import Model

__all__ = ["RUNNING", "AttentionCall", "ReturnedWeights", "Weigher", "watch_attention"]

_PREFIX = "whyword_"
_MASKS = {"sdpa": sdpa_mask, "eager": eager_mask}
# What weights give with the values is known already, so none need be multiplied; but transformers 4 reads the
# head's width off the values (GPT-2).
_VALUE_COLUMNS = slice(0) if int(transformers.__version__.split(".")[0]) >= 5 else slice(None)
RUNNING = threading.RLock()
"""Held while whyword runs a network: one run at a time."""
_watcher: ContextVar[Callable[["AttentionCall"], None] | None] = ContextVar("_watcher", default=None)


@dataclass(frozen=True)
class AttentionCall:
    """One call of the attention function, seen through transformers' seam."""

    module: nn.Module
    query: Float[Tensor, "1 head position key_dim"]
    key: Float[Tensor, "1 value_head source key_dim"]
    values: Float[Tensor, "1 value_head source dim"]
    mask: Tensor | None
    options: dict[str, Any]

    @property
    def value(self) -> Float[Tensor, "value_head source dim"]:
        """The value vectors."""
        return self.values[0]

    def weigh(self, rows: slice, sources: int) -> Float[Tensor, "head row source"]:
        """Compute the weights of some rows over the first sources, by the modelling file's eager function."""
        dtype = torch.promote_types(self.query.dtype, torch.float32)
        _, weights = _eager_function(self.module)(
            self.module,
            self.query[:, :, rows].to(dtype),
            self.key[:, :, :sources].to(dtype),
            self.values[:, :, :sources, _VALUE_COLUMNS].to(dtype),
            self._mask_of(rows, sources, dtype),
            **self.options,
        )
        return cast(Tensor, weights)[0]

    def _mask_of(
        self, rows: slice, sources: int, dtype: torch.dtype
    ) -> Float[Tensor, "1 one row source"] | None:
        """Give the additive mask of some rows, whatever form the model's attention takes its mask in."""
        if self.mask is None:
            if not self._is_causal() or rows.start >= sources - 1:
                return None
            return _mask_causally(rows.start, rows.stop, sources, dtype, self.key.device)
        allowed = self.mask[:, :, rows, :sources]
        return _add_where(allowed, dtype) if allowed.dtype == torch.bool else allowed.to(dtype)

    def _is_causal(self) -> bool:
        """Say whether attention without a mask is causal, as transformers' sdpa decides it."""
        given = self.options.get("is_causal")
        causal = getattr(self.module, "is_causal", True) if given is None else given
        return bool(causal) and self.query.shape[2] > 1


@lru_cache(maxsize=8)
def _mask_causally(
    start: int, stop: int, sources: int, dtype: torch.dtype, device: torch.device
) -> Float[Tensor, "1 one row source"]:
    """Give the additive mask of some rows that see what is not after them; the same in all blocks."""
    rows = torch.arange(start, stop, device=device)[:, None]
    return _add_where((torch.arange(sources, device=device) <= rows)[None, None], dtype)


def _add_where(
    allowed: Bool[Tensor, "1 one row source"], dtype: torch.dtype
) -> Float[Tensor, "1 one row source"]:
    """Make a mask that is added to scores from one of what may be seen."""
    return torch.zeros_like(allowed, dtype=dtype).masked_fill(~allowed, torch.finfo(dtype).min)


@dataclass(frozen=True)
class ReturnedWeights:
    """Weights that the attention module returned, for families outside the seam."""

    value: Float[Tensor, "value_head source dim"]
    weights: Float[Tensor, "head position source"]

    def weigh(self, rows: slice, sources: int) -> Float[Tensor, "head row source"]:
        """Pick the weights of some rows over the first sources."""
        return self.weights[:, rows, :sources]


Weigher = AttentionCall | ReturnedWeights
"""Something that gives attention weights of some rows (`weigh`), and the values they weigh (`value`)."""


@contextmanager
def watch_attention(model: Model, watcher: Callable[[AttentionCall], None]) -> Iterator[None]:
    """Tell `watcher` of every attention call that the model makes; restore its attention afterwards.

    One run at a time: the attention implementation is a setting of the config, which models may share.
    """
    with RUNNING:
        configs = _configs(model.network.config)
        own = [config._attn_implementation for config in configs]
        token = _watcher.set(watcher)
        try:
            for config, name in zip(configs, own, strict=True):
                config._attn_implementation = _watched(name)
            yield
        finally:
            _watcher.reset(token)
            for config, name in zip(configs, own, strict=True):
                config._attn_implementation = name


def _watched(name: str | None) -> str:
    """Register (once) and name the watched form of an attention implementation."""
    own = name if name in _MASKS else "sdpa" if name in ALL_ATTENTION_FUNCTIONS else "eager"
    if _PREFIX + own not in ALL_ATTENTION_FUNCTIONS:
        AttentionInterface.register(_PREFIX + own, _attend_eager if own == "eager" else _attend_sdpa)
        AttentionMaskInterface.register(_PREFIX + own, _MASKS[own])
    return _PREFIX + own


def _attend_sdpa(module: nn.Module, *inputs: Any, **options: Any) -> tuple[Tensor, Tensor | None]:
    return _attend(ALL_ATTENTION_FUNCTIONS["sdpa"], module, *inputs, **options)


def _attend_eager(module: nn.Module, *inputs: Any, **options: Any) -> tuple[Tensor, Tensor | None]:
    return _attend(_eager_function(module), module, *inputs, **options)


def _attend(
    function: Callable[..., tuple[Tensor, Tensor | None]],
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **options: Any,
) -> tuple[Tensor, Tensor | None]:
    """Run the model's own attention function, and tell the watcher what it was called with."""
    watcher = _watcher.get()
    if watcher is not None:
        watcher(AttentionCall(module, query, key, value, attention_mask, options))
    return function(module, query, key, value, attention_mask, **options)


def _eager_function(module: nn.Module) -> Callable[..., tuple[Tensor, Tensor | None]]:
    """Find the eager attention function of the modelling file that a module comes from."""
    for parent in type(module).__mro__:
        function = getattr(sys.modules[parent.__module__], "eager_attention_forward", None)
        if function is not None:
            return cast(Callable[..., tuple[Tensor, Tensor | None]], function)
    raise ModelError(
        f"{type(module).__module__} has no eager attention function for {type(module).__name__}.",
        "Describe where its values are with Attention(value=ValueLayout(...)).",
    )


def _configs(config: Any) -> list[Any]:
    """List a config and the configs inside it."""
    inner = [getattr(config, name, None) for name in getattr(config, "sub_configs", {})]
    return [config, *(sub for sub in inner if sub is not None)]
