"""Models: what a family is (architecture, catalogue), how one is fetched, and how one is opened."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .architecture import Architecture, Attention, Mlp, Norm, Stack, ValueLayout
    from .model import Model
    from .open import open_model

__all__ = ["Architecture", "Attention", "Mlp", "Model", "Norm", "Stack", "ValueLayout", "open_model"]

# The cache is looked at without torch, which takes seconds to import: names are looked up when they are used.
_HOMES = {"Model": "model", "open_model": "open"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_HOMES.get(name, 'architecture')}", __name__), name)
    globals()[name] = value
    return value
