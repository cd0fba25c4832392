"""What an attention sub-layer writes into the residual stream, source by source and head by head.

    P[h, j] = v[h, j] W_O[h]      what source j writes through head h when it gets all the weight

A multiplier and norms after the sub-layer are applied to the parts, norms with their statistics frozen.
"""

from dataclasses import dataclass

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from ..maths.frozen_norm import freeze
from ..models.architecture import Attention
from ..models.model import LoadedStack, Model, module_at

__all__ = ["AttentionOutput", "WrittenParts", "write_parts"]


@dataclass(frozen=True)
class AttentionOutput:
    """One attention sub-layer of one block, and what it was given."""

    model: Model
    stack: LoadedStack
    index: int
    """Which block, from 0."""
    sublayer: Attention
    value: Float[Tensor, "example value_head source dim"]
    output: Float[Tensor, "example row model"]
    """What it gave at some positions, its bias included."""
    residual: Float[Tensor, "example row model"]
    """The residual stream that it was added to there."""


@dataclass(frozen=True)
class WrittenParts:
    """The parts that add up to the residual stream after an attention sub-layer, at some positions."""

    projected: Float[Tensor, "example head source model"]
    """P, behind the norms after the sub-layer."""
    scale: Float[Tensor, "example row 1"] | None
    """What those norms multiply the parts of each row by; None: there are none."""
    residual: Float[Tensor, "example row model"]
    whole: Float[Tensor, "example row model"]
    """The residual stream after the sub-layer."""


def write_parts(given: AttentionOutput) -> WrittenParts:
    """Return the parts that an attention sub-layer writes; they lie in the model's workspace."""
    model, sublayer, norm = given.model, given.sublayer, given.stack.stack.norm
    block = given.stack.blocks[given.index]
    output = given.output.to(model.compute_dtype)
    residual = given.residual.to(output)
    scale, projected = None, _project_values(given)
    if sublayer.norm_after is not None:
        frozen = freeze(module_at(block, sublayer.norm_after), norm, output)
        scale, projected, output = frozen.scale, frozen.map_rows(projected), frozen.apply(output)
    if (multiplier := model.multiplier_of(sublayer)) != 1:
        projected, output = projected.mul_(multiplier), output * multiplier
    whole = residual + output
    if sublayer.norm_sum is not None:
        frozen = freeze(module_at(block, sublayer.norm_sum), norm, whole)
        residual, whole = frozen.map_vectors(residual), frozen.apply(whole)
        scale = frozen.scale if scale is None else scale * frozen.scale
        projected = frozen.map_rows(projected)
    return WrittenParts(projected, scale, residual, whole)


def _project_values(given: AttentionOutput) -> Float[Tensor, "example head source model"]:
    """Return P."""
    dtype = given.model.compute_dtype
    examples, value_heads, _, dim = given.value.shape
    block = given.stack.blocks[given.index]
    weight = given.model.project(module_at(block, given.sublayer.output)).matrix()
    weight = weight.view(-1, dim, weight.shape[1])  # a head after the other
    value = given.value.to(dtype)
    value = rearrange(value, "example head source dim -> head (example source) dim")
    if value_heads < weight.shape[0]:
        value = value.repeat_interleave(weight.shape[0] // value_heads, dim=0)
    projected = given.model.workspace.take("projected", [*value.shape[:2], weight.shape[2]], value)
    torch.matmul(value, weight, out=projected)
    return rearrange(projected, "head (example source) model -> example head source model", example=examples)
