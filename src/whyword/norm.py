"""A norm with its statistics frozen at its real input is a linear map plus a bias [eq. 3].

LayerNorm:  y ↦ s·(y − mean y) ⊙ γ + β      s = 1/sqrt(var + eps)
RMSNorm:    y ↦ s·y ⊙ γ                      γ = weight (+ 1 for Gemma)
"""

from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from .models.architecture import Norm
from .models.model import norm_epsilon, output_bias

__all__ = ["FrozenNorm", "freeze"]


@dataclass(frozen=True)
class FrozenNorm:
    """A norm as the linear map (plus bias) that it was at some positions."""

    scale: Float[Tensor, "position 1"]
    """s: one number per position."""
    weight: Float[Tensor, " model"]
    """γ."""
    bias: Float[Tensor, " model"] | None
    """β."""
    centred: bool
    """Whether the mean is subtracted."""

    def map_vectors(self, vectors: Float[Tensor, "position model"]) -> Float[Tensor, "position model"]:
        """Apply the linear part."""
        return self.scale * self.map_rows(vectors)

    def map_rows(self, rows: Float[Tensor, "*row model"]) -> Float[Tensor, "*row model"]:
        """Apply what is the same at all positions: the centring and the weight."""
        if self.centred:
            rows = rows - rows.mean(-1, keepdim=True)
        return rows * self.weight

    def apply(self, vectors: Float[Tensor, "position model"]) -> Float[Tensor, "position model"]:
        """Apply the whole map, bias included."""
        mapped = self.map_vectors(vectors)
        return mapped if self.bias is None else mapped + self.bias

    def pull_back(self, direction: Float[Tensor, "position model"]) -> Float[Tensor, "position model"]:
        """Apply the transpose of the linear part: `map_vectors(y) · u = y · pull_back(u)`."""
        direction = self.scale * self.weight * direction
        return direction - direction.mean(-1, keepdim=True) if self.centred else direction

    def project_bias(self, direction: Float[Tensor, "position model"]) -> Float[Tensor, " position"]:
        """Give what the bias adds in a direction."""
        if self.bias is None:
            return direction.new_zeros(direction.shape[0])
        return direction @ self.bias


def freeze(module: nn.Module, norm: Norm, inputs: Float[Tensor, "position model"]) -> FrozenNorm:
    """Freeze a norm at its inputs."""
    spread = (
        inputs.var(-1, keepdim=True, correction=0) if norm.centred else inputs.pow(2).mean(-1, keepdim=True)
    )
    weight = cast(Tensor | None, getattr(module, "weight", None))
    return FrozenNorm(
        scale=torch.rsqrt(spread + norm_epsilon(module, norm)),
        weight=torch.ones_like(inputs[0])
        if weight is None
        else weight.detach().to(inputs.dtype) + norm.offset,
        bias=output_bias(module, inputs.dtype),
        centred=norm.centred,
    )
