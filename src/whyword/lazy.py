"""Imports: lazy ones, since torch takes seconds to import, and those of modules that have moved."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.abc import MetaPathFinder
from typing import Any

__all__ = ["MOVED", "find_at", "look_up_in", "name_moved_modules"]

MOVED = {
    "contributions": "maths.contributions",
    "evaluation.table": "evaluation.tables",
    "inside.answers": "inside.top_examples",
    "inside.names": "inside.neuron_names",
    "inside.single": "inside.neurons",
    "ledger.neurons": "ledger.neuron_updates",
    "loading": "pipeline.loading",
    "methods": "attribute.methods",
    "norm": "maths.frozen_norm",
    "proof": "maths.proof",
    "serve.application": "serve.routes",
}
"""Modules that the documentation once named, and where they are now."""


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


class _MovedModules(MetaPathFinder):
    """Names the new place of a module that has moved; asked only for modules that are not found."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        package, _, module = name.partition(".")
        if package == __package__ and module in MOVED:
            raise ModuleNotFoundError(f"There is no module {name}.\nIt is now {package}.{MOVED[module]}.")


def name_moved_modules() -> None:
    """Let the import of a module that has moved say where it is."""
    sys.meta_path.append(_MovedModules())
