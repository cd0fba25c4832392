"""Blocks of the residual stream, added up again from their recorded parts, with frozen norms.

Four identities are proven of every block at the explained positions:

head:       Σ_j A[h,t,j] v[h,j]                   =  output of the model's own attention: context[h,t]
attention:  Σ_h context[h,t] W_O[h] + b_O         =  output of the output projection
block:      stream in + outputs of all sub-layers  =  stream out
between:    stream in of the next block           =  stream out

All blocks are added up at once, each from the stream that entered it: one large operation is faster than
many small ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from ..maths.frozen_norm import FrozenNorm, freeze_all
from ..maths.head_sums import prove_heads
from ..maths.proof import Identity, require_close, require_close_vectors, rounding_error_of, rounding_of
from ..models.architecture import Sublayer
from ..models.model import LoadedStack, Model
from ..models.projection import Projection
from ..trace import AttentionTrace, MlpTrace, StackTrace

__all__ = ["AttentionPart", "MlpPart", "Part", "prove_attention", "replay"]

_SMALL = 0.01
"""Errors of small components are relative to this share of the stream's root mean square."""


@dataclass(frozen=True)
class Part:
    """A recorded sub-layer of all blocks, with the norms between its output and the residual stream."""

    norm_after: FrozenNorm | None
    norm_sum: FrozenNorm | None
    multiplier: float
    """The factor that the model applies to the output (Granite)."""

    def write(self, output: Float[Tensor, "block position model"]) -> Float[Tensor, "block position model"]:
        """Return what is added to the residual stream for an output of the sub-layer."""
        written = output if self.norm_after is None else self.norm_after.apply(output)
        return written if self.multiplier == 1 else written * self.multiplier

    def count_roundings(self) -> int:
        """Count how often an output is rounded before it is in the residual stream: twice in a norm."""
        return 1 + 2 * (self.norm_after is not None) + (self.multiplier != 1)

    def pull_back(
        self, block: int, direction: Float[Tensor, "position model"]
    ) -> tuple[
        Float[Tensor, "position model"], Float[Tensor, "position model"], Float[Tensor, " position"] | float
    ]:
        """Pull a direction of the stream above the sub-layer back through its norms.

        Returns the direction of the stream below, that of what the sub-layer writes, and what the norms'
        biases add (0 where there are none).
        """
        bias: Tensor | float = 0.0
        if self.norm_sum is not None:
            norm = self.norm_sum.at(block)
            bias, direction = norm.project_bias(direction), norm.pull_back(direction)
        below = direction
        if self.multiplier != 1:
            direction = direction * self.multiplier
        if self.norm_after is None:
            return below, direction, bias
        norm = self.norm_after.at(block)
        return below, norm.pull_back(direction), bias + norm.project_bias(direction)


@dataclass(frozen=True)
class AttentionPart(Part):
    """A recorded attention sub-layer and its output projections."""

    trace: AttentionTrace
    projections: tuple[Projection, ...]
    """W_O by block, where the block is."""
    bias: Float[Tensor, "block model"]
    """b_O, zeros where the projection has none."""

    @property
    def name(self) -> str:
        """What it is called in messages."""
        return "cross-attention" if self.trace.cross else "attention"

    def read(
        self, block: int, direction: Float[Tensor, "position model"]
    ) -> Float[Tensor, "position written"]:
        """Pull a direction back through an output projection: W_O u, heads side by side."""
        return self.projections[block].pull_back(direction)

    def update(
        self, read: Sequence[Float[Tensor, "position _written"]]
    ) -> Float[Tensor, "position block head source"]:
        """Return A[h,t,j] · (v[h,j] · (W_O[h] u)): what each source adds through each head [eq. 6, 8].

        `read`: W_O u by block. The result is on the CPU.
        """
        updates, blocks = [], iter(read)
        for run in self.trace.runs:
            own = rearrange(
                torch.stack([*islice(blocks, len(run.values))]),
                "block (example each) (value_head group dim) -> block example value_head (group each) dim",
                example=run.values.shape[1],
                value_head=run.values.shape[2],
                dim=run.values.shape[4],
            )
            worth = rearrange(
                own @ run.values.transpose(3, 4),
                "block example value_head (group each) source "
                "-> (example each) block (value_head group) source",
                each=run.weights.shape[1] // run.values.shape[1],
            )
            updates.append((worth * run.weights.transpose(0, 1)).cpu())
        return updates[0] if len(updates) == 1 else torch.cat(updates, dim=1)

    def give_contexts(self) -> list[Float[Tensor, "_head position _dim"]]:
        """Return the output of the model's own attention by block and head."""
        return [
            rearrange(context, "position (head dim) -> head position dim", head=weights.shape[1])
            for context, weights in zip(self.trace.contexts, self.trace.weights, strict=True)
        ]

    def add_up(
        self, block: int, context: Float[Tensor, "_head position _dim"]
    ) -> tuple[Float[Tensor, "position model"], Float[Tensor, " position"]]:
        """Return the sum of what all heads write, and the sum of their squared lengths."""
        heads = self._write_heads(self.projections[block], context)
        return heads.sum(0), torch.linalg.vector_norm(heads, dim=2).square().sum(0)

    def weight(self, block: int) -> Float[Tensor, "_head _dim model"]:
        """Return W_O of a block by head."""
        matrix, heads = self.projections[block].matrix(), self.trace.weights[block].shape[1]
        return matrix.view(heads, -1, matrix.shape[1])

    def _write_heads(
        self, projection: Projection, context: Float[Tensor, "_head position _dim"]
    ) -> Float[Tensor, "_head position model"]:
        """Return what every head writes: a few rows of single heads, or W_O where there are many."""
        heads, positions, dim = context.shape
        if projection.has_matrix or heads * positions > projection.read:
            matrix = projection.matrix()
            return context.to(matrix) @ matrix.view(heads, dim, -1)
        alone = context.new_zeros(heads, positions, heads, dim)
        each = torch.arange(heads, device=alone.device)
        alone[each, :, each] = context
        return projection.apply(alone.view(heads * positions, heads * dim)).view(heads, positions, -1)


@dataclass(frozen=True)
class MlpPart(Part):
    """A recorded MLP."""

    trace: MlpTrace


def replay(model: Model, stack: LoadedStack, trace: StackTrace) -> tuple[AttentionPart | MlpPart, ...]:
    """Add up every block from its parts, freeze the norms on the way, and prove that the model did so."""
    stream = trace.stream_in
    rounded, parts = stream.abs(), []
    for sublayer, written in zip(stack.stack.sublayers, trace.sublayers, strict=True):
        part = _freeze_part(model, stack, sublayer, written, stream)
        output = part.write(written.output)
        stream, rounded = stream + output, rounded + part.count_roundings() * output.abs()
        if part.norm_sum is not None:
            stream = part.norm_sum.apply(stream)
            rounded = part.norm_sum.bound(rounded) + stream.abs()
        parts.append(part)
    require_close(
        Identity.STREAM,
        stack.name_blocks(),
        found=stream,
        expected=trace.stream_out,
        scale=rounded + _SMALL * rounded.square().mean(-1, keepdim=True).sqrt(),
        tolerance=rounding_of(model.dtype),
    )
    above, below = trace.stream_in[1:], trace.stream_out[:-1]
    if len(above) > 0:
        require_close_vectors(
            Identity.BETWEEN,
            stack.name_blocks()[1:],
            found=above,
            expected=below,
            scale=torch.linalg.vector_norm(below, dim=-1),
            tolerance=2 * rounding_error_of(model.dtype),
        )
    return tuple(parts)


def _freeze_part(
    model: Model,
    stack: LoadedStack,
    sublayer: Sublayer,
    trace: AttentionTrace | MlpTrace,
    stream: Float[Tensor, "block position model"],
) -> AttentionPart | MlpPart:
    norm, norm_after, norm_sum = stack.stack.norm, None, None
    multiplier = model.multiplier_of(sublayer)
    if sublayer.norm_after is not None:
        norm_after = freeze_all(stack.in_blocks(sublayer.norm_after), norm, trace.output)
    if sublayer.norm_sum is not None:
        written = Part(norm_after, None, multiplier).write(trace.output)
        norm_sum = freeze_all(stack.in_blocks(sublayer.norm_sum), norm, stream + written)
    if isinstance(trace, MlpTrace):
        return MlpPart(norm_after, norm_sum, multiplier, trace)
    projections = tuple(model.project(module) for module in stack.in_blocks(sublayer.output))
    biases = [projection.bias() for projection in projections]
    none = torch.zeros_like(stream[0, 0])
    bias = torch.stack([none if bias is None else bias.to(none.device) for bias in biases])
    return AttentionPart(norm_after, norm_sum, multiplier, trace, projections, bias)


def prove_attention(
    model: Model,
    stack: LoadedStack,
    part: AttentionPart,
    sums: Sequence[tuple[Float[Tensor, "position model"], Float[Tensor, " position"]]],
) -> None:
    """Prove every head of an attention sub-layer, and that all heads, added up, are its recorded output."""
    blocks = iter(stack.name_blocks())
    for run in part.trace.runs:
        names = [f"{block}, {part.name}" for block in islice(blocks, len(run.values))]
        prove_heads(names, run.weights, run.values, run.context, model.dtype)
    output = part.trace.output
    heads, squares = (
        torch.stack([each.to(output.device) for each in column]) for column in zip(*sums, strict=True)
    )
    found = heads + part.bias[:, None]
    require_close_vectors(
        Identity.PARTS,
        [f"{place}, {part.name}" for place in stack.name_blocks()],
        found=found,
        expected=output,
        scale=(squares + found.square().sum(-1) + part.bias.square().sum(-1)[:, None]).sqrt(),
        tolerance=rounding_of(model.exactness),
    )
