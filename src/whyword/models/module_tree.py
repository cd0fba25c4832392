"""All modules of a network: they are asked for several times a call, and adapters make them thousands."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import is_, methodcaller

from torch import nn

from .paths import list_modules

__all__ = ["ModuleTree"]

_Children = Mapping[str, nn.Module | None]
_values = methodcaller("values")


@dataclass(frozen=True, eq=False)
class _Listed:
    """The modules of a network as they were, and where it holds them."""

    modules: tuple[nn.Module, ...]
    holding: Sequence[_Children]
    """What holds modules inside others."""
    held: Sequence[nn.Module | None]
    empty: Sequence[_Children]
    """What could hold some, and does not."""

    def is_still(self, network: nn.Module) -> bool:
        if self.modules[0] is not network or any(self.empty):
            return False
        held = list(chain.from_iterable(map(_values, self.holding)))
        return len(held) == len(self.held) and all(map(is_, held, self.held))


class ModuleTree:
    """Lists the modules of a network, anew only where one was added, removed or replaced since."""

    def __init__(self) -> None:
        self._listed: _Listed | None = None

    def read(self, network: nn.Module) -> tuple[nn.Module, ...]:
        """Return a network and all modules inside it; the same tuple while they are the same."""
        listed = self._listed
        if listed is None or not listed.is_still(network):
            self._listed = listed = _list(network)
        return listed.modules


def _list(network: nn.Module) -> _Listed:
    modules = tuple(list_modules(network))
    inside = [module._modules for module in modules]
    holding = [each for each in inside if each]
    held = list(chain.from_iterable(map(_values, holding)))
    return _Listed(modules, holding, held, [each for each in inside if not each])
