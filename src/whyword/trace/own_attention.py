"""See the calls of the attention function that the model itself calls, in its place and under its own name.

transformers looks attention functions up by name when a block runs: in its table of registered functions,
or, for eager attention, in the modelling file. While a run is recorded, every function in these places is
wrapped: it runs as it would have, and this thread's watchers are told of the call. Config, masks and names
are as they were, so a modelling file that asks for the name of its implementation gets the same answer, and
a function that a user registered is the one that runs.

Modelling files that do not take part in this are left as they are; their calls of torch's attention function
are seen instead (direct_attention.py), or the weights that they return.
"""

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import update_wrapper
from types import ModuleType
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.attention.flex_attention import create_mask
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from ..models.architecture import Attention
from ..models.model import Model, module_at
from .attention import AttentionCall, AttentionFunction
from .direct_attention import SeeDirectCalls, attend_plainly

__all__ = ["RUNNING", "find_eager", "name_attention", "uses_interface", "watch_attention"]

Watcher = Callable[[AttentionCall], None]
RUNNING = threading.RLock()
"""Held while whyword runs a network: one run at a time."""
_EAGER = "eager_attention_forward"
"""What modelling files call their eager attention function."""
_TABLE = "ALL_ATTENTION_FUNCTIONS"
"""What they call the table of registered functions, which may be one of their own."""
_watchers: ContextVar[Sequence[Watcher]] = ContextVar("_watchers", default=())


def watch_attention(model: Model, watchers: Sequence[Watcher]) -> AbstractContextManager[Any]:
    """Tell `watchers` of every attention call that the model makes; all is as it was afterwards."""
    return _watch_interface(model, watchers) if uses_interface(model) else _watch_torch(watchers)


def uses_interface(model: Model) -> bool:
    """Say whether the attention of a model goes through transformers' interface."""
    paths = [each.module for each in model.architecture.decoder.sublayers if isinstance(each, Attention)]
    return all(find_eager(module_at(model.blocks[0], path)) is not None for path in paths)


def find_eager(module: nn.Module) -> AttentionFunction | None:
    """Find the eager attention function of a module's modelling file; None: it is outside the interface."""
    for file in _modelling_files(type(module)):
        function = getattr(file, _EAGER, None)
        if function is not None:
            return function.own if isinstance(function, _Watched) else cast(AttentionFunction, function)
    return None


def name_attention(model: Model) -> tuple[Any, ...]:
    """Return the names of a model's attention implementations, and the functions they stand for now."""
    names = [getattr(config, "_attn_implementation", None) for config in _configs(model)]
    return tuple((name, ALL_ATTENTION_FUNCTIONS.get(name)) for name in names)


class _Watched:
    """An attention function that tells this thread's watchers of its calls; for others it is what it was."""

    def __init__(self, own: AttentionFunction) -> None:
        self.own = own
        update_wrapper(self, own)

    def __call__(
        self,
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Any = None,
        **options: Any,
    ) -> tuple[Tensor, Tensor | None]:
        watchers, eager = _watchers.get(), find_eager(module)
        token = _watchers.set(())  # what the function itself calls is no call of the model's
        try:
            output, weights = self.own(module, query, key, value, attention_mask, **options)
        finally:
            _watchers.reset(token)
        if watchers and eager is not None:
            heeded = {name: each for name, each in options.items() if name not in _unheeded(self.own)}
            bias = heeded.pop("position_bias", None)
            returned = weights if self.own is eager else None
            call = AttentionCall(module, query, key, value, None, heeded, eager, bias, returned)
            mask = _make_dense(attention_mask, call.is_causal, query.shape[2], key.shape[2])
            call = replace(call, mask=mask)
            for watcher in watchers:
                watcher(call)
        return output, weights


def _unheeded(function: AttentionFunction) -> set[str]:
    """Name the options that a function takes no notice of: torch caps no scores (Gemma 2, transformers 4)."""
    return {"softcap"} if function is sdpa_attention_forward else set()


def _make_dense(mask: Any, causal: bool, rows: int, sources: int) -> Tensor | None:
    """Return a mask over rows and sources, where it is in the form of another implementation than torch's."""
    if mask is None or (isinstance(mask, Tensor) and mask.ndim == 4):
        return mask
    if not isinstance(mask, Tensor):  # of flex attention
        return create_mask(mask.mask_mod, mask.shape[0], None, rows, sources, mask.kv_indices.device)
    seen = mask.bool()[:, None, None]  # of flash attention: what is not padding
    return seen & torch.ones(rows, sources, dtype=torch.bool, device=mask.device).tril() if causal else seen


@contextmanager
def _watch_torch(watchers: Sequence[Watcher]) -> Iterator[None]:
    """Watch calls of torch's attention function."""

    def see(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, options: dict[str, Any]) -> None:
        for watcher in watchers:
            watcher(AttentionCall(None, query, key, value, mask, options, attend_plainly))

    with RUNNING, SeeDirectCalls(see):
        yield


@contextmanager
def _watch_interface(model: Model, watchers: Sequence[Watcher]) -> Iterator[None]:
    """Watch calls through transformers' interface."""
    files = {id(file): file for kind in _attention_types(model) for file in _modelling_files(kind)}
    with RUNNING, ExitStack() as stack:
        stack.enter_context(_watch_table(ALL_ATTENTION_FUNCTIONS, AttentionInterface.register))
        for file in files.values():
            table = getattr(file, _TABLE, ALL_ATTENTION_FUNCTIONS)
            if table is not ALL_ATTENTION_FUNCTIONS:
                stack.enter_context(_watch_table(table, table.__setitem__))
            if hasattr(file, _EAGER):
                stack.enter_context(_watch_name(file))
        token = _watchers.set(tuple(watchers))
        try:
            yield
        finally:
            _watchers.reset(token)


@contextmanager
def _watch_table(table: Any, enter: Callable[[str, AttentionFunction], None]) -> Iterator[None]:
    """Wrap the functions of a table; those that were changed in the meantime stay as they are."""
    own = {name: function for name, function in table.items() if not isinstance(function, _Watched)}
    watched = {name: _Watched(function) for name, function in own.items()}
    try:
        for name, function in watched.items():
            enter(name, function)
        yield
    finally:
        for name, function in watched.items():
            if table.get(name) is function:
                enter(name, own[name])


@contextmanager
def _watch_name(file: ModuleType) -> Iterator[None]:
    """Wrap the eager attention function of a modelling file."""
    own = getattr(file, _EAGER)
    watched = own if isinstance(own, _Watched) else _Watched(own)
    setattr(file, _EAGER, watched)
    try:
        yield
    finally:
        if getattr(file, _EAGER) is watched:
            setattr(file, _EAGER, own)


def _attention_types(model: Model) -> set[type[nn.Module]]:
    """List the classes of a model's attention modules."""
    stacks = [stack for stack in (model.decoder_stack, model.encoder_stack) if stack is not None]
    return {
        type(module)
        for stack in stacks
        for sublayer in stack.stack.sublayers
        if isinstance(sublayer, Attention)
        for module in stack.in_blocks(sublayer.module)
    }


def _modelling_files(kind: type[nn.Module]) -> Iterator[ModuleType]:
    """Return the modules that a class and its parents are written in."""
    return (sys.modules[parent.__module__] for parent in kind.__mro__)


def _configs(model: Model) -> list[Any]:
    """List the config of a network, the configs inside it, and those of its stacks (T5 has some)."""
    config = model.network.config
    stacks = [model.decoder] if model.encoder_stack is None else [model.decoder, model.encoder_stack.module]
    inner = [getattr(config, name, None) for name in getattr(config, "sub_configs", {})]
    found = [config, *inner, *(getattr(stack, "config", None) for stack in stacks)]
    return list({id(each): each for each in found if each is not None}.values())
