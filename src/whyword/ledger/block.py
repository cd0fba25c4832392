"""One block, replayed from its recorded parts: the second identity, and the norms it froze.

attention:  Σ_{h,j} A[h,t,j] v[h,j] W_O[h] + b_O  =  what the output projection gave
block:      stream in + all that was written      =  stream out
"""

from dataclasses import dataclass
from typing import cast

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from ..models.architecture import Sublayer
from ..models.model import Model, module_at, output_bias, output_weight
from ..norm import FrozenNorm, freeze
from ..proof import require_close, tolerance_of
from ..trace import AttentionTrace, BlockTrace, MlpTrace

__all__ = ["AttentionPart", "MlpPart", "Part", "replay"]


@dataclass(frozen=True)
class Part:
    """A recorded sub-layer with the norms that lie between it and the stream after it."""

    norm_after: FrozenNorm | None
    norm_sum: FrozenNorm | None

    def pull_back(
        self, direction: Float[Tensor, "position model"]
    ) -> tuple[
        Float[Tensor, "position model"], Float[Tensor, "position model"], Float[Tensor, " position"] | float
    ]:
        """Pull a direction of the stream above the sub-layer back through its norms.

        Gives the direction of the stream below, that of what the sub-layer writes, and what the norms'
        biases add (0 where there are none).
        """
        bias: Tensor | float = 0.0
        if self.norm_sum is not None:
            bias = self.norm_sum.project_bias(direction)
            direction = self.norm_sum.pull_back(direction)
        if self.norm_after is None:
            return direction, direction, bias
        return direction, self.norm_after.pull_back(direction), bias + self.norm_after.project_bias(direction)


@dataclass(frozen=True)
class AttentionPart(Part):
    """A recorded attention sub-layer and its output projection."""

    trace: AttentionTrace
    weight: Float[Tensor, "head dim model"]
    """W_O by head."""
    bias: Float[Tensor, " model"]
    """b_O, zeros where the projection has none."""

    def update(self, direction: Float[Tensor, "position model"]) -> Float[Tensor, "position head source"]:
        """Give A[h,t,j] · (v[h,j] · (W_O[h] u)): what each source adds through each head [eq. 6, 8]."""
        read = direction @ rearrange(self.weight, "head dim model -> model (head dim)")
        read = rearrange(read, "position (head dim) -> head dim position", head=self.weight.shape[0])
        worth = rearrange(self._value() @ read, "head source position -> position head source")
        return self.trace.weights * worth

    def add_up(self) -> Float[Tensor, "position head model"]:
        """Give what each head wrote, all sources together."""
        weights = rearrange(self.trace.weights, "position head source -> head position source")
        return rearrange(weights @ self._value() @ self.weight, "head position model -> position head model")

    def _value(self) -> Float[Tensor, "head source dim"]:
        """Give every head its value vectors, also where a group of heads shares them."""
        shared = self.weight.shape[0] // self.trace.value.shape[0]
        return self.trace.value.repeat_interleave(shared, dim=0) if shared > 1 else self.trace.value


@dataclass(frozen=True)
class MlpPart(Part):
    """A recorded MLP."""

    trace: MlpTrace


def replay(model: Model, index: int, trace: BlockTrace) -> tuple[AttentionPart | MlpPart, ...]:
    """Add up a block from its parts, freeze the norms on the way, and prove that the model did the same."""
    block, place, tolerance = model.blocks[index], f"block {index + 1}", tolerance_of(model.dtype)
    stream = trace.stream_in.to(trace.stream_out.device)
    scale, parts = _length(stream), []
    for sublayer, written in zip(model.architecture.decoder.sublayers, trace.sublayers, strict=True):
        part = _freeze_part(model, block, sublayer, written, stream)
        if isinstance(part, AttentionPart):
            _prove_attention(part, f"{place}, attention", tolerance)
        output = written.output if part.norm_after is None else part.norm_after.apply(written.output)
        stream, scale = stream + output, scale + _length(output)
        if part.norm_sum is not None:
            stream = part.norm_sum.apply(stream)
            scale = _length(stream)
        parts.append(part)
    require_close(
        "stream in + all that was written",
        place,
        found=stream,
        expected=trace.stream_out,
        scale=scale,
        tolerance=tolerance,
    )
    return tuple(parts)


def _freeze_part(
    model: Model,
    block: nn.Module,
    sublayer: Sublayer,
    trace: AttentionTrace | MlpTrace,
    stream: Float[Tensor, "position model"],
) -> AttentionPart | MlpPart:
    norm, dtype, output = model.architecture.decoder.norm, model.compute_dtype, trace.output
    norm_after = norm_sum = None
    if sublayer.norm_after is not None:
        norm_after = freeze(module_at(block, sublayer.norm_after), norm, output)
        output = norm_after.apply(output)
    if sublayer.norm_sum is not None:
        norm_sum = freeze(module_at(block, sublayer.norm_sum), norm, stream + output)
    if isinstance(trace, MlpTrace):
        return MlpPart(norm_after, norm_sum, trace)
    projection, heads = module_at(block, sublayer.output), trace.weights.shape[1]
    weight = rearrange(output_weight(projection, dtype), "(head dim) model -> head dim model", head=heads)
    bias = output_bias(projection, dtype)
    return AttentionPart(
        norm_after, norm_sum, trace, weight, torch.zeros_like(stream[0]) if bias is None else bias
    )


def _prove_attention(part: AttentionPart, where: str, tolerance: float) -> None:
    """Prove that the parts of an attention sub-layer add up to its recorded output."""
    heads = part.add_up()
    require_close(
        "parts + output bias",
        where,
        found=heads.sum(1) + part.bias,
        expected=part.trace.output,
        scale=_length(heads).sum(1) + _length(part.bias),
        tolerance=tolerance,
    )


def _length(vectors: Float[Tensor, "*row model"]) -> Float[Tensor, "*row 1"]:
    return cast(Tensor, torch.linalg.vector_norm(vectors, dim=-1, keepdim=True))
