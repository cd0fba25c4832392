"""One attention sub-layer, reduced while it runs to what is kept of it."""

from dataclasses import dataclass

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor

from ..contributions import contribute
from ..models.architecture import Attention
from ..models.model import Model, module_at, output_weight
from ..norm import freeze
from ..proof import require_close, tolerance_of
from .attention import Weigher

__all__ = ["Reduction"]


@dataclass(frozen=True)
class Reduction:
    """What an attention sub-layer read and gave, at all positions."""

    model: Model
    index: int
    """Which block, from 0."""
    sublayer: Attention
    weigher: Weigher
    context: Float[Tensor, "stream written"]
    """What the model's own attention gave, heads side by side, before the output projection."""
    output: Float[Tensor, "stream model"]

    def weigh(self, positions: Int[Tensor, " position"]) -> Float[Tensor, "position head source"]:
        """Give the attention weights of the explained positions."""
        weights = self.weigher.weigh(positions.to(self.context.device), self.weigher.value.shape[1])
        return weights.transpose(0, 1)

    def mix(
        self, positions: Int[Tensor, " position"], stream: Float[Tensor, "stream model"]
    ) -> tuple[Float[Tensor, "position head source"], Float[Tensor, "stream source"]]:
        """Give the attention weights of the explained positions, and C of all.

        Norms after the sub-layer are frozen and applied to the parts.
        """
        dtype, norm = self.model.compute_dtype, self.model.architecture.decoder.norm
        block = self.model.blocks[self.index]
        output = self.output.to(dtype)
        residual = stream.to(output)
        scale, projected = None, self._project_values()
        if self.sublayer.norm_after is not None:
            frozen = freeze(module_at(block, self.sublayer.norm_after), norm, output)
            scale, projected, output = frozen.scale, frozen.map_rows(projected), frozen.apply(output)
        whole = residual + output
        if self.sublayer.norm_sum is not None:
            frozen = freeze(module_at(block, self.sublayer.norm_sum), norm, whole)
            residual, whole = frozen.map_vectors(residual), frozen.apply(whole)
            scale = frozen.scale if scale is None else scale * frozen.scale
            projected = frozen.map_rows(projected)
        positions = positions.to(whole.device)
        explained = whole.new_zeros(len(positions), projected.shape[0], projected.shape[1])

        def weigh(rows: slice) -> Float[Tensor, "head row source"]:
            weights = self.weigher.weigh(rows, rows.stop)
            self._prove_weights(weights, rows)
            inside = (positions >= rows.start) & (positions < rows.stop)
            explained[inside, :, : rows.stop] = weights[:, positions[inside] - rows.start].transpose(0, 1)
            return weights if scale is None else weights * scale[rows]

        return explained, contribute(weigh, projected, residual, whole, self.model.workspace)

    def _project_values(self) -> Float[Tensor, "head source model"]:
        """Give P[h, j] = v[h, j] W_O[h]: what a source writes through a head when it gets all the weight."""
        dtype = self.model.compute_dtype
        value = self.weigher.value.to(dtype)
        weight = output_weight(module_at(self.model.blocks[self.index], self.sublayer.output), dtype)
        weight = rearrange(weight, "(head dim) model -> head dim model", dim=value.shape[2])
        value = value.repeat_interleave(weight.shape[0] // value.shape[0], dim=0)
        projected = self.model.workspace.take("projected", [*value.shape[:2], weight.shape[2]], value)
        return torch.matmul(value, weight, out=projected)

    def _prove_weights(self, weights: Float[Tensor, "head row source"], rows: slice) -> None:
        """Compare the weights with what the model's own attention gave, along one direction.

        A wrong weight at any position changes the sum in almost every direction (Freivalds' check), so one
        fixed direction tells, at the cost of reading the weights once.
        """
        heads, _, sources = weights.shape
        value = self.weigher.value[:, :sources].to(weights.dtype)
        steps = torch.arange(1, value.shape[2] + 1, dtype=weights.dtype, device=weights.device)
        direction = (steps * steps).sin_()  # of all signs, the same on every call
        parts = (value * direction).repeat_interleave(heads // value.shape[0], dim=0)
        projected = parts.sum(-1)
        context = rearrange(
            self.context[rows].to(weights.dtype), "row (head dim) -> head row dim", head=heads
        )
        require_close(
            "attention weights × values",
            f"block {self.index + 1}",
            found=(weights * projected[:, None]).sum(-1),
            expected=(context * direction).sum(-1),
            scale=parts.abs().sum(-1).amax(-1, keepdim=True),
            tolerance=tolerance_of(self.model.dtype),
        )
