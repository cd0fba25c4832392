"""The network as the affine map that it was in one run: a rule for every operation on the residual stream.

The model's own modules run as they are, on the residual stream that enters each block, and torch's autograd
notes what they do. Only what is not linear gets another gradient, by a table of rules that knows operations
of torch and no family:

linear      views, sums, products with what does not depend on the stream: as they are
cut         softmax, sigmoid, tanh, square roots, top-k: attention weights, gates, routers and norm statistics
            are held fixed
scaled      activations and clamps: so many times as much
halved      a product of two that depend on the stream gives half of itself to each
constant    what is added and does not depend on the stream is a bias: counted where it is added

An operation without a rule is refused by its name, where a direction would have to pass it. That a rule is
right is not taken on trust: at every depth the parts and the biases must add up to the logit.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, no_type_check

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ..errors import ModelError
from .attention import AttentionCall
from .direct_attention import attend_plainly
from .frozen_gradients import Attend, Halve, NormaliseLayer, Project, ScaleByRatio, ratio_of

__all__ = ["FrozenOperations", "Listener", "Rows"]

_LINEAR = frozenset(
    """view view_as reshape reshape_as transpose swapaxes swapdims permute movedim moveaxis contiguous clone to
    type type_as float double half bfloat16 expand expand_as squeeze unsqueeze flatten unflatten ravel split
    split_with_sizes chunk tensor_split unbind narrow select getitem index_select gather take_along_dim repeat
    repeat_interleave tile flip roll sum mean neg positive cumsum T mT H t triu tril diagonal unfold dropout
    cpu cuda real alias atleast_1d atleast_2d broadcast_to index_add index_copy scatter_add scatter setitem
    index_put copy""".split()
)
_CUT = frozenset(
    """softmax log_softmax sigmoid tanh erf rsqrt sqrt topk sort argsort argmax argmin detach one_hot
    zeros_like ones_like empty_like full_like rand_like new_zeros new_ones new_empty new_full new_tensor""".split()
)
_SCALED = frozenset(
    """gelu silu relu relu6 leaky_relu elu selu celu hardswish hardtanh mish softplus softsign clamp clip
    clamp_min clamp_max""".split()
)
_ADDED = {"add": 1.0, "radd": 1.0, "iadd": 1.0, "sub": -1.0, "subtract": -1.0, "isub": -1.0, "rsub": 1.0}
"""How often the second is added."""
_MIXED = frozenset({"cat", "concat", "stack", "where", "masked_fill"})
_WRITTEN = frozenset({"index_add", "index_copy", "scatter_add", "scatter", "setitem", "index_put", "copy"})
_TIMES = frozenset({"mul", "rmul", "imul", "multiply"})
_OVER = frozenset({"div", "truediv", "itruediv", "divide"})
_BILINEAR = frozenset("matmul rmatmul mm bmm mv dot einsum grouped_mm outer".split())
_BIASED = {"linear": 2, "addmm": 0, "baddbmm": 0, "addbmm": 0}
"""Where the bias is among the arguments."""


@dataclass(frozen=True)
class Rows:
    """Which positions of a stack the rows of a tensor belong to."""

    stack: int
    examples: int
    positions: int
    index: Int[Tensor, " row"] | None = None
    """The position of every row, counted through all examples; None: all of them, in order."""

    def add_up(self, amounts: Tensor) -> Float[Tensor, "example position"] | None:
        """Add up amounts by position; None where rows cannot be told apart."""
        shape, (examples, positions) = amounts.shape, (self.examples, self.positions)
        if self.index is not None:
            own = amounts.reshape(self.index.numel(), -1).sum(1)
            total = own.new_zeros(examples * positions).index_add_(0, self.index, own)
            return total.view(examples, positions)
        if shape[:2] == (examples, positions):
            return amounts.flatten(2).sum(2) if len(shape) > 2 else amounts
        if shape[0] == examples * positions:
            return amounts.reshape(examples, positions, -1).sum(2)
        if len(shape) == 4 and (shape[0], shape[2]) == (examples, positions):
            return amounts.sum((1, 3))
        return None

    def follow(self, before: Tensor, after: Tensor, pick: Callable[[Tensor], Tensor] | None) -> "Rows | None":
        """Say which positions the rows of a tensor made from another belong to."""
        if pick is not None:
            counted = torch.arange(self.examples * self.positions, device=after.device)
            rows = counted if self.index is None else self.index
            if before.shape[0] == rows.numel():
                return replace(self, index=pick(rows).flatten())
            return self
        if self.index is None or self.index.numel() in after.shape[:2]:
            return self
        return replace(self, index=None)


class Listener:
    """What is told, while a direction is pulled back, of all that is not linear in the residual stream."""

    def add_constant(self, rows: Rows, amounts: Tensor, what: str) -> None:
        """Take what a bias adds."""
        raise NotImplementedError

    def pull_back(self, call: AttentionCall, gradient: Tensor) -> Tensor:
        """Pull a direction back through attention, to the values."""
        raise NotImplementedError

    def see_attention(self) -> None:
        """Know that the attention of this block is pulled back as a whole."""
        raise NotImplementedError

    def name_place(self) -> str:
        """Name the block that runs."""
        raise NotImplementedError


@dataclass(frozen=True)
class _Call:
    """One operation on tensors some of which depend on the stream."""

    function: Callable[..., Any]
    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    dependent: tuple[Tensor, ...]

    def run(self) -> Any:
        return self.function(*self.args, **self.kwargs)

    def argument(self, place: int, name: str, default: Any = None) -> Any:
        return self.args[place] if place < len(self.args) else self.kwargs.get(name, default)


class FrozenOperations(TorchFunctionMode):
    """Gives operations on tensors that need a gradient the gradient of their frozen map."""

    def __init__(self, listener: Listener) -> None:
        super().__init__()
        self.listener = listener
        self._names: dict[Any, str | None] = {}

    @no_type_check  # tests check types at run time, but not in every operation of torch
    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Any,
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if function not in self._names:
            self._names[function] = _name(function)
        name = self._names[function]
        if name is None or not torch.is_grad_enabled():
            return function(*args, **kwargs)
        dependent, parameters = [], []
        _sort_out(args, dependent, parameters)
        _sort_out(kwargs.values(), dependent, parameters)
        if parameters:  # they are constants here
            args = tuple(_without_parameters(argument) for argument in args)
            kwargs = {key: _without_parameters(argument) for key, argument in kwargs.items()}
        if not dependent:
            return function(*args, **kwargs)
        call = _Call(function, name, args, kwargs, tuple(dependent))
        if not all(hasattr(each, "rows") for each in dependent):
            return self._refuse(replace(call, name="of a function that torch does not show"), call.run())
        result = self._apply(call)
        _label(call, args[0] if result is None else result)
        return result

    def activate(self, module: nn.Module, inputs: Tensor, outputs: Tensor) -> Tensor | None:
        """Scale what an activation module gave, where its operations were not seen, or all were cut."""
        if not _depends(inputs) or hasattr(outputs, "rows"):
            return None
        with torch.no_grad():
            plain, found = inputs.detach(), outputs.detach()
            if found.shape != plain.shape or not torch.equal(
                module(plain.flatten()[:1]), found.flatten()[:1]
            ):
                return None
            at_zero = module(plain.new_zeros(()))
            ratio = ratio_of(plain, found, at_zero, module)
        result: Tensor = ScaleByRatio.apply(inputs, lambda: found, ratio)
        call = _Call(module, type(module).__name__, (inputs,), {}, (inputs,))
        _label(call, result)
        if at_zero.any():
            self._count(call, result, lambda: at_zero)
        return result

    def _apply(self, call: _Call) -> Any:
        """Run an operation by its rule."""
        name = call.name
        if name in _WRITTEN:
            return self._write(call)
        if name in _LINEAR:
            return call.run()
        if name in _ADDED:
            return self._add(call)
        if name in _TIMES:
            return self._multiply(call)
        if name in _CUT or (name == "pow" and call.argument(1, "exponent") == -0.5):
            with torch.no_grad():
                return call.run()
        if name in _SCALED or name in ("pow", "square"):
            return self._scale(call)
        if name in _BIASED:
            bias = call.argument(_BIASED[name], "bias" if name == "linear" else "input")
            return self._bilinear(call, bias)
        if name in _BILINEAR:
            return self._bilinear(call, None)
        if name in _MIXED:
            return self._mix(call)
        if name in _OVER and not _depends(call.argument(1, "other")):
            return call.run()
        special = {
            "layer_norm": self._normalise,
            "rms_norm": self._normalise_by_square,
            "scaled_dot_product_attention": self._attend,
        }.get(name)
        return self._refuse(call, call.run()) if special is None else special(call)

    def _refuse(self, call: _Call, result: Any) -> Any:
        """Let an operation run, but no direction pass it."""
        what = f"{self.listener.name_place()}: flow has no rule for the operation {call.name}"

        def refuse(_: Tensor) -> None:
            raise ModelError(
                f"{what} on the residual stream.",
                "Use another method (logit, alti-logit): they do not pull a direction back through it.",
            )

        for each in _depending(result):
            each.register_hook(refuse)
        return result

    def _count(self, call: _Call, result: Tensor, constant: Callable[[], Any]) -> None:
        """Count something that was added where it was added."""
        # The call itself must not be kept: it holds what the operation read.
        rows, what = _rows_of(call.dependent), f"{self.listener.name_place()}: {call.name}"

        def count(gradient: Tensor) -> None:
            own = constant()
            if isinstance(own, Tensor) and own.ndim == 1 and own.shape[0] == gradient.shape[-1]:
                amounts = (gradient @ own.to(gradient.dtype))[..., None]
            else:
                amounts = gradient * own
            self.listener.add_constant(rows, amounts, what)

        result.register_hook(count)

    def _add(self, call: _Call) -> Any:
        one, two = call.args[0], call.argument(1, "other")
        constant, sign = None, 1.0
        if not _depends(one):
            constant, sign = one, -1.0 if call.name == "rsub" else 1.0
        elif not _depends(two):
            constant, sign = two, _ADDED[call.name] * call.kwargs.get("alpha", 1)
        if constant is None or (not isinstance(constant, Tensor) and constant == 0):
            return call.run()
        if constant is one and _is_in_place(call.function):
            constant = constant.clone()
        result = call.run()
        self._count(call, result, lambda: constant if sign == 1 else constant * sign)
        return result

    def _multiply(self, call: _Call) -> Any:
        one, two = call.args[0], call.argument(1, "other")
        if not (_depends(one) and _depends(two)):
            return call.run()
        if call.name == "mul" and _is_in_place(call.function):
            return self._refuse(call, call.run())
        return Halve.apply(one, two)

    def _write(self, call: _Call) -> Any:
        """Write into a tensor that was made for it: nothing may be in it yet that is not followed."""
        base = call.args[0]
        written = not _depends(base) and bool(base.any())
        result = call.run()
        return self._refuse(call, base if result is None else result) if written else result

    def _scale(self, call: _Call) -> Any:
        inputs = call.args[0]
        if not _depends(inputs) or len(call.dependent) > 1:
            return self._refuse(call, call.run())
        in_place, args, kwargs = _is_in_place(call.function), call.args[1:], call.kwargs
        function = getattr(torch, call.name) if in_place else call.function

        def activate(given: Tensor) -> Tensor:
            outputs: Tensor = function(given, *args, **kwargs)
            return outputs

        with torch.no_grad():
            plain = inputs.detach()
            outputs, at_zero = activate(plain), activate(plain.new_zeros(()))
        make_ratio = partial(ratio_of, plain, outputs, at_zero, activate)
        if in_place:
            inputs.mul_(make_ratio())
            with torch.no_grad():
                inputs.copy_(outputs)
            result = inputs
        else:
            # A power is mostly part of a norm or a gate, which are cut.
            result = ScaleByRatio.apply(inputs, lambda: outputs, make_ratio if call.name == "pow" else make_ratio())
        if at_zero.any():
            self._count(call, result, lambda: at_zero)
        return result

    def _bilinear(self, call: _Call, bias: Any) -> Any:
        if len(call.dependent) > 1:
            return self._refuse(call, call.run())
        inputs, weight = _read_projection(call)
        if weight is None:
            result = call.run()
        else:
            result = Project.apply(inputs, weight, call.run)
        if isinstance(bias, Tensor) and not _depends(bias):
            self._count(call, result, lambda: bias)
        return result

    def _mix(self, call: _Call) -> Any:
        """Put together what depends on the stream and what does not."""
        result = call.run()
        pieces = call.args[0] if isinstance(call.args[0], (list, tuple)) else call.args
        if all(_depends(each) for each in pieces):
            return result
        function = getattr(torch, call.name)
        args, kwargs = tuple(_without_dependence(argument) for argument in call.args), call.kwargs
        self._count(call, result, lambda: function(*args, **kwargs))
        return result

    def _normalise(self, call: _Call) -> Any:
        inputs, shape = call.args[0], call.argument(1, "normalized_shape")
        weight, bias = call.argument(2, "weight"), call.argument(3, "bias")
        if len(shape) != 1 or len(call.dependent) > 1:
            return self._refuse(call, call.run())
        result = NormaliseLayer.apply(inputs, weight, bias, call.argument(4, "eps", 1e-5))
        if bias is not None:
            self._count(call, result, lambda: bias)
        return result

    def _normalise_by_square(self, call: _Call) -> Any:
        inputs = call.args[0]
        if len(call.dependent) > 1:
            return self._refuse(call, call.run())
        with torch.no_grad():
            outputs, plain = call.run(), inputs.detach()
            square = plain.pow(2).mean(-1, keepdim=True)
            epsilon = call.argument(3, "eps")
            scale = torch.rsqrt(square + (torch.finfo(plain.dtype).eps if epsilon is None else epsilon))
            weight = call.argument(2, "weight")
            ratio = scale.expand_as(plain) if weight is None else scale * weight
        return ScaleByRatio.apply(inputs, lambda: outputs, ratio)

    def _attend(self, call: _Call) -> Any:
        query, key, value = (call.argument(place, name) for place, name in enumerate(("query", "key", "value")))
        options = {
            "is_causal": call.argument(5, "is_causal", default=False),
            "scaling": call.kwargs.get("scale"),
        }
        detached = [each.detach() for each in (query, key, value)]
        if not _depends(value):
            with torch.no_grad():
                return call.run()
        self.listener.see_attention()
        seen = AttentionCall(None, *detached, call.argument(3, "attn_mask"), options, attend_plainly)
        return Attend.apply(value, call.run, lambda gradient: self.listener.pull_back(seen, gradient))


def _name(function: Callable[..., Any]) -> str | None:
    """Name an operation whatever form it is called in; None for what gives no tensor."""
    name = getattr(function, "__name__", "")
    if name == "__get__":
        name = getattr(function.__self__, "__name__", "")  # type: ignore[attr-defined]
        return name if name in _LINEAR else None
    return name.strip("_")


def _is_in_place(function: Callable[..., Any]) -> bool:
    name = function.__name__
    return name.endswith("_") and not name.startswith("__")


def _depends(argument: Any) -> bool:
    return isinstance(argument, Tensor) and argument.requires_grad


def _depending(result: Any) -> list[Tensor]:
    """Find what depends on the stream in a result."""
    dependent: list[Tensor] = []
    _sort_out([result], dependent, [])
    return dependent


@no_type_check
def _sort_out(arguments: Iterable[Any], dependent: list[Tensor], parameters: list[Tensor]) -> None:
    """Find what depends on the stream, and parameters that would get a gradient, also in lists."""
    for argument in arguments:
        if isinstance(argument, Tensor):
            if argument.requires_grad:
                (parameters if isinstance(argument, nn.Parameter) else dependent).append(argument)
        elif isinstance(argument, (list, tuple)):
            _sort_out(argument, dependent, parameters)


def _without_parameters(argument: Any) -> Any:
    """Give a parameter as the constant that it is here."""
    if isinstance(argument, nn.Parameter):
        return argument.detach()
    if isinstance(argument, (list, tuple)):
        return type(argument)(_without_parameters(each) for each in argument)
    return argument


def _without_dependence(argument: Any) -> Any:
    """Give zeros, which take no memory, for what depends on the stream."""
    if isinstance(argument, (list, tuple)):
        return type(argument)(_without_dependence(each) for each in argument)
    return argument.detach().new_zeros(()).expand(argument.shape) if _depends(argument) else argument


def _read_projection(call: _Call) -> tuple[Any, Tensor | None]:
    """Give what a projection reads and its weight, written × read; no weight: it is another product."""
    if call.name == "linear" and _depends(call.args[0]):
        return call.args[0], call.argument(1, "weight")
    if call.name == "addmm" and len(call.args) == 3 and _depends(call.args[1]) and not call.kwargs:
        return call.args[1], call.args[2].T
    return None, None


def _rows_of(dependent: Sequence[Tensor]) -> Rows:
    found: Rows = dependent[0].rows  # type: ignore[attr-defined]
    return found


def _label(call: _Call, result: Any) -> None:
    """Say of every result which positions its rows belong to."""
    origin = call.dependent[0]
    pick = _picker(call) if origin is call.args[0] else None
    for each in _depending(result):
        if not hasattr(each, "rows"):
            each.rows = _rows_of(call.dependent).follow(origin, each, pick)  # type: ignore[attr-defined]


def _picker(call: _Call) -> Callable[[Tensor], Tensor] | None:
    """Give what picks rows, of an operation that does."""
    if call.name == "getitem":
        index = call.args[1]
        picked = [each for each in (index if isinstance(index, tuple) else (index,)) if isinstance(each, Tensor)]
        if len(picked) == 1 and picked[0].ndim == 1:
            return lambda rows: rows[picked[0]]
    if call.name == "index_select" and call.argument(1, "dim") == 0:
        return lambda rows: rows[call.argument(2, "index")]
    if call.name == "repeat_interleave" and call.argument(2, "dim") == 0:
        return lambda rows: rows.repeat_interleave(call.argument(1, "repeats"), dim=0)
    return None
