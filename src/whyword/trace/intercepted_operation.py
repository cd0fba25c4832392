"""One operation of torch that a network runs: how a direction is refused there, or a bias counted."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, no_type_check

from torch import Tensor, nn

from ..errors import ModelError, first_line
from .block_tally import BlockTally
from .row_positions import RowPositions, rows_of

__all__ = [
    "Operation",
    "cannot_follow",
    "count_constant",
    "depends",
    "find_dependent",
    "is_parameter",
    "not_a_bias",
    "refuse",
    "refuse_held",
    "sort_arguments",
]


_REMEDY = "Use another method (logit, alti-logit): they do not pull a direction back through it."


@dataclass(frozen=True)
class Operation:
    """One operation on tensors some of which depend on the residual stream."""

    function: Callable[..., Any]
    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    dependent: tuple[Tensor, ...]
    tally: BlockTally

    def run(self) -> Any:
        """Compute it."""
        return self.function(*self.args, **self.kwargs)

    def argument(self, place: int, name: str, default: Any = None) -> Any:
        """Read an argument."""
        return self.args[place] if place < len(self.args) else self.kwargs.get(name, default)

    @property
    def in_place(self) -> bool:
        """Whether it changes its first argument."""
        name = self.function.__name__
        named = name.endswith("_") and not name.startswith("__")
        return named or self.kwargs.get("inplace") is True or any(each is True for each in self.args[1:])


def refuse(operation: Operation, result: Any) -> Any:
    """Let an operation run, but no direction pass it."""
    return _stop_directions(partial(_fail_without_rule, operation.tally.place, operation.name), result)


def refuse_held(operation: Operation, result: Any) -> Any:
    """Let an operation run, but no direction pass it: it adds what is held fixed."""
    return _stop_directions(partial(_fail_held, operation.tally.place, operation.name), result)


def _stop_directions(fail: Callable[[Tensor], None], result: Any) -> Any:
    for each in find_dependent(result):
        each.register_hook(fail)  # type: ignore[no-untyped-call]
    return result


def _fail_without_rule(place: str, name: str, _gradient: Tensor) -> None:
    raise ModelError(f"{place}: flow has no rule for the operation {name} on the residual stream.", _REMEDY)


def _fail_held(place: str, name: str, _gradient: Tensor) -> None:
    raise not_a_bias(f"{place}: the operation {name}")


def not_a_bias(what: str) -> ModelError:
    """Make the error for an operation that adds something other than a bias."""
    return ModelError(
        f"{what} adds something that depends on the prompt and that flow cannot follow; it would be counted "
        "as a bias.",
        _REMEDY,
    )


def cannot_follow(what: str, error: Exception) -> ModelError:
    """Make the error for a block, or a network, that torch cannot follow."""
    return ModelError(f"{what}: flow cannot follow it: {type(error).__name__}: {first_line(error)}.", _REMEDY)


def count_constant(operation: Operation, result: Tensor, constant: Callable[[], Any]) -> Tensor:
    """Count something that was added where it was added."""
    # The operation itself must not be kept: it holds what it read.
    rows, tally = rows_of(operation.dependent[0]), operation.tally
    assert rows is not None
    what = f"{tally.place}: the operation {operation.name}"
    result.register_hook(partial(_count, tally, rows, constant, what))  # type: ignore[no-untyped-call]
    return result


def _count(
    tally: BlockTally, rows: RowPositions, constant: Callable[[], Any], what: str, gradient: Tensor
) -> None:
    own = constant()
    tally.note_bias(what, own)
    if isinstance(own, Tensor) and own.ndim == 1 and own.shape[0] == gradient.shape[-1]:
        tally.add_bias(rows, (gradient @ own.to(gradient.dtype))[..., None], what)
    else:
        tally.add_bias(rows, gradient * own, what)


def depends(argument: Any) -> bool:
    """Say whether something depends on the residual stream."""
    return isinstance(argument, Tensor) and argument.requires_grad


def is_parameter(argument: Any) -> bool:
    """Say whether something is a parameter; most tensors are plain ones, which torch is slow to tell."""
    if type(argument) is Tensor:
        return bool(getattr(argument, "_is_param", False))
    return isinstance(argument, nn.Parameter)


@no_type_check
def sort_arguments(arguments: Iterable[Any], dependent: list[Tensor], parameters: list[Tensor]) -> None:
    """Find what depends on the stream, and parameters that would get a gradient, also in lists."""
    for argument in arguments:
        if isinstance(argument, Tensor):
            if argument.requires_grad:
                (parameters if is_parameter(argument) else dependent).append(argument)
        elif isinstance(argument, (list, tuple)):
            sort_arguments(argument, dependent, parameters)


def find_dependent(result: Any) -> list[Tensor]:
    """Find what depends on the stream in a result."""
    dependent: list[Tensor] = []
    sort_arguments([result], dependent, [])
    return dependent
