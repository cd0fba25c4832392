"""The network as the affine map that it was in one run.

The model's own modules run as they are, on the residual stream that enters each block, and torch's autograd
notes what they do. Only what is not linear gets another gradient, by a table of rules (frozen_rules.py) that
knows operations of torch and no family.

An operation without a rule is refused by its name, where a direction would have to pass it. That a rule is
right is not taken on trust: at every depth the parts and the biases must add up to the logit.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, no_type_check

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode, _get_current_function_mode

from ..models.projection import Projection
from .block_tally import BlockTally
from .frozen_gradients import ProjectByModule, run_function
from .frozen_rules import ATTENTION, LINEAR, apply_rule, scale
from .held_values import hold, is_held
from .intercepted_operation import (
    Operation,
    count_constant,
    find_dependent,
    is_parameter,
    refuse,
    sort_arguments,
)
from .row_positions import RowPositions, rows_of, set_rows

__all__ = ["FreezingMode"]


_UNKNOWN = object()
_TELLING = frozenset({"size", "dim", "numel", "stride", "is_floating_point", "is_contiguous"})
"""Methods that tell something of a tensor, and give none."""
_PLAIN = LINEAR - {"getitem", "index_select", "repeat_interleave"}
"""Operations that only need their rows followed: most of those that a network runs."""


class FreezingMode(TorchFunctionMode):
    """Gives operations on what depends on the residual stream the gradient of their frozen map."""

    def __init__(self, tally: BlockTally) -> None:
        super().__init__()
        self._tally = tally
        self._names: dict[Any, str | None] = {}
        self.noting = False
        """Whether the block that runs is noted: where gradients are off then, the network itself does so."""
        self._paused = False

    def pause(self) -> None:
        """Let operations run as they are until `resume`, without gradients."""
        self._paused = _get_current_function_mode() is self  # type: ignore[no-untyped-call]
        if self._paused:  # else another one is inside
            self.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        self.noting = False
        torch.set_grad_enabled(False)

    def resume(self, projection: Projection, inputs: Tensor, outputs: Tensor) -> Tensor:
        """Go on after a projection; give what it gave, which is pulled back as a whole."""
        torch.set_grad_enabled(True)
        result = self._project(projection, inputs, outputs)
        self.noting = True
        self._enter_again()
        return result

    def _enter_again(self) -> None:
        if self._paused:
            self._paused = False
            self.__enter__()  # type: ignore[no-untyped-call]

    @contextmanager
    def running(self) -> Iterator[None]:
        """Intercept the operations inside; one may fail while they are let run as they are."""
        with self:
            try:
                yield
            finally:
                self._enter_again()

    @contextmanager
    def resting(self) -> Iterator[None]:
        """Let operations inside run as they are: they are not of the network, and need not be looked at."""
        if _get_current_function_mode() is not self:  # type: ignore[no-untyped-call]  # another one is inside
            yield
            return
        self.__exit__(None, None, None)
        try:
            yield
        finally:
            self.__enter__()

    @no_type_check  # tests check types at run time, but not in every operation of torch
    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Any,
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        name = self._names.get(function, _UNKNOWN)
        if name is _UNKNOWN:
            name = self._names[function] = _name(function)
        if name is None or not torch.is_grad_enabled():
            if name == ATTENTION:  # of a block that is noted later
                self._tally.sees_attention = True
            if name is None or not self.noting:
                return function(*args, **kwargs)
        dependent, parameters = [], []
        sort_arguments(args, dependent, parameters)
        sort_arguments(kwargs.values(), dependent, parameters)
        if not torch.is_grad_enabled():
            return _follow_held(function, args, kwargs, lost=bool(dependent))
        if parameters:  # they are constants here
            args = tuple(_without_parameters(argument) for argument in args)
            kwargs = {key: _without_parameters(argument) for key, argument in kwargs.items()}
        if not dependent:
            return _follow_held(function, args, kwargs)
        if name in _PLAIN and len(dependent) == 1 and (rows := rows_of(dependent[0])) is not None:
            result = function(*args, **kwargs)
            _follow_rows(rows, result)
            return result
        operation = Operation(function, name, args, kwargs, tuple(dependent), self._tally)
        if any(rows_of(each) is None for each in dependent):
            return refuse(
                replace(operation, name=f"before {name}, which torch does not show,"), operation.run()
            )
        result = apply_rule(operation)
        _label(operation, args[0] if result is None else result)
        return result

    def activate(self, module: nn.Module, inputs: Tensor, outputs: Tensor) -> Tensor | None:
        """Scale what an activation module gave, where its operations were not seen, or all were cut."""
        with self.resting():
            if (
                not torch.is_grad_enabled()
                or not inputs.requires_grad
                or rows_of(inputs) is None  # torch does not show what was before: refused further on
                or rows_of(outputs) is not None
                or outputs.shape != inputs.shape
            ):
                return None
            outputs = outputs.detach()
            if not self._tally.is_function_of_elements(module, partial(_acts_alone, module, inputs, outputs)):
                return None
            operation = Operation(module.forward, "forward", (inputs,), {}, (inputs,), self._tally)
            result = scale(operation, outputs, module.forward)
            _label(operation, result)
            return result

    def _project(self, projection: Projection, inputs: Tensor, outputs: Tensor) -> Tensor:
        """Give what a projection gave whose operations are not followed: it is pulled back as a whole."""
        operation = Operation(
            projection.module.forward, type(projection.module).__name__, (inputs,), {}, (inputs,), self._tally
        )
        result = run_function(ProjectByModule, inputs, outputs, projection.pull_back)
        if rows_of(inputs) is None:
            refuse(replace(operation, name=f"before {operation.name}, which torch does not show,"), result)
            return result
        bias = projection.bias()
        if bias is not None:
            count_constant(operation, result, lambda: bias)
        _label(operation, result)
        return result


@no_type_check
def _follow_held(
    function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], lost: bool = False
) -> Any:
    """Run an operation that nothing need be pulled back through; what it makes of held values is held too.

    `lost`: so is what it makes of others.
    """
    result = function(*args, **kwargs)
    if lost or is_held(args) or is_held(kwargs.values()):
        hold(args[0] if result is None else result)  # an assignment gives nothing
    return result


@torch.no_grad()
def _acts_alone(module: nn.Module, inputs: Tensor, outputs: Tensor) -> bool:
    """Say whether the first and the last element, each alone, give what they gave among the others.

    And all in another order: some modules treat one position or one neuron in another way.
    """
    given, gave, rounding = inputs.detach().flatten(), outputs.flatten(), torch.finfo(outputs.dtype).eps
    # One alone is rounded in another way than many at once.
    alone = torch.cat([module.forward(each) for each in (given[:1].clone(), given[-1:].clone())])
    if not torch.allclose(alone, torch.cat([gave[:1], gave[-1:]]), rtol=2 * rounding, atol=0):
        return False
    turned = module.forward(inputs.detach().flip([*range(inputs.ndim)])).flatten()
    return torch.allclose(
        turned, gave.flip(0), rtol=2 * rounding, atol=4 * rounding * float(gave.abs().amax())
    )


def _name(function: Callable[..., Any]) -> str | None:
    """Name an operation whatever form it is called in; None for what gives no tensor."""
    name: str = getattr(function, "__name__", "")
    if name == "__get__":
        name = getattr(getattr(function, "__self__", None), "__name__", "")
        return name if name in LINEAR else None
    return None if name in _TELLING else name.strip("_")


def _without_parameters(argument: Any) -> Any:
    """Give a parameter as the constant that it is here."""
    if is_parameter(argument):
        return argument.detach()
    if isinstance(argument, (list, tuple)):
        return type(argument)(_without_parameters(each) for each in argument)
    return argument


def _label(operation: Operation, result: Any) -> None:
    """Say of every result which positions its rows belong to."""
    origin = operation.dependent[0]
    rows = _join_rows(operation) or rows_of(origin)
    assert rows is not None
    pick = _picker(operation) if origin is operation.args[0] else None
    placed = operation.args[1] if operation.name == "setitem" else None
    moved = None
    if isinstance(placed, Tensor) and placed.ndim == 1:
        moved = rows.place(placed)
    elif pick is not None:
        moved = rows.pick(origin, *pick)
    if moved is not None:
        for each in find_dependent(result):
            if rows_of(each) is None:
                set_rows(each, moved)
    _follow_rows(rows, result)


@no_type_check
def _follow_rows(rows: RowPositions, result: Any) -> None:
    """Say of what was made of some rows that its rows are these."""
    if not isinstance(result, Tensor):
        for each in result if isinstance(result, (list, tuple)) else ():
            _follow_rows(rows, each)
    elif result.requires_grad:
        if rows_of(result) is None:
            set_rows(result, rows.follow(result))
        whole = result._base  # of a slice that was written into
        if whole is not None and whole.requires_grad and rows_of(whole) is None:
            set_rows(whole, rows.follow(whole))


def _join_rows(operation: Operation) -> RowPositions | None:
    """Return the rows of tensors that are put one below the other, where they have an order of their own."""
    if operation.name not in ("cat", "concat") or operation.argument(1, "dim", 0) != 0:
        return None
    rows = [found for found in map(rows_of, operation.dependent) if found is not None]
    index = [each.index for each in rows if each.index is not None]
    return replace(rows[0], index=torch.cat(index)) if len(index) == len(operation.args[0]) else None


def _picker(operation: Operation) -> tuple[int, Callable[[Tensor], Tensor]] | None:
    """Return the axis that an operation picks rows along, and what picks them; None: it picks none."""
    if operation.name == "getitem":
        index = operation.args[1]
        parts = [part for part in (index if isinstance(index, tuple) else (index,)) if part is not None]
        axes = [axis for axis, part in enumerate(parts) if isinstance(part, Tensor) and part.ndim == 1]
        if len(axes) == 1 and all(isinstance(part, (int, slice, Tensor)) for part in parts):
            return axes[0], lambda rows: rows[parts[axes[0]]]
        if isinstance(index, slice):
            return 0, lambda rows: rows[index]
    if operation.name == "index_select" and operation.argument(1, "dim") == 0:
        return 0, lambda rows: rows[operation.argument(2, "index")]
    if operation.name == "repeat_interleave" and operation.argument(2, "dim") == 0:
        return 0, lambda rows: rows.repeat_interleave(operation.argument(1, "repeats"), dim=0)
    return None
