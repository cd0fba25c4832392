"""All modules of a network: they are asked for several times a call, and adapters make them thousands."""

from itertools import chain
from operator import attrgetter, is_, methodcaller

from torch import nn

from .paths import list_modules

__all__ = ["ModuleTree"]

_children = attrgetter("_modules")
_values = methodcaller("values")


class ModuleTree:
    """Lists the modules of a network, anew only where one was added, removed or replaced since."""

    def __init__(self) -> None:
        self._listed: tuple[tuple[nn.Module, ...], list[nn.Module | None]] = (), []
        """All modules, and what they held, one after the other."""

    def read(self, network: nn.Module) -> tuple[nn.Module, ...]:
        """Return a network and all modules inside it; the same tuple while they are the same."""
        modules, known = self._listed
        if modules and modules[0] is network:
            held = _list_held(modules)
            if len(held) == len(known) and all(map(is_, held, known)):
                return modules
        modules = tuple(list_modules(network))
        self._listed = modules, _list_held(modules)
        return modules


def _list_held(modules: tuple[nn.Module, ...]) -> list[nn.Module | None]:
    return list(chain.from_iterable(map(_values, map(_children, modules))))
