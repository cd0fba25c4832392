"""Fields of results that are computed when they are first asked for.

@dataclass(frozen=True)
class Result:
    ledger: MayBeLater[Ledger] = when_asked()

Result(ledger=later(settle))        # settled by the first `result.ledger`
"""

from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

__all__ = ["MayBeLater", "later", "replace_unasked", "when_asked"]

_Value = TypeVar("_Value")
_Result = TypeVar("_Result")


class _Later:
    """A value that is computed when it is asked for; pickled and copied as the value."""

    def __init__(self, compute: Callable[[], Any]) -> None:
        self.compute = compute

    def __reduce__(self) -> tuple[Callable[[Any], Any], tuple[Any]]:
        return _give, (self.compute(),)


def _give(value: Any) -> Any:
    return value


if TYPE_CHECKING:
    MayBeLater = Annotated[_Value, "computed when it is asked for"]
else:

    class MayBeLater:
        """What a field takes: a value, or one that is computed later."""

        def __class_getitem__(cls, kind: type) -> Any:
            return kind | _Later


class _WhenAsked:
    """Computes a field of a frozen dataclass when it is first asked for."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, result: Any, owner: type | None = None) -> Any:
        if result is None:
            raise AttributeError(f"{self._name} has no default")
        value = vars(result)[self._name]
        if isinstance(value, _Later):
            value = vars(result)[self._name] = value.compute()
        return value

    def __set__(self, result: Any, value: Any) -> None:
        vars(result)[self._name] = value


def when_asked() -> Any:
    """Declare a field, without a default, that may be computed later."""
    return _WhenAsked()


def later(compute: Callable[[], _Value]) -> _Value:
    """Give a value to such a field that is computed when it is first asked for."""
    value: Any = _Later(compute)
    return value  # type: ignore[no-any-return]


def replace_unasked(result: _Result, **changes: Any) -> _Result:
    """Replace fields as `dataclasses.replace` does, without asking for those that are computed later."""
    kept = {each.name: vars(result)[each.name] for each in fields(result)}  # type: ignore[arg-type]
    return type(result)(**{**kept, **changes})
