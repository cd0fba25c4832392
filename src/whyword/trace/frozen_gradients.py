"""Operations that compute what they always do, but have the gradient of their frozen, linear map.

product:    a ⊙ b          ½ (b ⊙ g) to a, ½ (a ⊙ g) to b
activation: act(z)         (act(z) − act(0)) / z ⊙ g, which at z = 0 is act′(0) ⊙ g
LayerNorm:  (z − mean) · s ⊙ γ + β     its statistics held fixed
attention:  Σ_j A_ij v_j   Aᵀ g to the values: the weights are held fixed, and computed again
"""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

__all__ = [
    "Attend",
    "Halve",
    "NormaliseLayer",
    "Project",
    "ProjectByModule",
    "ScaleByRatio",
    "ratio_of",
    "run_function",
]


class Halve(torch.autograd.Function):
    """An elementwise product of two tensors that depend on the residual stream: half of it to each."""

    @staticmethod
    def forward(context: Any, one: Tensor, two: Tensor) -> Tensor:
        """Multiply."""
        context.save_for_backward(one, two)
        return one * two

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        """Give half of what a product rule gives."""
        one, two = context.saved_tensors
        half = gradients[0] * 0.5
        return (half * two).sum_to_size(one.shape), (half * one).sum_to_size(two.shape)


class ScaleByRatio(torch.autograd.Function):
    """A function of every element alone, whose ratio of output to input is held fixed."""

    @staticmethod
    def forward(
        context: Any, inputs: Tensor, compute: Callable[[], Tensor], ratio: Tensor | Callable[[], Tensor]
    ) -> Tensor:
        """Give the outputs. `ratio` may be a function that computes it when it is needed."""
        context.ratio = ratio
        return _free(compute())

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        """Multiply by the ratio."""
        ratio = context.ratio if isinstance(context.ratio, Tensor) else context.ratio()
        return gradients[0] * ratio, None, None


class Project(torch.autograd.Function):
    """A projection, pulled back only where there is a direction: where it is zero, it costs nothing.

    It is zero in the columns of queries and keys in a fused projection, and, in the last block, in all rows
    but those of the explained positions.
    """

    @staticmethod
    def forward(
        context: Any, inputs: Tensor, weight: Float[Tensor, "written read"], compute: Callable[[], Tensor]
    ) -> Tensor:
        """Give the outputs."""
        context.weight = weight
        return _free(compute())

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        """Multiply by the transpose."""
        weight, gradient = context.weight, gradients[0].flatten(0, -2)
        if gradient.numel() == 0:  # an expert that no position is sent to
            return gradients[0].new_zeros(*gradients[0].shape[:-1], weight.shape[1]), None, None
        rows, columns = _find_range(gradient), _find_range(gradient.T)
        if (rows.stop - rows.start, columns.stop - columns.start) == gradient.shape:
            return gradients[0] @ weight, None, None
        pulled = gradient[rows, columns] @ weight[columns]
        if pulled.shape[0] < gradient.shape[0]:
            pulled = gradient.new_zeros(gradient.shape[0], weight.shape[1]).index_add_(
                0, torch.arange(rows.start, rows.stop, device=pulled.device), pulled
            )
        return pulled.view(*gradients[0].shape[:-1], weight.shape[1]), None, None


class ProjectByModule(torch.autograd.Function):
    """A projection whose transpose is asked of its module."""

    @staticmethod
    def forward(
        context: Any, inputs: Tensor, outputs: Tensor, pull_back: Callable[[Tensor], Tensor]
    ) -> Tensor:
        """Give what the module gave."""
        context.pull_back = pull_back
        return _free(outputs)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        """Let the module apply its transpose."""
        gradient = gradients[0].flatten(0, -2)
        rows = _find_range(gradient)
        pulled = context.pull_back(gradient[rows])
        if pulled.shape[0] < gradient.shape[0]:
            own, pulled = pulled, pulled.new_zeros(gradient.shape[0], pulled.shape[1])
            pulled[rows] = own
        return pulled.view(*gradients[0].shape[:-1], -1).to(gradients[0].dtype), None, None


def _find_range(gradient: Float[Tensor, "row column"]) -> slice:
    """Give the range of rows outside which there are zeros only."""
    if gradient[0].any() and gradient[-1].any():  # most often all of them
        return slice(0, len(gradient))
    some = gradient.abs().sum(1).nonzero()
    return slice(int(some[0]), int(some[-1]) + 1) if len(some) > 0 else slice(0, 0)


def ratio_of(
    inputs: Float[Tensor, "*any"],
    outputs: Float[Tensor, "*any"],
    at_zero: Float[Tensor, "*bounds"],
    activate: Callable[[Tensor], Tensor],
) -> Float[Tensor, "*any"]:
    """Give (act(z) − act(0)) / z; at 0 its limit, the derivative there."""
    changed = outputs if not at_zero.any() else outputs - at_zero
    ratio = changed / inputs
    if ratio.sum().isfinite():
        return ratio
    with torch.enable_grad():  # one zero for each that it gives: bounds may differ
        zero = torch.zeros_like(at_zero).requires_grad_()
        (slope,) = torch.autograd.grad(activate(zero).sum(), zero)
    return torch.where(inputs == 0, slope, ratio)


class NormaliseLayer(torch.autograd.Function):
    """LayerNorm over the last axis with its mean and variance held fixed where they are multiplied."""

    @staticmethod
    def forward(
        context: Any, inputs: Tensor, weight: Tensor | None, bias: Tensor | None, epsilon: float
    ) -> Tensor:
        """Normalise as torch does."""
        outputs, _, scale = torch.native_layer_norm(inputs, inputs.shape[-1:], weight, bias, epsilon)
        context.save_for_backward(scale, weight)
        return outputs

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        """Apply the transpose of the frozen map."""
        scale, weight = context.saved_tensors
        direction = gradients[0] * scale.to(gradients[0].dtype)
        if weight is not None:
            direction *= weight
        return direction.sub_(direction.mean(-1, keepdim=True)), None, None, None


class Attend(torch.autograd.Function):
    """Attention with its weights held fixed."""

    @staticmethod
    def forward(
        context: Any, value: Tensor, compute: Callable[[], Tensor], pull_back: Callable[[Tensor], Tensor]
    ) -> Tensor:
        """Give what the model's attention gives."""
        context.pull_back = pull_back
        return _free(compute())

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        """Give Aᵀ g."""
        return context.pull_back(gradients[0]), None, None


def _free(outputs: Tensor) -> Tensor:
    """Give outputs that torch takes for no view of others: a network may change them in place."""
    return outputs.data


def run_function(function: type[torch.autograd.Function], *arguments: Any) -> Tensor:
    """Compute a function that has its own gradient."""
    result: Tensor = function.apply(*arguments)  # type: ignore[no-untyped-call]
    return result
