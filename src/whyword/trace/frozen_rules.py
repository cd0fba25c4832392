"""A rule for every operation: how a direction is pulled back through it once the run is held fixed.

linear      views, sums, products with what does not depend on the stream: as they are
cut         softmax, sigmoid, tanh, square roots, top-k: attention weights, gates, routers and norm statistics
            are held fixed
scaled      activations and clamps: their ratio of output to input is held fixed
halved      a product of two that depend on the stream gives half of itself to each
constant    what is added and does not depend on the stream is a bias: counted where it is added

Operations go by their names in torch: a method, a function and an operator of one name have one rule.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from .attention import AttentionCall
from .direct_attention import attend_plainly
from .frozen_gradients import Attend, Halve, NormaliseLayer, Project, ScaleByRatio, ratio_of, run_function
from .held_values import hold, is_held
from .intercepted_operation import Operation, count_constant, depends, refuse, refuse_held
from .row_positions import rows_of

__all__ = ["ATTENTION", "LINEAR", "apply_rule", "scale"]

_ADDED = {"add": 1, "radd": 1, "iadd": 1, "sub": -1, "subtract": -1, "isub": -1, "rsub": 1}
"""How often the second of two is added."""
_BIASED = {"linear": (2, "bias"), "addmm": (0, "input"), "baddbmm": (0, "input"), "addbmm": (0, "input")}
"""Where the bias is among the arguments."""


def _words(names: str) -> frozenset[str]:
    return frozenset(names.split())


ATTENTION = "scaled_dot_product_attention"
LINEAR = _words(
    """view view_as reshape reshape_as transpose swapaxes swapdims permute movedim moveaxis contiguous clone
    to type type_as float double half bfloat16
    expand expand_as squeeze unsqueeze flatten unflatten ravel split
    split_with_sizes chunk tensor_split unbind narrow select getitem index_select gather take_along_dim repeat
    repeat_interleave tile flip roll sum mean neg positive cumsum T mT H t triu tril diagonal unfold dropout
    cpu cuda real alias atleast_1d atleast_2d broadcast_to"""
)


def apply_rule(operation: Operation) -> Any:
    """Run an operation by its rule."""
    rule = _RULES.get(operation.name)
    return refuse(operation, operation.run()) if rule is None else rule(operation)


def _cut(operation: Operation) -> Any:
    with torch.no_grad():
        return hold(operation.run())


def _add(operation: Operation) -> Any:
    one, two = operation.args[0], operation.argument(1, "other")
    if depends(one) and depends(two):
        return operation.run()
    if depends(one):
        constant, times = two, _ADDED[operation.name] * operation.kwargs.get("alpha", 1)
    else:
        constant, times = one, -1 if operation.name == "rsub" else 1
    if not isinstance(constant, Tensor) and constant == 0:
        return operation.run()
    if constant is one and operation.in_place:
        constant = constant.clone()
    if is_held([constant]):
        return refuse_held(operation, operation.run())
    return count_constant(operation, operation.run(), lambda: constant if times == 1 else constant * times)


def _multiply(operation: Operation) -> Any:
    one, two = operation.args[0], operation.argument(1, "other")
    if not (depends(one) and depends(two)):
        return operation.run()
    return refuse(operation, operation.run()) if operation.in_place else run_function(Halve, one, two)


def _divide(operation: Operation) -> Any:
    result = operation.run()
    return refuse(operation, result) if depends(operation.argument(1, "other")) else result


def _write(operation: Operation) -> Any:
    """Write into a tensor that was made for it: nothing may be in it yet that is not followed."""
    base = operation.args[0]
    written = (
        operation.name != "copy"
        and not depends(base)
        and bool(base.any())
        and not _overwrites(operation, base.shape[0])
    )
    result = operation.run()
    return refuse(operation, base if result is None else result) if written else result


def _overwrites(operation: Operation, rows: int) -> bool:
    """Say whether every row of a tensor is written."""
    index = operation.args[1] if operation.name == "setitem" else None
    if not isinstance(index, Tensor) or index.ndim != 1 or index.dtype == torch.bool:
        return False
    return torch.equal(index.sort().values, torch.arange(rows, device=index.device))


def _raise(operation: Operation) -> Any:
    exponent = operation.argument(1, "exponent")
    if isinstance(exponent, Tensor) and exponent.ndim > 0:
        return refuse(operation, operation.run())
    return _cut(operation) if exponent == -0.5 else _scale(operation)


def _scale(operation: Operation) -> Any:
    inputs = operation.args[0]
    if not depends(inputs) or len(operation.dependent) > 1:
        return refuse(operation, operation.run())
    activate = partial(_call_with, *_read_call(operation))
    with torch.no_grad():
        outputs = activate(inputs.detach())
    if outputs.shape != inputs.shape:  # bounds of more axes
        return refuse(operation, operation.run())
    return scale(operation, outputs, activate)


def _read_call(operation: Operation) -> tuple[Callable[..., Tensor], tuple[Any, ...], dict[str, Any]]:
    """Return an activation with its options, as one that leaves alone what it reads."""
    function, args, kwargs = operation.function, operation.args[1:], operation.kwargs
    if not operation.in_place:
        return function, args, kwargs
    if function.__name__.endswith("_"):
        function = getattr(torch, operation.name, None) or getattr(nn.functional, operation.name)
    options = {name: value for name, value in kwargs.items() if name != "inplace"}
    return function, tuple(False if each is True else each for each in args), options


def _call_with(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], given: Tensor) -> Tensor:
    result: Tensor = function(given, *args, **kwargs)
    return result


def scale(operation: Operation, outputs: Tensor, activate: Callable[[Tensor], Tensor]) -> Tensor:
    """Give what an activation gave: its ratio is held fixed, and what it gives for 0 is a bias."""
    inputs = operation.args[0]
    with torch.no_grad():
        plain = inputs.detach()
        at_zero = activate(plain.new_zeros(()))
        # A power is mostly part of a norm or a gate, which are cut: its ratio is not needed then. What
        # computes it must not hold the outputs, which hold it.
        ratio = (
            partial(_ratio_again, plain, at_zero, activate)
            if operation.name == "pow"
            else ratio_of(plain, outputs, at_zero, activate)
        )
    if operation.in_place:
        inputs.mul_(ratio)
        with torch.no_grad():
            inputs.copy_(outputs)
        result: Tensor = inputs
    else:
        result = run_function(ScaleByRatio, inputs, lambda: outputs, ratio)
    return count_constant(operation, result, lambda: at_zero) if at_zero.any() else result


@torch.no_grad()
def _ratio_again(inputs: Tensor, at_zero: Tensor, activate: Callable[[Tensor], Tensor]) -> Tensor:
    return ratio_of(inputs, activate(inputs), at_zero, activate)


def _project(operation: Operation) -> Any:
    """Multiply by what does not depend on the stream."""
    if len(operation.dependent) > 1:
        return refuse(operation, operation.run())
    inputs, weight = _read_projection(operation)
    result = operation.run() if weight is None else run_function(Project, inputs, weight, operation.run)
    place = _BIASED.get(operation.name)
    bias = None if place is None else operation.argument(*place)
    if not isinstance(bias, Tensor) or depends(bias):
        return result
    if is_held([bias]):
        return refuse_held(operation, result)
    return count_constant(operation, result, lambda: bias)


def _read_projection(operation: Operation) -> tuple[Any, Tensor | None]:
    """Give what a projection reads and its weight, written × read; no weight: it is another product."""
    args = operation.args
    if operation.name == "linear" and depends(args[0]):
        return args[0], operation.argument(1, "weight")
    if operation.name == "addmm" and len(args) == 3 and depends(args[1]) and not operation.kwargs:
        return args[1], args[2].T
    return None, None


def _put_together(operation: Operation) -> Any:
    """Put together what depends on the stream and what does not."""
    result = operation.run()
    first = operation.args[0]
    if all(depends(each) for each in (first if isinstance(first, (list, tuple)) else operation.args)):
        return result
    if is_held(operation.args):
        return refuse_held(operation, result)
    function, kwargs = getattr(torch, operation.name), operation.kwargs
    args = tuple(_without_dependence(argument) for argument in operation.args)
    return count_constant(operation, result, lambda: function(*args, **kwargs))


def _normalise(operation: Operation) -> Any:
    inputs, shape = operation.args[0], operation.argument(1, "normalized_shape")
    weight, bias = operation.argument(2, "weight"), operation.argument(3, "bias")
    if len(shape) != 1 or len(operation.dependent) > 1:
        return refuse(operation, operation.run())
    result = run_function(NormaliseLayer, inputs, weight, bias, operation.argument(4, "eps", 1e-5))
    return result if bias is None else count_constant(operation, result, lambda: bias)


def _normalise_by_square(operation: Operation) -> Any:
    inputs, weight = operation.args[0], operation.argument(2, "weight")
    if len(operation.dependent) > 1:
        return refuse(operation, operation.run())
    with torch.no_grad():
        plain, epsilon = inputs.detach(), operation.argument(3, "eps")
        epsilon = torch.finfo(plain.dtype).eps if epsilon is None else epsilon
        ratio = torch.rsqrt(plain.pow(2).mean(-1, keepdim=True) + epsilon)
        ratio = ratio if weight is None else ratio * weight
    return run_function(ScaleByRatio, inputs, operation.run, ratio)


def _attend(operation: Operation) -> Any:
    query, key, value = (operation.argument(*each) for each in enumerate(("query", "key", "value")))
    if not depends(value):
        return _cut(operation)
    options = {
        "is_causal": operation.argument(5, "is_causal", default=False),
        "scaling": operation.kwargs.get("scale"),
    }
    mask, detached = operation.argument(3, "attn_mask"), [each.detach() for each in (query, key, value)]
    call = AttentionCall(None, detached[0], detached[1], detached[2], mask, options, attend_plainly)
    tally, rows = operation.tally, rows_of(value)
    assert rows is not None
    tally.sees_attention = True
    return run_function(
        Attend, value, operation.run, lambda gradient: tally.pull_attention(call, rows, gradient)
    )


def _without_dependence(argument: Any) -> Any:
    """Give zeros, which take no memory, for what depends on the stream."""
    if isinstance(argument, (list, tuple)):
        return type(argument)(_without_dependence(each) for each in argument)
    return argument.detach().new_zeros(()).expand(argument.shape) if depends(argument) else argument


_NAMES: dict[Callable[[Operation], Any], Iterable[str]] = {
    Operation.run: LINEAR,
    _write: _words("index_add index_copy scatter_add scatter setitem index_put copy"),
    _cut: _words(
        """softmax log_softmax sigmoid tanh erf rsqrt sqrt topk sort argsort argmax argmin detach one_hot
        zeros_like ones_like empty_like full_like new_zeros new_ones new_empty new_full new_tensor"""
    ),
    _scale: _words(
        """gelu silu relu relu6 leaky_relu elu selu celu hardswish hardtanh mish softplus softsign clamp clip
        clamp_min clamp_max square"""
    ),
    _raise: ("pow",),
    _add: _ADDED,
    _multiply: ("mul", "rmul", "imul", "multiply"),
    _divide: ("div", "truediv", "itruediv", "divide"),
    _project: _words("linear addmm baddbmm addbmm matmul rmatmul mm bmm mv dot einsum grouped_mm outer"),
    _put_together: ("cat", "concat", "stack", "where", "masked_fill"),
    _normalise: ("layer_norm",),
    _normalise_by_square: ("rms_norm",),
    _attend: (ATTENTION,),
}
_RULES = {name: rule for rule, names in _NAMES.items() for name in names}
