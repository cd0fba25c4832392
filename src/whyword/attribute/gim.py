"""GIM: gradient × input with a backward pass that makes up for self-repair (Edin et al. 2025).

    norms      their statistics are held fixed
    softmax    its gradient is that at temperature 2: s ⊙ (g − s · g) with s = softmax(z / 2)
    products   what attention multiplies, queries × keys and weights × values, gets half of its gradient each

The network computes what it always does; only gradients are others. Activations, gates of MLPs and routers
keep theirs, as in the authors' package. Operations are known by their names in torch and no family is; a
model whose attention or norms are not seen is refused.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, no_type_check

import torch
from jaxtyping import Float
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ..errors import ModelError
from ..models.architecture import Attention
from ..models.model import Model
from ..trace.frozen_gradients import NormaliseLayer, ScaleByRatio, run_function
from .gradient import Gradient, differentiate
from .recorded_predictions import Attributions, Predictions, make_rows

__all__ = ["attribute_gim"]

TEMPERATURE = 2.0
"""That of the softmax whose gradient is taken."""
HALF = 0.5
"""How much of its gradient each factor of a product gets."""


def attribute_gim(predictions: Predictions) -> Attributions:
    """Score tokens by the modified gradient at their embeddings, times the embedding."""
    return make_rows(each.product for each in predictions.share(_differentiate))


def _differentiate(predictions: Predictions) -> list[Gradient]:
    return differentiate(predictions, modifying)


@contextmanager
def modifying(model: Model) -> Iterator[None]:
    """Modify the gradients of what runs inside; refuse a model whose attention or norms were not seen."""
    operations = _ModifiedOperations()
    with operations:
        yield
    sublayers = model.architecture.decoder.sublayers
    attentions = len(model.blocks) * sum(isinstance(each, Attention) for each in sublayers)
    for seen, needed, what in (
        (operations.softmaxes, attentions, "softmax of its attention"),
        (operations.products, 2 * attentions, "products of its attention"),
        (operations.norms, 1, "norms"),
    ):
        if seen < needed:
            raise ModelError(
                f"{model.name}: the method gim sees {seen} {what}, and the model has at least {needed}.",
                "Load it with eager attention, or use another method (gradient-x-input, flow).",
            )


class _Soften(torch.autograd.Function):
    """A softmax over one axis, with the gradient that it has at a temperature."""

    @staticmethod
    def forward(context: Any, scores: Tensor, axis: int, compute: Callable[[Tensor], Tensor]) -> Tensor:
        """Return the weights."""
        weights = compute(scores)
        context.save_for_backward(scores)
        context.axis, context.dtype = axis, weights.dtype
        return weights

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        """Return s ⊙ (g − s · g)."""
        (scores,) = context.saved_tensors
        soft = torch.softmax(scores.to(context.dtype) / TEMPERATURE, context.axis)
        mean = (gradients[0] * soft).sum(context.axis, keepdim=True)
        return (soft * (gradients[0] - mean)).to(scores.dtype), None, None


class _Halved(torch.autograd.Function):
    """One factor of a product."""

    @staticmethod
    def forward(context: Any, factor: Tensor) -> Tensor:
        """Return the factor."""
        return factor.view_as(factor)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> Tensor:
        """Return half of the gradient."""
        return gradients[0] * HALF


class _ModifiedOperations(TorchFunctionMode):
    """Gives softmax, norms and products of attention their modified gradients, and counts them."""

    def __init__(self) -> None:
        super().__init__()
        self.softmaxes = self.products = self.norms = 0

    @no_type_check  # tests check types at run time, but not in every operation of torch
    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Any,
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        rule = _RULES.get(getattr(function, "__name__", "").strip("_"))
        if rule is None or not torch.is_grad_enabled():
            return function(*args, **(kwargs or {}))
        return rule(self, function, args, kwargs or {})

    def soften(self, function: Callable[..., Tensor], args: Sequence[Any], kwargs: dict[str, Any]) -> Tensor:
        """Run a softmax."""
        scores, rest = _take_first(args, kwargs)
        if not _depends(scores):
            return function(*args, **kwargs)
        self.softmaxes += 1
        axis = rest[0] if rest else kwargs.get("dim", -1)
        named = {name: each for name, each in kwargs.items() if name != "input"}
        return run_function(_Soften, scores, axis, lambda given: function(given, *rest, **named))

    def multiply(
        self, function: Callable[..., Tensor], args: Sequence[Any], kwargs: dict[str, Any]
    ) -> Tensor:
        """Run a product of matrices; each of two that depend on the embeddings gets half of its gradient."""
        adds = function.__name__.strip("_") == "baddbmm"  # its first argument is added
        factors = [*args[1:], *kwargs.values()] if adds else args
        if sum(map(_depends, _flatten(factors))) < 2:
            return function(*args, **kwargs)
        self.products += 1
        first = args[:1] if adds else ()
        halved = {name: _halve(each) for name, each in kwargs.items()}
        return function(*first, *map(_halve, args[len(first) :]), **halved)

    def attend(self, function: Callable[..., Tensor], args: Sequence[Any], kwargs: dict[str, Any]) -> Tensor:
        """Run torch's attention step by step."""
        self.softmaxes += 1
        self.products += 2
        return _attend(*args, **kwargs)

    def freeze(self, function: Callable[..., Tensor], args: Sequence[Any], kwargs: dict[str, Any]) -> Tensor:
        """Hold the statistic of a norm fixed."""
        result = function(*args, **kwargs)
        if not _depends(result):
            return result
        self.norms += 1
        return result.detach()

    def raise_power(
        self, function: Callable[..., Tensor], args: Sequence[Any], kwargs: dict[str, Any]
    ) -> Tensor:
        """Hold 1 / √z fixed, however it is written; other powers are as they are."""
        exponent = args[1] if len(args) > 1 else kwargs.get("exponent")
        if isinstance(exponent, float) and exponent in (0.5, -0.5):
            return self.freeze(function, args, kwargs)
        return function(*args, **kwargs)

    def normalise(
        self, function: Callable[..., Tensor], args: Sequence[Any], kwargs: dict[str, Any]
    ) -> Tensor:
        """Run torch's LayerNorm."""
        return self._normalise(*args, **kwargs)

    def _normalise(
        self,
        input: Tensor,
        normalized_shape: Sequence[int],
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        eps: float = 1e-5,
    ) -> Tensor:
        self.norms += 1
        return run_function(NormaliseLayer, input, weight, bias, eps)

    def normalise_by_square(
        self, function: Callable[..., Tensor], args: Sequence[Any], kwargs: dict[str, Any]
    ) -> Tensor:
        """Run torch's RMSNorm."""
        self.norms += 1
        inputs, _ = _take_first(args, kwargs)
        weight = args[2] if len(args) > 2 else kwargs.get("weight")
        epsilon = args[3] if len(args) > 3 else kwargs.get("eps")
        with torch.no_grad():
            epsilon = torch.finfo(inputs.dtype).eps if epsilon is None else epsilon
            ratio = torch.rsqrt(inputs.pow(2).mean(-1, keepdim=True) + epsilon)
            ratio = ratio if weight is None else ratio * weight
        return run_function(ScaleByRatio, inputs, lambda: function(*args, **kwargs).detach(), ratio)


def _attend(
    query: Float[Tensor, "example head row key_dim"],
    key: Float[Tensor, "example value_head source key_dim"],
    value: Float[Tensor, "example value_head source dim"],
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Attend as torch's function does, with modified gradients."""
    del dropout_p, enable_gqa  # nothing is dropped in evaluation; groups of heads show in the shapes
    if key.shape[1] < query.shape[1]:
        key, value = (each.repeat_interleave(query.shape[1] // each.shape[1], dim=1) for each in (key, value))
    scores = (
        _halve(query) @ _halve(key).transpose(-2, -1) * (query.shape[-1] ** -0.5 if scale is None else scale)
    )
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    if attn_mask is not None:
        hidden = attn_mask.dtype == torch.bool
        scores = scores.masked_fill(~attn_mask, -torch.inf) if hidden else scores + attn_mask
    weights = run_function(_Soften, scores, -1, lambda given: torch.softmax(given, -1))
    attended: Tensor = _halve(weights) @ _halve(value)
    return attended


def _halve(argument: Any) -> Any:
    """Halve the gradient of what depends on the embeddings, also in lists."""
    if isinstance(argument, (list, tuple)):
        return type(argument)(_halve(each) for each in argument)
    return run_function(_Halved, argument) if _depends(argument) else argument


def _flatten(arguments: Sequence[Any]) -> Iterator[Any]:
    for argument in arguments:
        if isinstance(argument, (list, tuple)):
            yield from _flatten(argument)
        else:
            yield argument


def _take_first(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Tensor, Sequence[Any]]:
    return (args[0], args[1:]) if args else (kwargs["input"], ())


def _depends(argument: Any) -> bool:
    """Say whether something depends on the embeddings; parameters do not."""
    return (
        isinstance(argument, Tensor)
        and argument.requires_grad
        and not isinstance(argument, torch.nn.Parameter)
    )


_RULES: Mapping[str, Callable[..., Tensor]] = {
    "softmax": _ModifiedOperations.soften,
    "scaled_dot_product_attention": _ModifiedOperations.attend,
    "layer_norm": _ModifiedOperations.normalise,
    "rms_norm": _ModifiedOperations.normalise_by_square,
    "pow": _ModifiedOperations.raise_power,
    **dict.fromkeys(("rsqrt", "sqrt"), _ModifiedOperations.freeze),
    **dict.fromkeys(("matmul", "rmatmul", "bmm", "baddbmm", "einsum"), _ModifiedOperations.multiply),
}
"""By the names of operations in torch, whatever form they are called in."""
