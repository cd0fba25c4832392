"""Methods as evaluations name them: `logit`, or `flow@9` with the depth at which flow is read."""

from collections.abc import Iterable
from dataclasses import dataclass

from ..attribute.methods import METHODS, find_methods, title_of
from ..errors import InputError
from ..models.model import Model

__all__ = ["NamedMethod", "find_names", "read_name", "require_depths", "title_name"]


@dataclass(frozen=True)
class NamedMethod:
    """A method, and the depth at which its scores are read."""

    method: str
    depth: int | None = None
    """None: the method has no depth, or is read at its own."""


def read_name(name: str) -> NamedMethod:
    """Split a name into its method and its depth."""
    method, at, depth = name.partition("@")
    return NamedMethod(method, int(depth) if at else None)


def find_names(names: Iterable[str]) -> tuple[str, ...]:
    """Check names of methods, and return each once."""
    found = []
    for name in dict.fromkeys(names):
        method, at, depth = name.partition("@")
        find_methods([method])
        if at and not METHODS[method].frozen:
            having = ", ".join(f"{each}@{depth}" for each, entry in METHODS.items() if entry.frozen)
            raise InputError(f"{name!r}: {method} has no depth.", f"Write {method}, or {having}.")
        if at and not depth.isdecimal():
            raise InputError(f"{name!r}: {depth!r} is not a depth.", f"Write a number, such as {method}@3.")
        found.append(name)
    return tuple(found)


def require_depths(model: Model, names: Iterable[str]) -> None:
    """Refuse depths that a model has not."""
    from ..attribute.flow import find_depth

    for name in names:
        find_depth(model, read_name(name).depth)


def title_name(name: str) -> str:
    """Return what tables and figures call a method."""
    named = read_name(name)
    return title_of(named.method) + ("" if named.depth is None else f"@{named.depth}")
