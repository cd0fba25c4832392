"""What a network is besides its weights, so that a change after loading is noticed.

Weights are read and proven on every call. Two things are found once and then relied on: that a recorded run
is the model's own run, and that no position sees those after it. Both depend on the config, on the modules
with their attributes, buffers and hooks, on their classes, and on the functions they call. All of these are
compared with what they were, by identity, which takes a few milliseconds. Of an attribute that is a function,
a container or a plain object, what it holds is compared too. What a hook holds (many keep what they have
seen) and what a network reads elsewhere, say a global variable of a patched `forward`, is not seen:
`verify="always"` compares on every call.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from operator import is_, itemgetter, methodcaller
from types import FunctionType
from typing import Any

import torch
import torch.nn.functional
import torch.nn.modules.module as torch_module
from torch import nn
from torch.overrides import _get_current_function_mode_stack
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack
from transformers.cache_utils import DynamicCache, DynamicLayer
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS

from ..errors import ModelError
from ..models.model import Model, blocks_of
from ..runs.foreign_code import has_foreign_code, has_foreign_parts
from .held_objects import list_contents, list_hooks, may_hold
from .own_attention import RUNNING, name_attention

__all__ = [
    "NetworkState",
    "intervening",
    "is_intervened",
    "look_again",
    "note_foreign",
    "read_state",
    "require_same_parts",
]

_OWN = frozenset(vars(nn.Module()))
"""Attributes of every module: its parameters, buffers, hooks and modules, which are listed on their own, and
what is of no matter for what it computes."""
_LOOKED_AT = {"training", "_modules", "_parameters", "_buffers", "_forward_hooks", "_forward_pre_hooks"}
"""Those of them that must be the same objects."""
_SHARED_FILES = (
    "transformers.masking_utils",
    "transformers.integrations.sdpa_attention",
    "transformers.activations",
)
"""Modules whose functions many modelling files call."""
_intervened: ContextVar[bool] = ContextVar("_intervened", default=False)
_values = methodcaller("values")


@dataclass(frozen=True, eq=False)
class _Places:
    """Where a network holds what decides what it computes; these are the same while what they hold is."""

    modules: tuple[nn.Module, ...]
    getters: tuple["itemgetter[Any]", ...]
    """What gives the attributes that are of matter, for every module."""
    parameters: tuple[Mapping[str, Any], ...]
    buffers: tuple[Mapping[str, Any], ...]
    hooks: tuple[Mapping[int, Any], ...]
    empty: tuple[Mapping[Any, Any], ...]
    """Where there could be parameters, buffers or hooks, and are none."""
    holding: tuple[Any, ...]
    """Attributes that hold something in turn."""
    configs: tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class NetworkState:
    """All objects that decide what a network computes, besides its weights."""

    places: _Places
    objects: tuple[Any, ...]
    """Modules, their attributes, buffers and hooks: the same only if they are identical."""
    called: tuple[Any, ...]
    """Functions, and what stands beside them in classes and files: the same only if they are identical."""
    values: tuple[Any, ...]
    """Configs, names and counts: the same if they are equal."""
    foreign: bool = False
    """Whether code of a user's own is among them; it is asked where the others have changed."""


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
        places, modes = _find_places(model.modules), _list_modes()
        return NetworkState(
            places,
            tuple(_list_objects(places, modes)),
            tuple(_list_called(model, places.modules, modes)),
            _list_values(model, places),
        )


def look_again(model: Model, known: NetworkState | None) -> NetworkState | None:
    """Read the state of a network again; None where it is still what is known."""
    with RUNNING:
        return read_state(model) if known is None or not _is_still(model, known) else None


def _is_still(model: Model, known: NetworkState) -> bool:
    """Say whether a network is still what is known: where all is as it was found, nothing else can be."""
    places, modes = known.places, _list_modes()
    try:
        return (
            places.modules is model.modules
            and not any(places.empty)
            and _list_values(model, places) == known.values
            and _are_same(_list_objects(places, modes), known.objects)
            and _are_same(_list_called(model, places.modules, modes), known.called)
        )
    except KeyError:  # an attribute is gone, and another has come
        return False


def _are_same(found: Iterable[Any], known: Sequence[Any]) -> bool:
    """Say whether these are the same objects, in order."""
    found = list(found)
    return len(found) == len(known) and all(map(is_, found, known))


def _find_places(modules: tuple[nn.Module, ...]) -> _Places:
    attributes = tuple(map(vars, modules))
    named = [[name for name in each if name in _LOOKED_AT or name not in _OWN] for each in attributes]
    held = (each[name] for each in attributes for name in each if name not in _OWN)
    configs = {id(config): config for each in attributes if (config := each.get("config"))}
    parameters, buffers = [each._parameters for each in modules], [each._buffers for each in modules]
    hooks = [*(each._forward_pre_hooks for each in modules), *(each._forward_hooks for each in modules)]
    return _Places(
        modules,
        tuple(itemgetter(*names) for names in named),
        parameters=tuple(filter(None, parameters)),
        buffers=tuple(filter(None, buffers)),
        hooks=tuple(filter(None, hooks)),
        empty=tuple(each for each in chain[Any](parameters, buffers, hooks) if not each),
        holding=tuple(filter(may_hold, held)),
        configs=tuple(configs.values()),
    )


def _list_objects(places: _Places, modes: Iterable[Any]) -> Iterable[Any]:
    """List what must be identical, one after the other: with adapters these are 20,000 objects."""
    return chain(
        places.modules,
        map(type, places.modules),
        chain.from_iterable(map(itemgetter.__call__, places.getters, map(vars, places.modules))),
        chain.from_iterable(map(_values, places.buffers)),
        chain.from_iterable(map(list_contents, places.holding)),
        chain.from_iterable(map(list_hooks, places.hooks)),
        map(type, modes),
        torch_module._global_forward_pre_hooks.values(),
        torch_module._global_forward_hooks.values(),
    )


def _list_values(model: Model, places: _Places) -> tuple[Any, ...]:
    """List what must be equal."""
    buffers = [each for each in chain.from_iterable(map(_values, places.buffers)) if each is not None]
    weights = [each for each in chain.from_iterable(map(_values, places.parameters)) if each is not None]
    return (
        list(map(len, map(vars, places.modules))),
        [name for name, _ in name_attention(model)],
        [repr(vars(config)) for config in places.configs],
        [0 if buffer.is_inference() else buffer._version for buffer in buffers],
        {(each.dtype, type(each)) for each in weights},
    )


def note_foreign(state: NetworkState) -> NetworkState:
    """Ask whether there is code of a user's own in a state that was just read."""
    modules = state.places.modules
    foreign = has_foreign_code(modules) or has_foreign_parts(modules, state.called)
    return replace(state, foreign=foreign)


def require_same_parts(model: Model) -> None:
    """Refuse a network whose type or blocks were changed after it was loaded."""
    types = {each.dtype for each in model.network.parameters() if each.is_floating_point()}
    if max(types, key=lambda each: torch.finfo(each).eps) != model.dtype:
        now = " and ".join(sorted(str(each).removeprefix("torch.") for each in types))
        raise ModelError(
            f"{model.name} was {str(model.dtype).removeprefix('torch.')} when it was loaded; its weights are "
            f"{now} now.",
            "Convert the whole network first, then load it: whyword.load(network.to(torch.bfloat16)).",
        )
    blocks = blocks_of(model.decoder, model.architecture.decoder)
    both = enumerate(zip_longest(blocks, model.blocks))
    others = [str(index + 1) for index, (now, then) in both if now is not then]
    if others:
        raise ModelError(
            f"Of the blocks of {model.name}, these are not what they were when it was loaded: "
            f"{', '.join(others)}.",
            "Load it again: whyword.load(network).",
        )


def _list_modes() -> list[Any]:
    """List what intercepts the operations of torch now."""
    functions = _get_current_function_mode_stack()  # type: ignore[no-untyped-call]
    return [*functions, *_get_current_dispatch_mode_stack()]


def _list_called(model: Model, modules: Iterable[nn.Module], modes: Iterable[Any]) -> Iterator[Any]:
    """List what classes and modelling files hold, the functions among it, and what else a network calls."""
    classes = {base: None for module in modules for base in type(module).__mro__}
    classes |= dict.fromkeys((*DynamicCache.__mro__, *DynamicLayer.__mro__))
    files = {*_SHARED_FILES, *(type(module).__module__ for module in modules)}
    places = [*classes, *(sys.modules[name] for name in sorted(files) if name in sys.modules)]
    for place in places:
        held = vars(place).values()
        yield from held
        yield from [value.__code__ for value in held if type(value) is FunctionType]
    yield from vars(torch.nn.functional).values()
    for name, function in name_attention(model):
        yield from (function, ALL_MASK_ATTENTION_FUNCTIONS.get(name))
    for mode in modes:
        yield from (vars(type(mode)).get(name) for name in ("__torch_function__", "__torch_dispatch__"))
