"""Lazy imports: torch and transformers take seconds to import, so names are looked up on first use."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["find_at", "look_up_in"]


def look_up_in(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package whose names live in some of its modules (PEP 562)."""

    def look_up(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f".{homes[name]}", package), name)
        setattr(sys.modules[package], name, value)  # later accesses do not come here
        return value

    return look_up


def find_at(home: str) -> Any:
    """Return what a location names: "results.explanation:Explanation" is a class of that module."""
    module, name = home.split(":")
    return getattr(import_module(f".{module}", __package__), name)
