"""The entries of a ledger, of all explained positions at once: directions pulled back, block by block."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ..models.model import LoadedStack, Model, module_at, optional_module, output_weight
from ..norm import freeze
from ..proof import require_close, tolerance_of
from ..trace import StackTrace, Trace
from .direction import Target, read_logits, unembedding_bias, unembedding_direction
from .parts import AttentionPart, prove_attention, replay

__all__ = ["Entries", "enter_stack", "read_off"]


@dataclass(frozen=True)
class Entries:
    """The entries of all positions, on the CPU. Their sum is not proven yet."""

    by_head: Float[Tensor, "position block head stream"]
    """What self-attention adds."""
    attention_bias: Float[Tensor, "position block"]
    mlp: Float[Tensor, "position block"]
    embedding: Float[Tensor, " position"]
    norm_bias: Float[Tensor, " position"]
    unembedding_bias: Float[Tensor, " position"]
    logit: Float[Tensor, " position"]
    cross_by_head: Float[Tensor, "position block head source"] | None = None
    """What cross-attention adds, of a model with an encoder; nothing where sources are padding."""
    cross_attention_bias: Float[Tensor, "position block"] | None = None


class _Attention:
    """What is gathered of one attention sub-layer, from the last block to the first."""

    def __init__(self) -> None:
        self.by_head: list[Tensor] = []
        self.bias: list[Tensor] = []
        self.sums: list[tuple[Tensor, Tensor]] = []

    def gather(self, part: AttentionPart, block: int, direction: Float[Tensor, "position model"]) -> None:
        self.by_head.insert(0, part.update(block, direction).cpu())
        self.bias.insert(0, direction @ part.bias[block])
        self.sums.insert(0, part.add_up(block))  # beside the update: W_O is read from memory once


def read_off(model: Model, trace: Trace, targets: Sequence[Target]) -> Entries:
    """Read off every update of the targets, one for each position, and prove what they were made of."""
    stack = model.decoder_stack
    parts = replay(model, stack, trace.decoder)
    direction, norm_bias = enter_stack(model, trace, unembedding_direction(model, targets))
    gathered = {part.name: _Attention() for part in parts if isinstance(part, AttentionPart)}
    mlp: list[Tensor] = []
    for block in reversed(range(len(stack.blocks))):
        for part in reversed(parts):
            direction, written, bias = part.pull_back(block, direction)
            norm_bias = norm_bias + bias
            if isinstance(part, AttentionPart):
                gathered[part.name].gather(part, block, written)
            else:
                mlp.insert(0, (part.trace.output[block] * written).sum(-1))
    for part in parts:
        if isinstance(part, AttentionPart):
            prove_attention(model, stack, part, gathered[part.name].sums)
    if trace.encoder is not None and model.encoder_stack is not None:
        _prove_stack(model, model.encoder_stack, trace.encoder)
    own, cross = gathered["attention"], gathered.get("cross-attention")
    return Entries(
        by_head=torch.stack(own.by_head, dim=1),
        attention_bias=torch.stack(own.bias, dim=1).cpu(),
        mlp=torch.stack(mlp, dim=1).cpu(),
        embedding=(trace.decoder.stream_in[0] * direction).sum(-1).cpu(),
        norm_bias=norm_bias.cpu(),
        unembedding_bias=unembedding_bias(model, targets).cpu(),
        logit=read_logits(trace.uncapped, targets).cpu(),
        cross_by_head=None if cross is None else torch.stack(cross.by_head, dim=1),
        cross_attention_bias=None if cross is None else torch.stack(cross.bias, dim=1).cpu(),
    )


def _prove_stack(model: Model, stack: LoadedStack, trace: StackTrace) -> None:
    """Prove that a stack was recorded as it is described, where no direction is pulled through it."""
    for part in replay(model, stack, trace):
        if isinstance(part, AttentionPart):
            prove_attention(model, stack, part, [part.add_up(block) for block in range(len(stack.blocks))])


def enter_stack(
    model: Model, trace: Trace, direction: Float[Tensor, "position unembedded"]
) -> tuple[Float[Tensor, "position model"], Float[Tensor, " position"]]:
    """Pull directions back from the unembedding to the stream after the last block.

    Gives them with what the final norm's bias adds, after proving that the frozen norm of the last stream is
    what the model unembedded.
    """
    stack, stream = model.architecture.decoder, trace.decoder.stream_out[-1]
    direction, output = direction.to(stream.device), stream
    bias = direction.new_zeros(direction.shape[0])
    if stack.final_norm is not None:
        norm = freeze(module_at(model.decoder, stack.final_norm), stack.norm, stream)
        output = norm.apply(stream)
    projection = optional_module(model.decoder, stack.project_out)
    if projection is not None:
        output = output @ output_weight(projection, output.dtype)
        direction = direction @ output_weight(projection, output.dtype).T
    if (scale := model.unembedded_scale) != 1:
        output, direction = output * scale, direction * scale
    require_close(
        "frozen norm of the last stream",
        "final norm",
        found=output,
        expected=trace.unembedded.to(output.device),
        scale=torch.linalg.vector_norm(output, dim=-1, keepdim=True),
        tolerance=tolerance_of(model.dtype),
    )
    if stack.final_norm is not None:
        bias, direction = norm.project_bias(direction), norm.pull_back(direction)
    return direction, bias
