"""Shapes are checked at run time in tests: of every function and dataclass that declares one.

jaxtyping's import hook wraps every function of the library, and small models would run four times slower.
Types without shapes are mypy's. Some functions are called a hundred thousand times: the first calls of each
are checked, and then one of many, which takes a third off the time of the tests.
"""

from collections.abc import Callable
from functools import wraps
from itertools import count
from typing import Any, get_args

import jaxtyping

_wrap = jaxtyping.jaxtyped
FIRST, THEN = 64, 16
"""How many calls of a function are checked at first, and one of how many then."""


def install() -> None:
    """Check shapes in all modules of the library that are imported from now on."""
    jaxtyping.jaxtyped = _check_where_declared
    jaxtyping.install_import_hook("whyword", "beartype.beartype").__enter__()


def _check_where_declared(*, typechecker: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate what declares a shape, and leave everything else as it is."""

    def decorate(declared: Any) -> Any:
        annotations = getattr(declared, "__annotations__", {}).values()
        if not any(map(_is_shape, annotations)):
            return declared
        checked = _wrap(declared, typechecker=typechecker)
        return checked if isinstance(declared, type) else _check_some(declared, checked)

    return decorate


def _check_some(plain: Callable[..., Any], checked: Callable[..., Any]) -> Callable[..., Any]:
    """Call a function as it is, or checked where it is its turn."""
    calls = count()

    @wraps(plain)
    def call(*args: Any, **kwargs: Any) -> Any:
        place = next(calls)
        return (checked if place < FIRST or place % THEN == 0 else plain)(*args, **kwargs)

    return call


def _is_shape(annotation: Any) -> bool:
    """Whether a type, or a type inside it, is an array with a shape; names of types are not looked up."""
    if isinstance(annotation, str):
        return "Tensor" in annotation
    if isinstance(annotation, type) and issubclass(annotation, jaxtyping.AbstractArray):
        return True
    return any(map(_is_shape, get_args(annotation)))
