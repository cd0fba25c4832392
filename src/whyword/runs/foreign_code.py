"""Code of a user's own in a network: hooks, functions in the place of others, modules that no library wrote.

What such code does with several prompts at once, or with positions that are padding, is written nowhere: some
steers the last position, some one row of a batch, some all rows if one of them meets a condition. So prompts
of such a network are run one by one. What it reads decides what it does: a run is not resumed with another
strength or another vector.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import FunctionType
from typing import TYPE_CHECKING, Any

from .known_libraries import CALLED, is_known
from .read_values import unwrap

if TYPE_CHECKING:
    from torch import nn

__all__ = [
    "find_foreign",
    "find_global_hooks",
    "find_patched",
    "find_patched_files",
    "has_foreign_code",
    "has_foreign_parts",
    "is_compiled",
    "is_foreign",
    "is_from_library",
]

_OWN = frozenset(
    {
        *("_backward_hooks", "_backward_pre_hooks", "_buffers", "_forward_hooks", "_forward_pre_hooks"),
        *("_load_state_dict_post_hooks", "_load_state_dict_pre_hooks", "_modules", "_parameters"),
        *("_state_dict_hooks", "_state_dict_pre_hooks"),
    }
)
"""Attributes of every module: what acts on no prompt, or is asked for on its own."""
_SHARED_FILES = (
    "torch.nn.functional",
    "transformers.activations",
    "transformers.integrations.sdpa_attention",
    "transformers.masking_utils",
)
"""Python modules whose functions many modelling files call."""
_MODELS = "transformers.models."
Function = Callable[..., Any]


def has_foreign_code(modules: "Iterable[nn.Module]") -> bool:
    """Say whether any module of a network has a hook, or something for `forward`, that no library wrote.

    Of modules that have nothing of their own, one of each class is asked: adapters make them thousands.
    """
    asked: dict[Any, nn.Module] = {}
    for module in modules:
        own = vars(module)
        special = module._forward_hooks or module._forward_pre_hooks or "forward" in own or "_hf_hook" in own
        asked[module if special else type(module)] = module
    every = asked.values()
    return bool(find_global_hooks()) or any(map(is_compiled, every)) or any(map(find_foreign, every))


def is_compiled(module: "nn.Module") -> bool:
    """Say whether a module was compiled by torch.jit: whose code it is, and what its weight, is not known."""
    return hasattr(type(module), "original_name")


def find_global_hooks() -> list[Function]:
    """List the hooks of all modules whatever that no library wrote."""
    import torch.nn.modules.module as torch_module

    every = (*torch_module._global_forward_pre_hooks.values(), *torch_module._global_forward_hooks.values())
    return [each for each in every if is_foreign(each)]


def find_patched(modules: "Iterable[nn.Module]") -> list[tuple[str, Any]]:
    """List what somebody has put in the place of functions of a library, by place.

    These are methods of the classes of a network, and functions of the files that these are written in.
    """
    return _find_patched({type(module): None for module in modules})


def find_patched_files() -> list[tuple[str, Any]]:
    """List what somebody has put in the place of functions of any modelling file that was imported."""
    files = [file for name, file in sys.modules.items() if name.startswith(_MODELS) and ".modeling_" in name]
    classes = {each: None for file in files for each in vars(file).values() if hasattr(each, "named_modules")}
    return _find_patched(kind for kind in classes if kind.__module__.startswith(_MODELS))


def _find_patched(own: Iterable[Any]) -> list[tuple[str, Any]]:
    own = list(own)
    classes: dict[Any, None] = {base: None for kind in own for base in kind.__mro__}
    files = sorted({*_SHARED_FILES, *(kind.__module__ for kind in own)})
    places: list[tuple[str, Any]] = [(f"{kind.__module__}.{kind.__qualname__}", kind) for kind in classes]
    places += [(name, sys.modules[name]) for name in files if name in sys.modules]
    known = ((name, vars(place)) for name, place in places if is_known(name))
    return [
        (f"{place}.{name}", function)
        for place, held in known
        for name, function in sorted((name, _open_method(value)) for name, value in held.items())
        if _is_put_there(place, name, function)
    ]


def _is_put_there(place: str, name: str, function: Any) -> bool:
    """Say whether a function was put in the place of a library's own."""
    if isinstance(function, partial):  # modelling files have none
        return place.startswith(_MODELS)
    return isinstance(function, FunctionType) and is_foreign(function, CALLED)


def find_foreign(module: "nn.Module") -> list[Function]:
    """List the hooks of a module, and what was put in the place of its `forward`, that no library wrote."""
    own: Any = vars(module).get("forward")
    if own is None and is_from_library(module):
        own = getattr(type(module), "forward", None)  # somebody may have patched the class
    hooks = (*module._forward_pre_hooks.values(), *module._forward_hooks.values(), *_list_attached(module))
    return [each for each in (own, *hooks) if each is not None and is_foreign(each)]


def _list_attached(module: "nn.Module") -> list[Any]:
    """List the methods of hooks that accelerate has wrapped around a module's `forward`."""
    attached: Any = vars(module).get("_hf_hook")
    if attached is None:
        return []
    each = getattr(attached, "hooks", None) or [attached]
    return [method for hook in each for method in (hook.pre_forward, hook.post_forward)]


def is_from_library(module: "nn.Module") -> bool:
    """Say whether a known library wrote a module."""
    return is_known(type(module).__module__)


def has_foreign_parts(modules: "Iterable[nn.Module]", called: Iterable[Any]) -> bool:
    """Say whether a network has anything that no library wrote: too slow to be asked before every call.

    These are modules, weights with operations of their own, and functions that modules hold as attributes.
    `called`: what else may be a function that it calls: methods, and what modelling files hold.
    """
    modules = list(modules)
    classes = {base for module in modules for base in type(module).__mro__}
    weights = {type(weight) for module in modules for weight in module._parameters.values()}
    functions = (each for each in map(_open_method, called) if isinstance(each, FunctionType))
    return (
        not all(map(_is_known_class, classes | weights))
        or any(is_foreign(value) for module in modules for value in _list_held(module))
        or any(is_foreign(function, CALLED) for function in functions)
    )


def _is_known_class(kind: type) -> bool:
    """Say whether a library wrote a class; what modelling files call besides has no modules."""
    return is_known(kind.__module__, frozenset() if hasattr(kind, "named_modules") else CALLED)


def _list_held(module: "nn.Module") -> Iterator[Any]:
    """List what can be called of the attributes of a module, and of what these hold; not modules."""
    for value in (value for name, value in vars(module).items() if name not in _OWN):
        held = value.values() if isinstance(value, dict) else value
        for each in (value, *(held if isinstance(value, dict | list | tuple) else ())):
            if callable(each) and not isinstance(each, type) and not hasattr(each, "_parameters"):
                yield each


def _open_method(value: Any) -> Any:
    """Return the function of a property, or of a method of a class."""
    return getattr(value, "fget", None) or getattr(value, "__func__", value)


def is_foreign(function: Function, besides: frozenset[str] = frozenset()) -> bool:
    """Say whether no library wrote a function, or what it was wrapped around or given to; `besides`: more
    libraries."""
    plain = unwrap(function)
    if isinstance(function, partial):
        given = (*function.args, *function.keywords.values())
        if any(callable(each) and is_foreign(each, besides) for each in given):
            return True
    named = getattr(plain, "__module__", None) or type(plain).__module__
    if (compiled := getattr(plain, "qualified_name", None)) is not None:  # by torch.jit.script
        named = str(compiled).removeprefix("__torch__.")
    written = getattr(plain, "__globals__", {}).get("__name__")  # `functools.wraps` copies the other name
    if not is_known(named, besides) or not is_known(written or named, besides):
        return True
    inner = getattr(function, "__wrapped__", None) or getattr(plain, "__wrapped__", None)
    return inner is not None and is_foreign(inner, besides)
