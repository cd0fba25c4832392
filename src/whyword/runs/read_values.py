"""What a function reads besides its arguments, and what it writes: found in its code, without running it."""

import dis
from collections.abc import Iterable, Iterator
from functools import lru_cache
from types import CodeType, FunctionType, ModuleType
from typing import Any

from .known_libraries import is_user_written

__all__ = ["find_changed", "list_codes", "list_methods", "list_read", "unwrap"]

_WRITES = frozenset({"STORE_DEREF", "STORE_ATTR", "STORE_GLOBAL", "DELETE_ATTR"})
_FILLS = frozenset(
    {
        *("add", "append", "appendleft", "clear", "extend", "insert", "pop", "popitem", "popleft", "remove"),
        *("setdefault", "update"),
    }
)
"""Methods that change what a container holds; those of torch that change a tensor end in _."""
_NAMES = frozenset({"LOAD_ATTR", "LOAD_DEREF", "LOAD_GLOBAL", "LOAD_NAME", "LOAD_METHOD"})
_STORES = ("STORE_SUBSCR", "DELETE_SUBSCR")


def unwrap(function: Any) -> Any:
    """Return the function inside a `functools.partial` or a method."""
    plain = getattr(function, "func", function)
    return getattr(plain, "__func__", plain)


def list_read(function: Any) -> Iterator[tuple[str, Any]]:
    """List what a function reads besides its arguments and does not change itself, by name.

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
    functions = [plain]
    if holder is not None and not hasattr(holder, "_parameters"):
        functions = list_methods(type(holder), plain)
    read = dict[str, Any]()
    for each in functions:
        read |= _read_one(each)
    changed = find_changed(functions)
    yield from ((name, value) for name, value in read.items() if name not in changed)
    if hasattr(holder, "_parameters"):
        yield "self", holder
    elif holder is not None:
        held = getattr(holder, "__dict__", {}).items()
        yield from ((f"self.{name}", value) for name, value in held if name not in changed)


def _read_one(function: FunctionType) -> dict[str, Any]:
    """Find the defaults of a function, its global variables, and what it closes over."""
    read: dict[str, Any] = dict(_name_each("default", function.__defaults__ or ()))
    read |= function.__kwdefaults__ or {}
    names = dict.fromkeys(name for code in list_codes(function.__code__) for name in code.co_names)
    for name in (name for name in names if name in function.__globals__):
        value = function.__globals__[name]
        if isinstance(value, ModuleType | type):  # of which attributes are read
            held = vars(value)
            read |= {f"{name}.{each}": held[each] for each in names if each in held and _is_of(value)}
        else:
            read[name] = value
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            read[name] = cell.cell_contents
        except ValueError:  # it is empty yet
            continue
    return read


def _is_of(place: Any) -> bool:
    """Say whether attributes of a class or a Python module are somebody's own."""
    return is_user_written(getattr(place, "__module__", None) or place.__name__)


def _name_each(name: str, values: Any) -> list[tuple[str, Any]]:
    """Give values a name each."""
    return [(f"{name} {place}", value) for place, value in enumerate(values)]


def list_methods(kind: type, function: FunctionType) -> list[FunctionType]:
    """List a function, the methods of a class that it calls, and those that these call."""
    found, waiting = {function.__code__: function}, [function]
    while waiting:
        codes = list_codes(waiting.pop().__code__)
        names = (*(name for code in codes for name in code.co_names), "__call__")  # called without its name
        for method in (getattr(kind, name, None) for name in names):
            own = getattr(method, "fget", None) or getattr(method, "__func__", method)
            if isinstance(own, FunctionType) and own.__code__ not in found:
                found[own.__code__] = own
                waiting.append(own)
    return list(found.values())


def list_codes(code: CodeType) -> list[CodeType]:
    """List the code of a function and of those inside it."""
    inner = (each for each in code.co_consts if isinstance(each, CodeType))
    return [code, *(each for own in inner for each in list_codes(own))]


def find_changed(functions: Iterable[FunctionType]) -> frozenset[str]:
    """Name what functions write or fill that outlives their call."""
    codes = (code for function in functions for code in list_codes(function.__code__))
    return frozenset().union(*map(_find_changed, codes))


@lru_cache(maxsize=1024)
def _find_changed(code: CodeType) -> frozenset[str]:
    steps = list(dis.get_instructions(code))
    heights, height, aliases, changed = list[int](), 0, dict[str, str](), set[str]()
    for place, step in enumerate(steps):
        before = steps[place - 1] if place else step
        if step.opname in _WRITES:
            changed.add(str(step.argval))
        elif step.opname == "STORE_FAST" and before.opname in _NAMES:
            aliases[str(step.argval)] = str(before.argval)
        elif step.opname in ("LOAD_ATTR", "LOAD_METHOD") and _fills(str(step.argval)):
            changed |= _name_loaded(before, aliases)
        elif step.opname in _STORES:  # what is on the stack: a value, the container, a key
            wanted = height - (2 if before.opname == "SWAP" else 1)  # of `x[key] += 1` before the copies
            made = [own for own, after in zip(steps[:place], heights, strict=True) if after == wanted]
            changed |= _name_loaded(made[-1] if made else before, aliases)
        height += dis.stack_effect(step.opcode, step.arg, jump=False)
        heights.append(height)
    return frozenset(changed)


def _fills(name: str) -> bool:
    return name in _FILLS or (name.endswith("_") and not name.startswith("_"))


def _name_loaded(step: dis.Instruction, aliases: dict[str, str]) -> set[str]:
    """Name what a step has loaded; nothing where it was made in the function."""
    if step.opname in _NAMES:
        return {str(step.argval)}
    return {aliases[step.argval]} if step.opname == "LOAD_FAST" and step.argval in aliases else set()
