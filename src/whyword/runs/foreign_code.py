"""Code of a user's own in a network: hooks, functions in the place of others, modules that no library wrote.

What such code does with several prompts at once, or with positions that are padding, is written nowhere: some
steers the last position, some one row of a batch, some all rows if one of them meets a condition. So prompts
of such a network are run one by one. What it reads decides what it does: a run is not resumed with another
strength or another vector.
"""

import dis
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

__all__ = [
    "find_foreign",
    "has_foreign_code",
    "has_foreign_parts",
    "is_foreign",
    "is_from_library",
    "list_read",
    "unwrap",
]

_LIBRARIES = frozenset(
    {
        *("accelerate", "bitsandbytes", "deepspeed", "functools", "gptqmodel", "hqq", "liger_kernel"),
        *("optimum", "peft", "torch", "torchao", "transformers", "transformers_modules", "whyword"),
    }
)
"""Their hooks fetch weights, or note what is asked for, and their layers are written for batches."""
_CALLED = sys.stdlib_module_names | {
    *("causal_conv1d", "einops", "flash_attn", "huggingface_hub", "mamba_ssm", "numpy", "safetensors")
}
"""What modelling files call besides, and what classes of libraries are made of."""
_OWN = frozenset(
    {
        *("_backward_hooks", "_backward_pre_hooks", "_buffers", "_forward_hooks", "_forward_pre_hooks"),
        *("_load_state_dict_post_hooks", "_load_state_dict_pre_hooks", "_modules", "_parameters"),
        *("_state_dict_hooks", "_state_dict_pre_hooks"),
    }
)
"""Attributes of every module: what acts on no prompt, or is asked for on its own."""
_WRITES = frozenset({"STORE_DEREF", "STORE_ATTR", "STORE_GLOBAL", "DELETE_ATTR"})
_FILLS = frozenset({"add", "append", "appendleft", "clear", "copy_", "extend", "insert", "pop", "update"})
"""Methods that change what a container holds."""
Function = Callable[..., Any]


def has_foreign_code(modules: "Iterable[nn.Module]") -> bool:
    """Say whether any module of a network has a hook, or something for `forward`, that no library wrote.

    Of modules that have nothing of their own, one of each class is asked: adapters make them thousands.
    """
    import torch.nn.modules.module as torch_module

    every = (*torch_module._global_forward_pre_hooks.values(), *torch_module._global_forward_hooks.values())
    asked: dict[Any, nn.Module] = {}
    for module in modules:
        special = module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module)
        asked[module if special else type(module)] = module
    return any(map(is_foreign, every)) or any(map(find_foreign, asked.values()))


def find_foreign(module: "nn.Module") -> list[Function]:
    """List the hooks of a module, and what was put in the place of its `forward`, that no library wrote."""
    own: Any = vars(module).get("forward")
    if own is None and is_from_library(module):
        own = type(module).forward  # somebody may have patched the class
    hooks = (*module._forward_pre_hooks.values(), *module._forward_hooks.values())
    return [each for each in (own, *hooks) if each is not None and is_foreign(each)]


def is_from_library(module: "nn.Module") -> bool:
    """Say whether a known library wrote a module."""
    return _is_known(type(module).__module__)


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
        not all(_is_known(kind.__module__, _CALLED) for kind in classes | weights)
        or any(is_foreign(value) for module in modules for value in _list_held(module))
        or any(is_foreign(function, _CALLED) for function in functions)
    )


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
    """Say whether no library wrote a function, or what it was wrapped around; `besides`: more libraries."""
    plain = unwrap(function)
    named = getattr(plain, "__module__", None) or type(plain).__module__
    written = getattr(plain, "__globals__", {}).get("__name__")  # `functools.wraps` copies the other name
    if not _is_known(named, besides) or not _is_known(written or named, besides):
        return True
    inner = getattr(function, "__wrapped__", None) or getattr(plain, "__wrapped__", None)
    return inner is not None and is_foreign(inner, besides)


def _is_known(name: str, besides: frozenset[str] = frozenset()) -> bool:
    """Say whether a Python module belongs to a known library."""
    library = name.partition(".")[0]
    return library in _LIBRARIES or library in besides


def unwrap(function: Any) -> Any:
    """Return the function inside a `functools.partial` or a method."""
    plain = getattr(function, "func", function)
    return getattr(plain, "__func__", plain)


def list_read(function: Any) -> Iterator[tuple[str, Any]]:
    """List what a function reads besides its arguments and does not write itself, by name.

    These are its defaults, what it closes over, its global variables, and the attributes of its object. What
    it fills, a list of what it has seen for instance, is left out.
    """
    if hasattr(function, "func"):  # of functools.partial
        yield from _name_each("argument", function.args)
        yield from sorted(function.keywords.items())
    plain = unwrap(function)
    holder = getattr(getattr(function, "func", function), "__self__", None)
    if not isinstance(plain, FunctionType):  # an object that can be called
        plain, holder = vars(type(plain)).get("__call__"), plain
    if not isinstance(plain, FunctionType):
        return
    written, fills = _find_written(plain.__code__)
    read: dict[str, Any] = dict(_name_each("default", plain.__defaults__ or ()))
    read |= plain.__kwdefaults__ or {}
    read |= {name: plain.__globals__[name] for name in plain.__code__.co_names if name in plain.__globals__}
    for name, cell in zip(plain.__code__.co_freevars, plain.__closure__ or (), strict=True):
        try:
            read[name] = cell.cell_contents
        except ValueError:  # it is empty yet
            continue
    if holder is not None and not hasattr(holder, "_parameters"):
        methods = _list_methods(type(holder), plain.__code__)
        for code in methods:
            more, filled = _find_written(code)
            written, fills = written | more, fills or filled
        read |= {f"self.{name}": value for name, value in vars(holder).items() if name not in written}
    for name, value in read.items():
        if name not in written and not isinstance(value, ModuleType | type) and _is_kept(value, fills):
            yield name, value


def _name_each(name: str, values: Any) -> list[tuple[str, Any]]:
    """Give values a name each."""
    return [(f"{name} {place}", value) for place, value in enumerate(values)]


def _is_kept(value: Any, fills: bool) -> bool:
    """Say whether a value can be told from another: not what is filled, nor what has no value of its own."""
    if isinstance(value, list | dict | set):
        return not fills
    return value is None or isinstance(value, bool | int | float | str | tuple) or hasattr(value, "dtype")


def _list_methods(kind: type, code: CodeType) -> list[CodeType]:
    """List the code of the methods of an object that one of them calls, and that these call."""
    found, waiting = dict[CodeType, None](), [code]
    while waiting:
        names = (*waiting.pop().co_names, "__call__")  # which is called without its name
        for method in (getattr(kind, name, None) for name in names):
            own = getattr(method, "__code__", None)
            if own is not None and own not in found:
                found[own] = None
                waiting.append(own)
    return list(found)


@lru_cache(maxsize=256)
def _find_written(code: CodeType) -> tuple[frozenset[str], bool]:
    """Name what a function writes that outlives its call; say whether it fills a container."""
    steps = list(dis.get_instructions(code))
    written = {str(step.argval) for step in steps if step.opname in _WRITES}
    fills = any(step.opname == "STORE_SUBSCR" for step in steps) or bool(_FILLS & {*code.co_names})
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            more, filled = _find_written(inner)
            written, fills = written | more, fills or filled
    return frozenset(written), fills
