"""Modules by the paths that a description names."""

from torch import nn

from ..errors import ModelError
from .catalogue import catalogued

__all__ = ["list_modules", "module_at", "optional_module"]


def list_modules(network: nn.Module) -> list[nn.Module]:
    """List a module and all inside it, in the order of `modules()`, which is slow for nested adapters."""
    found: dict[nn.Module, None] = {}
    waiting = [network]
    while waiting:
        module = waiting.pop()
        if module not in found:
            found[module] = None
            waiting += [child for child in reversed(module._modules.values()) if child is not None]
    return list(found)


def optional_module(parent: nn.Module, path: str | None) -> nn.Module | None:
    """Find a module that not every model of this family has."""
    for name in [] if path is None else path.split("|"):
        try:
            return parent.get_submodule(name)
        except AttributeError:
            continue
    return None


def module_at(parent: nn.Module, path: str) -> nn.Module:
    """Find a module by its path, or say which description does not fit."""
    found = optional_module(parent, path)
    if found is not None:
        return found
    where, inside = _deepest(parent, path)
    children = ", ".join(name for name, _ in inside.named_children()) or "none"
    raise ModelError(
        f"{type(parent).__name__} has no module {path!r}; {where or 'it'} has {children}.",
        "Name the right path in the description: whyword.load(..., architecture=...). "
        f"Model types that need none: {catalogued()}.",
    )


def _deepest(parent: nn.Module, path: str) -> tuple[str, nn.Module]:
    """Follow a path as far as it goes."""
    names, found = path.split("|", maxsplit=1)[0].split("."), parent
    for count, name in enumerate(names):
        children = dict(found.named_children())
        if name not in children:
            return ".".join(names[:count]), found
        found = children[name]
    return path, found
