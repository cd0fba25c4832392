"""What a network is besides its weights, so that a change after loading is noticed.

Weights are read and proven on every call. Two things are found once and then relied on: that a recorded run
is the model's own run, and that no position sees those after it. Both depend on the config, on the modules
with their attributes, buffers and hooks, and on the functions they call. All of these are compared with what
they were, by identity, which takes about a millisecond.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import chain
from operator import is_
from typing import Any

import torch.nn.functional
import torch.nn.modules.module as torch_module
from torch import nn
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS

from ..models.model import Model
from .own_attention import RUNNING, name_attention

__all__ = ["NetworkState", "intervening", "is_intervened", "read_state"]

_intervened: ContextVar[bool] = ContextVar("_intervened", default=False)


@dataclass(frozen=True, eq=False)
class NetworkState:
    """All objects that decide what a network computes, besides its weights."""

    objects: tuple[Any, ...]
    """Modules, their attributes, buffers and hooks, and functions: the same only if they are identical."""
    values: tuple[Any, ...]
    """Configs, names and counts: the same if they are equal."""

    def is_same(self, other: "NetworkState | None") -> bool:
        """Say whether nothing has changed between two states."""
        return (
            other is not None
            and len(self.objects) == len(other.objects)
            and all(map(is_, self.objects, other.objects))
            and self.values == other.values
        )


@contextmanager
def intervening() -> Iterator[None]:
    """Say that what is changed meanwhile is an intervention of ours: the network itself stays what it is."""
    token = _intervened.set(True)
    try:
        yield
    finally:
        _intervened.reset(token)


def is_intervened() -> bool:
    """Say whether an intervention of ours is going on."""
    return _intervened.get()


def read_state(model: Model) -> NetworkState:
    """Read the state of a network, while nothing of ours is hooked to it."""
    with RUNNING:
        modules = [*model.network.modules()]
        buffers = [buffer for module in modules for buffer in module._buffers.values() if buffer is not None]
        configs = {id(config): config for module in modules if (config := vars(module).get("config"))}
        files = {type(module).__module__: None for module in modules}
        functions = [vars(file).values() for name in files if (file := sys.modules.get(name))]
        return NetworkState(
            objects=tuple(
                chain(
                    *map(_list_parts, modules),
                    buffers,
                    *functions,
                    vars(torch.nn.functional).values(),
                    torch_module._global_forward_pre_hooks.values(),
                    torch_module._global_forward_hooks.values(),
                )
            ),
            values=(
                name_attention(model),
                [ALL_MASK_ATTENTION_FUNCTIONS.get(name) for name, _ in name_attention(model)],
                [repr(vars(config)) for config in configs.values()],
                [0 if buffer.is_inference() else buffer._version for buffer in buffers],
                {each.dtype for module in modules for each in module.parameters(recurse=False)},
            ),
        )


def _list_parts(module: nn.Module) -> Iterator[Any]:
    """List a module, its class, its attributes (a forward of its own among them) and its hooks."""
    yield module
    yield type(module)
    yield from vars(module).values()
    yield from module._forward_pre_hooks.values()
    yield from module._forward_hooks.values()
