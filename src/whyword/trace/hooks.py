"""Hooks on modules, for a while and for this thread only; those that record are in recorder.py."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ..models.architecture import Attention
from ..models.model import LoadedStack, Model, module_at
from ..models.projection import Projection
from ..models.run_modes import is_asking
from ..models.weights import is_opaque
from ..runs.foreign_code import find_foreign
from .followed_modules import is_from_torch, may_activate, sort_modules
from .frozen_gradients import ProjectByModule, run_function
from .frozen_run import Call, FrozenRun
from .held_values import hold
from .intercepted_operation import depends
from .last_rows import LastRows, find_last_mlps
from .network_state import intervening
from .precision import keep_precision
from .readout import Reader
from .running import evaluating
from .trace import Places

__all__ = [
    "capture_calls",
    "hook_last_rows",
    "hook_unembedding",
    "noting",
    "only_seeing",
    "reading",
    "replace_inputs",
    "replace_outputs",
]

_ACTIVATIONS = "transformers.activations"
"""Where transformers has functions of every element alone: they are followed as a whole, not step by step."""


def in_this_thread(hook: Callable[..., Any]) -> Callable[..., Any]:
    """Let a hook see this thread's run only: another one may be using the same network.

    Nor does it see a module that is asked for its matrix.
    """
    thread = threading.get_ident()

    def see(*seen: Any) -> Any:
        return hook(*seen) if threading.get_ident() == thread and not is_asking() else None

    return see


def only_seeing(frozen: FrozenRun | None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Let hooks see this thread's run; where it is noted for gradients, they are not noted themselves."""
    return partial(_record_only, frozen)


def _record_only(frozen: FrozenRun | None, hook: Callable[..., Any]) -> Callable[..., Any]:
    def see(*seen: Any) -> Any:
        assert frozen is not None
        with frozen.resting(), torch.no_grad():
            return hook(*seen)

    recording = in_this_thread(hook if frozen is None else see)
    recording.records = True  # type: ignore[attr-defined]  # it changes nothing: see models/low_rank.py
    return recording


def hook_unembedding(model: Model, reader: Reader) -> Iterator[Any]:
    """Let a reader pick what is unembedded."""
    yield model.unembedding.register_forward_pre_hook(in_this_thread(reader.pick))
    if model.logit_cap is not None:
        yield model.unembedding.register_forward_hook(in_this_thread(reader.keep))


def hook_last_rows(model: Model, places: Places, frozen: FrozenRun | None) -> Iterator[Any]:
    """Let the MLPs of the last block run at the explained positions only."""
    for module in find_last_mlps(model):
        rows = LastRows(places, frozen)
        yield module.register_forward_pre_hook(in_this_thread(rows.pick))
        yield module.register_forward_hook(in_this_thread(rows.put_back))


@contextmanager
def noting(model: Model, frozen: FrozenRun) -> Iterator[None]:
    """Let a frozen run note what the network does."""
    with ExitStack() as hooks:
        for stack in model.stacks:
            for handle in (*_hook_blocks(model, stack, frozen), *_hook_streams(stack, frozen)):
                hooks.callback(handle.remove)
        if model.encoder_stack is not None:
            change = partial(_replace_argument, "encoder_hidden_states", frozen.enter_source)
            handle = model.decoder.register_forward_pre_hook(in_this_thread(change), with_kwargs=True)
            hooks.callback(handle.remove)
        frozen.run_again = partial(_run_again, model)
        hooks.enter_context(frozen.running())
        yield


def _run_again(model: Model, frozen: FrozenRun, index: int, call: Call, stream: Tensor) -> Tensor:
    """Run a block of the decoder once more, noted."""
    args, kwargs = _replace_argument("hidden_states", lambda _: stream, model.blocks[index], *call)
    with ExitStack() as hooks:
        for handle in _hook_blocks(model, model.decoder_stack, frozen, slice(index, index + 1)):
            hooks.callback(handle.remove)
        hooks.enter_context(evaluating(model))
        hooks.enter_context(keep_precision(model.dtype))
        hooks.enter_context(frozen.running())
        output = model.blocks[index](*args, **kwargs)
    found: Tensor = output[0] if isinstance(output, tuple) else output
    return found


def _hook_blocks(
    model: Model, stack: LoadedStack, frozen: FrozenRun, some: slice = slice(None)
) -> Iterator[Any]:
    """Let a frozen run see activations, and what attention gives before its output projection."""

    def activate(module: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
        single = len(args) == 1 and isinstance(args[0], Tensor) and isinstance(output, Tensor)
        return frozen.activate(module, args[0], output) if single else None

    def take_context(_module: nn.Module, args: tuple[Tensor, ...]) -> None:
        frozen.take_context(stack, args[0])

    def hide(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return (frozen.hide(module, args[0]), *args[1:])

    def hide_operations(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return (frozen.hide_operations(module, args[0]), *args[1:])

    def reveal(module: nn.Module, _args: Any, output: Tensor) -> Tensor | None:
        return frozen.reveal(projections[module], output)

    def hold_lost(_module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        if any(map(depends, args)) and isinstance(output, Tensor) and not output.requires_grad:
            hold(output)

    projections: dict[nn.Module, Projection] = {}
    for block in stack.blocks[some]:
        single, whole = sort_modules(model, block)
        projections |= whole
        for module in single:
            stepwise = frozen.foreign and bool(
                find_foreign(module)
            )  # what it does to each element is not known
            if stepwise or not is_from_torch(module):
                yield module.register_forward_hook(in_this_thread(hold_lost))
            if may_activate(module) and not stepwise:
                if type(module).__module__ == _ACTIVATIONS and not frozen.foreign:
                    yield module.register_forward_pre_hook(in_this_thread(hide))
                yield module.register_forward_hook(in_this_thread(activate))
        for sublayer in stack.stack.sublayers:
            if isinstance(sublayer, Attention):
                output = module_at(block, sublayer.output)
                yield output.register_forward_pre_hook(in_this_thread(take_context))
        for module in whole:
            yield module.register_forward_pre_hook(in_this_thread(hide_operations))
            yield module.register_forward_hook(in_this_thread(reveal))


def _hook_streams(stack: LoadedStack, frozen: FrozenRun) -> Iterator[Any]:
    """Let a frozen run take the streams between the blocks of a stack."""

    def enter(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        change = partial(frozen.enter, stack, call=(args, kwargs))
        return _replace_argument("hidden_states", change, module, args, kwargs)

    def leave(_module: nn.Module, _args: Any, output: Any) -> Any:
        if isinstance(output, tuple):
            return (frozen.enter(stack, output[0]), *output[1:])
        return frozen.enter(stack, output)

    for block in stack.blocks:
        yield block.register_forward_pre_hook(in_this_thread(enter), with_kwargs=True)
    yield stack.blocks[-1].register_forward_hook(in_this_thread(leave))


def _replace_argument(
    name: str,
    replacement: Callable[[Tensor], Tensor],
    _module: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Let a module be called with something else: by its name, or as the first."""
    if name in kwargs:
        return args, {**kwargs, name: replacement(kwargs[name])}
    return (replacement(args[0]), *args[1:]), kwargs


@contextmanager
def reading(model: Model, reader: Reader) -> Iterator[None]:
    """Let a reader pick what is unembedded, for a while; gradients pass every projection."""
    with ExitStack() as stack:
        for handle in (*hook_unembedding(model, reader), *_hook_gradients(model)):
            stack.callback(handle.remove)
        yield


def _hook_gradients(model: Model) -> Iterator[Any]:
    """Let gradients pass projections of quantised weights, whose own operations may lose them."""
    read: dict[nn.Module, Tensor] = {}

    def hide(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        if torch.is_grad_enabled() and args[0].requires_grad:
            read[module] = args[0]
            return (args[0].detach(), *args[1:])
        return args

    def reveal(module: nn.Module, _args: Any, output: Tensor) -> Tensor | None:
        inputs = read.pop(module, None)
        if inputs is None:
            return None
        return run_function(ProjectByModule, inputs, output, model.project(module).pull_back)

    for module in model.modules if torch.is_grad_enabled() else ():
        if is_opaque(module):
            yield module.register_forward_pre_hook(in_this_thread(hide))
            yield module.register_forward_hook(in_this_thread(reveal))


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
def replace_outputs(
    replacements: Mapping[nn.Module, Callable[[Tensor], Tensor]], first: bool = False
) -> Iterator[None]:
    """Let modules give something else than what they computed; `first`: before hooks of others see it."""
    with intervening(), ExitStack() as stack:
        for module, replacement in replacements.items():
            hook = in_this_thread(partial(_replace_output, replacement))
            stack.callback(module.register_forward_hook(hook, prepend=first).remove)
        yield


def _replace_output(
    replacement: Callable[[Tensor], Tensor], _module: nn.Module, _args: Any, output: Tensor
) -> Tensor:
    return replacement(output)


@contextmanager
def replace_inputs(module: nn.Module, replacement: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Let a module read something else than what it is given."""
    hook = in_this_thread(partial(_replace_argument, "hidden_states", replacement))
    handle = module.register_forward_pre_hook(hook, with_kwargs=True)
    try:
        with intervening():
            yield
    finally:
        handle.remove()
