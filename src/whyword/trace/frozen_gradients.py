"""Operations that compute what they always do, and are pulled back as the linear maps that they were.

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

__all__ = ["Attend", "Halve", "NormaliseLayer", "ScaleByRatio", "ratio_of"]


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
    """Something that was computed from `inputs` element by element: so many times as much, whatever it is."""

    @staticmethod
    def forward(context: Any, inputs: Tensor, outputs: Tensor, ratio: Tensor) -> Tensor:
        """Give the outputs."""
        context.save_for_backward(ratio)
        return outputs.view_as(outputs)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        """Multiply by the ratio."""
        return gradients[0] * context.saved_tensors[0], None, None


def ratio_of(
    inputs: Float[Tensor, "*any"],
    outputs: Float[Tensor, "*any"],
    at_zero: Float[Tensor, ""],
    activate: Callable[[Tensor], Tensor],
) -> Float[Tensor, "*any"]:
    """Give (act(z) − act(0)) / z; at 0 its limit, the derivative there."""
    changed = outputs if not at_zero.any() else outputs - at_zero
    ratio = changed / inputs
    if ratio.sum().isfinite():
        return ratio
    with torch.enable_grad():
        zero = inputs.new_zeros(()).requires_grad_()
        (slope,) = torch.autograd.grad(activate(zero), zero)
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
            direction = direction * weight
        return direction - direction.mean(-1, keepdim=True), None, None, None


class Attend(torch.autograd.Function):
    """Attention with its weights held fixed."""

    @staticmethod
    def forward(
        context: Any, value: Tensor, output: Tensor, pull_back: Callable[[Tensor], Tensor]
    ) -> Tensor:
        """Give what the model's attention gave."""
        context.pull_back = pull_back
        return output.view_as(output)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        """Give Aᵀ g."""
        return context.pull_back(gradients[0]), None, None
