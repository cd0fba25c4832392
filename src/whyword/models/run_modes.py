"""Modules run otherwise for a while: as they are written, without dropout, for themselves."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

import torch
from torch import nn

from .paths import list_modules

__all__ = ["asking", "is_asking", "running_eagerly", "without_training"]

_asking: ContextVar[bool] = ContextVar("_asking", default=False)


def is_asking() -> bool:
    """Say whether a module is being asked for its map, so that its run is no run of the model."""
    return _asking.get()


@contextmanager
def asking(module: nn.Module) -> Iterator[None]:
    """Run a module for itself: without dropout, and unseen by what records the network."""
    parts, token = list_modules(module), _asking.set(True)
    try:
        with running_eagerly(parts), without_training(parts):
            yield
    finally:
        _asking.reset(token)


def running_eagerly(modules: Iterable[nn.Module]) -> AbstractContextManager[Any]:
    """Let compiled modules run as they are written, for a while: compiled ones call no hooks."""
    compiled = any(
        getattr(module, "_compiled_call_impl", None) is not None or "_orig_mod" in module._modules
        for module in modules
    )
    return torch.compiler.set_stance("force_eager") if compiled else nullcontext()


@contextmanager
def without_training(modules: Sequence[nn.Module]) -> Iterator[None]:
    """Switch dropout off in some modules, and each back to what it was afterwards."""
    training = [vars(module) for module in modules if module.training]
    try:
        for attributes in training:  # not by setattr: a network with adapters has thousands of modules
            attributes["training"] = False
        yield
    finally:
        for attributes in training:
            attributes["training"] = True
