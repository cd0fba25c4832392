"""Shapes are checked at run time in tests: of every function and dataclass that declares one.

jaxtyping's import hook wraps every function of the library, and small models would run four times slower.
Types without shapes are mypy's.
"""

from collections.abc import Callable
from typing import Any, get_args

import jaxtyping

_wrap = jaxtyping.jaxtyped


def install() -> None:
    """Check shapes in all modules of the library that are imported from now on."""
    jaxtyping.jaxtyped = _check_where_declared
    jaxtyping.install_import_hook("whyword", "beartype.beartype").__enter__()


def _check_where_declared(*, typechecker: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate what declares a shape, and leave everything else as it is."""

    def decorate(declared: Any) -> Any:
        annotations = getattr(declared, "__annotations__", {}).values()
        return _wrap(declared, typechecker=typechecker) if any(map(_is_shape, annotations)) else declared

    return decorate


def _is_shape(annotation: Any) -> bool:
    """Whether a type, or a type inside it, is an array with a shape; names of types are not looked up."""
    if isinstance(annotation, str):
        return "Tensor" in annotation
    if isinstance(annotation, type) and issubclass(annotation, jaxtyping.AbstractArray):
        return True
    return any(map(_is_shape, get_args(annotation)))
