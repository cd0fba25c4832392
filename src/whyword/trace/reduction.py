"""One attention sub-layer, reduced while it runs to what is kept of it."""

from dataclasses import dataclass
from functools import lru_cache

import torch
from einops import rearrange
from jaxtyping import Float
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

    def weigh(self, rows: slice) -> Float[Tensor, "position head source"]:
        """Give the attention weights of the explained positions."""
        return self.weigher.weigh(rows, self.weigher.value.shape[1]).transpose(0, 1)

    def mix(
        self, explained: slice, stream: Float[Tensor, "stream model"]
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
        kept = whole.new_zeros(explained.stop - explained.start, projected.shape[0], projected.shape[1])

        def weigh(rows: slice) -> Float[Tensor, "head row source"]:
            weights = self.weigher.weigh(rows, rows.stop)
            self._prove_weights(weights, rows)
            first, last = max(rows.start, explained.start), min(rows.stop, explained.stop)
            if first < last:
                own = weights[:, first - rows.start : last - rows.start]
                kept[first - explained.start : last - explained.start, :, : rows.stop] = own.transpose(0, 1)
            return weights if scale is None else weights * scale[rows]

        return kept, contribute(weigh, projected, residual, whole, self.model.workspace)

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
        context = self.context[rows].to(weights.dtype).view(-1, heads, value.shape[2])
        direction = _fixed_direction(value.shape[2], weights.dtype, weights.device)
        if value.shape[0] < heads:
            value = value.repeat_interleave(heads // value.shape[0], dim=0)
        projected = (value.contiguous() @ direction)[:, None]
        longest = torch.linalg.vector_norm(value, dim=2).amax(1, keepdim=True)
        require_close(
            "attention weights × values",
            f"block {self.index + 1}",
            found=(projected @ weights.transpose(1, 2))[:, 0],  # this way round it is fastest
            expected=(context @ direction).T,
            scale=longest * torch.linalg.vector_norm(direction),
            tolerance=tolerance_of(self.model.dtype),
        )


@lru_cache
def _fixed_direction(width: int, dtype: torch.dtype, device: torch.device) -> Float[Tensor, " width"]:
    """Give a direction with components of all signs and sizes, the same on every call."""
    steps = torch.arange(1, width + 1, dtype=dtype, device=device)
    return (steps * steps).sin_()
