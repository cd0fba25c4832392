"""A norm with its statistics frozen at its real input is a linear map plus a bias [eq. 3].

LayerNorm:  y ↦ s·(y − mean y) ⊙ γ + β      s = 1/sqrt(var + eps)
RMSNorm:    y ↦ s·y ⊙ γ                      γ = weight (+ 1 for Gemma)
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..errors import ModelError
from ..models.architecture import Norm
from ..models.weights import output_bias, read_tensor

__all__ = ["FrozenNorm", "freeze", "freeze_all"]


@dataclass(frozen=True)
class FrozenNorm:
    """A norm as the linear map (plus bias) that it was at some positions, of one block or of many."""

    scale: Float[Tensor, "*block position 1"]
    """s: one number per position."""
    weight: Float[Tensor, "*shared 1 model"]
    """γ."""
    bias: Float[Tensor, "*shared 1 model"] | None
    """β."""
    centred: bool
    """Whether the mean is subtracted."""

    def at(self, block: int) -> "FrozenNorm":
        """Return the norm of one of many blocks."""
        bias = None if self.bias is None else self.bias[block]
        return FrozenNorm(self.scale[block], self.weight[block], bias, self.centred)

    def map_vectors(
        self, vectors: Float[Tensor, "*block position model"]
    ) -> Float[Tensor, "*block position model"]:
        """Apply the linear part."""
        return self.scale * self.map_rows(vectors)

    def map_rows(self, rows: Float[Tensor, "*row model"]) -> Float[Tensor, "*row model"]:
        """Apply what is the same at all positions: the centring and the weight."""
        if self.centred:
            rows = rows - rows.mean(-1, keepdim=True)
        return rows * self.weight

    def apply(
        self, vectors: Float[Tensor, "*block position model"]
    ) -> Float[Tensor, "*block position model"]:
        """Apply the whole map, bias included."""
        mapped = self.map_vectors(vectors)
        return mapped if self.bias is None else mapped + self.bias

    def bound(self, errors: Float[Tensor, "*block position model"]) -> Float[Tensor, "*block position model"]:
        """Return how large errors of that size can become by the linear part."""
        if self.centred:
            errors = errors + errors.mean(-1, keepdim=True)
        return self.scale * self.weight.abs() * errors

    def pull_back(self, direction: Float[Tensor, "position model"]) -> Float[Tensor, "position model"]:
        """Apply the transpose of the linear part: `map_vectors(y) · u = y · pull_back(u)`."""
        direction = self.scale * self.weight * direction
        return direction - direction.mean(-1, keepdim=True) if self.centred else direction

    def project_bias(self, direction: Float[Tensor, "position model"]) -> Float[Tensor, " position"]:
        """Return what the bias adds in a direction."""
        if self.bias is None:
            return direction.new_zeros(direction.shape[0])
        return direction @ self.bias[0]


def freeze(module: nn.Module, norm: Norm, inputs: Float[Tensor, "*example position model"]) -> FrozenNorm:
    """Freeze a norm at its inputs."""
    return freeze_all([module], norm, inputs[None]).at(0)


def freeze_all(
    modules: Sequence[nn.Module], norm: Norm, inputs: Float[Tensor, "block *example position model"]
) -> FrozenNorm:
    """Freeze a norm of every block at its inputs."""
    spread = (
        inputs.var(-1, keepdim=True, correction=0) if norm.centred else inputs.pow(2).mean(-1, keepdim=True)
    )
    epsilon = inputs.new_tensor([_epsilon(module, norm) for module in modules])
    biases = [output_bias(module, inputs.dtype) for module in modules]
    return FrozenNorm(
        scale=torch.rsqrt(spread + epsilon[:, None, None]),
        weight=_stack([_weight(module, norm, inputs) for module in modules], inputs),
        bias=None if biases[0] is None else _stack([bias for bias in biases if bias is not None], inputs),
        centred=norm.centred,
    )


def _weight(module: nn.Module, norm: Norm, inputs: Tensor) -> Float[Tensor, " model"]:
    """Read γ, ones where a norm has none."""
    weight = read_tensor(module, "weight")
    if weight is None:
        return inputs.new_ones(inputs.shape[-1])
    return weight.to(inputs.dtype) + norm.offset


def _stack(vectors: Sequence[Float[Tensor, " model"]], like: Tensor) -> Float[Tensor, "block 1 model"]:
    return torch.stack([vector.to(like.device) for vector in vectors])[:, None]


def _epsilon(module: nn.Module, norm: Norm) -> float:
    """Read a norm's epsilon."""
    if isinstance(norm.epsilon, float):
        return norm.epsilon
    epsilon = getattr(module, norm.epsilon, None)
    if epsilon is None:
        raise ModelError(
            f"{type(module).__name__} has no attribute {norm.epsilon!r} that would hold its epsilon.",
            "It is a LayerNorm: write norm=Norm(centred=True) in the description"
            + ("." if type(module) is nn.LayerNorm else ", and offset=1.0 if it multiplies by 1 + weight.")
            if isinstance(module, nn.LayerNorm)
            else "Name the right attribute in the description: Norm(epsilon=...).",
        )
    return float(epsilon)
