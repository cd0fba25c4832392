"""What the attributes of a network's modules hold in turn: containers, functions and plain objects."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache, partial
from types import FunctionType, MethodType
from typing import Any

import torch
from torch import nn

__all__ = ["list_contents", "list_hooks", "may_hold"]

_PLAIN = frozenset({bool, int, float, str, type(None), torch.dtype, torch.device})
_ORDERED = list, tuple
_FUNCTIONS = FunctionType, MethodType
_OPAQUE = nn.Module, torch.Tensor, type
"""What an attribute holds that is listed on its own, or not changed."""


def list_hooks(hooks: Mapping[int, Any]) -> Iterator[Any]:
    """List hooks and their code; not what they hold: most keep what they have seen."""
    for hook in hooks.values():
        yield from (hook, getattr(hook, "__code__", None))


def may_hold(value: Any) -> bool:
    """Say whether an attribute may hold something that is not listed on its own."""
    kind: type = type(value)
    if type(kind).__hash__ is None:  # a class that cannot be looked up
        return True
    return kind not in _PLAIN and _lister_of(kind) is not _list_nothing


def list_contents(value: Any) -> Iterable[Any]:
    """List what a function reads, what a container holds, or the attributes of a plain object."""
    kind: type = type(value)
    return _list_attributes(value) if type(kind).__hash__ is None else _lister_of(kind)(value)


@lru_cache(maxsize=1024)
def _lister_of(kind: type) -> Callable[[Any], Iterable[Any]]:
    """Return what lists the contents of an object of a class; asking a config for its class is slow."""
    if issubclass(kind, _ORDERED):
        return iter
    if issubclass(kind, dict):
        return dict.values
    if issubclass(kind, _FUNCTIONS):
        return _list_read
    if issubclass(kind, _OPAQUE) or "config" in kind.__name__.lower():
        return _list_nothing
    return _list_attributes


def _list_nothing(_value: Any) -> Iterable[Any]:
    return ()


def _list_read(called: Any) -> Iterator[Any]:
    function = getattr(called, "__func__", called)
    read: list[Any] = []
    if isinstance(function, partial):  # made a method, as torchao does
        read += *function.args, *function.keywords.values()
        function = function.func
    read += map(_open, getattr(function, "__closure__", None) or ())
    yield getattr(function, "__code__", function)
    for held in read:
        yield held
        if isinstance(held, (*_ORDERED, dict)):
            yield from list_contents(held)


def _list_attributes(value: Any) -> Iterator[Any]:
    for each in getattr(value, "__dict__", {}).values():
        if isinstance(each, set):
            yield from each
        elif not isinstance(each, torch.device):  # both are made anew by every run of offloaded weights
            yield each


def _open(cell: Any) -> Any:
    """Return what a cell of a closure holds; None where it is empty."""
    try:
        return cell.cell_contents
    except ValueError:
        return None
