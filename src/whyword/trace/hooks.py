"""Hooks on modules, for a while and for this thread only; those that record are in recorder.py."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from torch import Tensor, nn

from ..models.model import Model
from .readout import Reader

__all__ = [
    "capture_calls",
    "hook_unembedding",
    "in_this_thread",
    "reading",
    "replace_inputs",
    "replace_outputs",
]


def in_this_thread(hook: Callable[..., Any]) -> Callable[..., Any]:
    """Let a hook see this thread's run only: another one may be using the same network."""
    thread = threading.get_ident()

    def see(*seen: Any) -> Any:
        return hook(*seen) if threading.get_ident() == thread else None

    return see


def hook_unembedding(model: Model, reader: Reader) -> Iterator[Any]:
    """Let a reader pick what is unembedded."""
    yield model.unembedding.register_forward_pre_hook(in_this_thread(reader.pick))
    if model.logit_cap is not None:
        yield model.unembedding.register_forward_hook(in_this_thread(reader.keep))


@contextmanager
def reading(model: Model, reader: Reader) -> Iterator[None]:
    """Let a reader pick what is unembedded, for a while."""
    with ExitStack() as stack:
        for handle in hook_unembedding(model, reader):
            stack.callback(handle.remove)
        yield


@contextmanager
def capture_calls(module: nn.Module) -> Iterator[list[tuple[tuple[Any, ...], dict[str, Any]]]]:
    """Gather what a module is called with."""
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
    hook = in_this_thread(lambda _module, args, kwargs: calls.append((args, kwargs)))
    handle = module.register_forward_pre_hook(hook, with_kwargs=True)
    try:
        yield calls
    finally:
        handle.remove()


@contextmanager
def replace_outputs(replacements: Mapping[nn.Module, Callable[[Tensor], Tensor]]) -> Iterator[None]:
    """Let modules give something else than what they computed."""
    with ExitStack() as stack:
        for module, replacement in replacements.items():
            hook = in_this_thread(partial(_replace_output, replacement))
            stack.callback(module.register_forward_hook(hook).remove)
        yield


def _replace_output(
    replacement: Callable[[Tensor], Tensor], _module: nn.Module, _args: Any, output: Tensor
) -> Tensor:
    return replacement(output)


@contextmanager
def replace_inputs(module: nn.Module, replacement: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Let a module read something else than what it is given."""
    hook = in_this_thread(lambda _module, args: (replacement(args[0]), *args[1:]))
    handle = module.register_forward_pre_hook(hook)
    try:
        yield
    finally:
        handle.remove()
