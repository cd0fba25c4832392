"""See attention weights and values while the model's own attention runs.

transformers lets an attention function be registered. Ours calls the very function the model would have
called, so that the recorded run *is* the model's run, and keeps references to the queries, keys and values
it was called with. Weights are then computed with the modelling file's own eager function, only for the rows
that are needed. They are never taken on trust: what they give with the values is compared with what the
model's attention gave (reduction.py, and the replay of the ledger).

Modelling files that do not take part in this are left as they are; their calls of torch's attention function
are seen instead (direct_attention.py), or the weights that they return.

The mask must be registered beside the function: for an attention it has no mask for, transformers passes
none, the model silently attends to the future, and every sum still adds up.
"""

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, cast

import torch
import transformers
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import eager_mask, sdpa_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from ..models.architecture import Attention
from ..models.model import Model, module_at
from .direct_attention import SeeDirectCalls, attend_plainly
from .trace import Places

__all__ = ["RUNNING", "AttentionCall", "find_eager", "uses_interface", "watch_attention"]

_Function = Callable[..., tuple[Tensor, Tensor | None]]
_PREFIX = "whyword_"
_MASKS = {"sdpa": sdpa_mask, "eager": eager_mask}
# What weights give with the values is known already, so none need be multiplied; but transformers 4 reads the
# head's width off the values (GPT-2).
_VALUE_COLUMNS = slice(0) if int(transformers.__version__.split(".")[0]) >= 5 else slice(None)
RUNNING = threading.RLock()
"""Held while whyword runs a network: one run at a time."""
_watchers: ContextVar[Sequence[Callable[["AttentionCall"], None]]] = ContextVar("_watchers", default=())


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
    attend: _Function
    """Eager attention: gives the weights, second."""
    bias: Float[Tensor, "_example _head position source"] | None = None
    """What is added to the scores by position (T5)."""

    def weigh(self, rows: slice, sources: int) -> Float[Tensor, "example head row source"]:
        """Compute the weights of some rows over the first sources."""
        return self._attend(self.query[:, :, rows], self._mask_of(rows, sources), sources)

    def weigh_places(self, places: Places) -> Float[Tensor, "example head each source"]:
        """Compute the weights of the explained positions."""
        sources = self.key.shape[2]
        if places.shared is not None:
            return self.weigh(places.shared, sources)
        query = places.pick(self.query.transpose(1, 2)).transpose(1, 2)
        return self._attend(query, self._mask_places(places), sources)

    def detach(self) -> "AttentionCall":
        """Give the same without what led to it."""
        query, key, value = (each.detach() for each in (self.query, self.key, self.value))
        return replace(self, query=query, key=key, value=value)

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
        """Give what is added to the scores of some rows."""
        mask = self._mask_rows(rows, sources)
        return mask if self.bias is None else _sum(self.bias[:, :, rows, :sources], mask)

    def _mask_rows(self, rows: slice, sources: int) -> Float[Tensor, "_example _head row source"] | None:
        """Give the additive mask of some rows, whatever form the model's attention takes its mask in."""
        if self.mask is not None:
            return _add(self._each_row(self.mask)[:, :, rows, :sources], self._dtype)
        if not self._is_causal() or rows.start >= sources - 1:
            return None
        return _mask_causally(rows.start, rows.stop, sources, self._dtype, self.key.device)

    def _mask_places(self, places: Places) -> Float[Tensor, "example _head each source"] | None:
        """Give what is added to the scores of the explained positions."""
        mask = self._mask_at(places)
        return mask if self.bias is None else _sum(self._pick(self.bias, places), mask)

    def _mask_at(self, places: Places) -> Float[Tensor, "example _head each source"] | None:
        """Give the additive mask of the explained positions."""
        if self.mask is not None:
            return _add(self._pick(self._each_row(self.mask), places), self._dtype)
        if not self._is_causal():
            return None
        sources = torch.arange(self.key.shape[2], device=self.key.device)
        return _add((sources <= places.index(self.key.device)[:, :, None])[:, None], self._dtype)

    def _each_row(self, mask: Shaped[Tensor, "_example _head _ _source"]) -> Tensor:
        """Give a mask that may be one for all rows with an entry for each; some are wider than the keys."""
        return mask[..., : self.key.shape[2]].expand(-1, -1, self.query.shape[2], -1)

    def _pick(self, added: Shaped[Tensor, "_example _head row source"], places: Places) -> Tensor:
        """Pick the explained positions of what is added to scores."""
        return places.pick(added.expand(self.query.shape[0], -1, -1, -1).transpose(1, 2)).transpose(1, 2)

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
    return _add((torch.arange(sources, device=device) <= rows)[None, None], dtype)


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


def watch_attention(
    model: Model, watchers: Sequence[Callable[[AttentionCall], None]]
) -> AbstractContextManager[Any]:
    """Tell `watchers` of every attention call that the model makes; restore its attention afterwards.

    One run at a time: the attention implementation is a setting of the config, which models may share.
    """
    return _watch_interface(model, watchers) if uses_interface(model) else _watch_torch(watchers)


def uses_interface(model: Model) -> bool:
    """Say whether the attention of a model goes through transformers' interface."""
    paths = [each.module for each in model.architecture.decoder.sublayers if isinstance(each, Attention)]
    return all(find_eager(module_at(model.blocks[0], path)) is not None for path in paths)


@contextmanager
def _watch_torch(watchers: Sequence[Callable[[AttentionCall], None]]) -> Iterator[None]:
    """Watch calls of torch's attention function."""

    def see(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, options: dict[str, Any]) -> None:
        for watcher in watchers:
            watcher(AttentionCall(None, query, key, value, mask, options, attend_plainly))

    with RUNNING, SeeDirectCalls(see):
        yield


@contextmanager
def _watch_interface(model: Model, watchers: Sequence[Callable[[AttentionCall], None]]) -> Iterator[None]:
    """Watch calls through transformers' interface."""
    with RUNNING:
        configs = _configs(model)
        own = [config._attn_implementation for config in configs]
        token = _watchers.set(watchers)
        try:
            for config, name in zip(configs, own, strict=True):
                config._attn_implementation = _watched(name)
            yield
        finally:
            _watchers.reset(token)
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
    """Attend as torch does, which caps no scores, though transformers 4 may ask it to (Gemma 2)."""
    return _attend(cast(_Function, ALL_ATTENTION_FUNCTIONS["sdpa"]), {"softcap"}, module, *inputs, **options)


def _attend_eager(module: nn.Module, *inputs: Any, **options: Any) -> tuple[Tensor, Tensor | None]:
    """Attend as the modelling file does."""
    return _attend(cast(_Function, find_eager(module)), set(), module, *inputs, **options)


def _attend(
    function: _Function,
    unheeded: set[str],
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **options: Any,
) -> tuple[Tensor, Tensor | None]:
    """Run the model's own attention function; tell the watchers of the call, without what that ignores."""
    watchers, eager = _watchers.get(), find_eager(module)
    if watchers and eager is not None:
        heeded = {name: option for name, option in options.items() if name not in unheeded}
        bias = heeded.pop("position_bias", None)
        call = AttentionCall(module, query, key, value, attention_mask, heeded, eager, bias)
        for watcher in watchers:
            watcher(call)
    return function(module, query, key, value, attention_mask, **options)


def find_eager(module: nn.Module) -> _Function | None:
    """Find the eager attention function of a module's modelling file; None: it is outside the interface."""
    for parent in type(module).__mro__:
        function = getattr(sys.modules[parent.__module__], "eager_attention_forward", None)
        if function is not None:
            return cast(_Function, function)
    return None


def _configs(model: Model) -> list[Any]:
    """List the config of a network, the configs inside it, and those of its stacks (T5 has some)."""
    config = model.network.config
    stacks = [model.decoder] if model.encoder_stack is None else [model.decoder, model.encoder_stack.module]
    inner = [getattr(config, name, None) for name in getattr(config, "sub_configs", {})]
    found = [config, *inner, *(getattr(stack, "config", None) for stack in stacks)]
    return list({id(each): each for each in found if each is not None}.values())
