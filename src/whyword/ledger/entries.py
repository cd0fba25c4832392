"""The entries of a ledger, of all explained positions at once: directions pulled back, block by block."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ..maths.frozen_norm import freeze
from ..maths.proof import Identity, require_close, tolerance_of
from ..models.model import LoadedStack, Model, module_at, optional_module
from ..trace import StackTrace, Trace
from .direction import (
    Target,
    list_choices,
    read_choices,
    read_logits,
    unembedding_bias,
    unembedding_direction,
)
from .parts import AttentionPart, prove_attention, replay

__all__ = ["Entries", "compute_entries", "enter_stack", "find_rounding"]


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
    logit_rounding: Float[Tensor, " position"]
    """The rounding error of the logits of target and foils themselves, which their difference inherits."""
    cross_by_head: Float[Tensor, "position block head source"] | None = None
    """What cross-attention adds, where the model has an encoder; zero at padding."""
    cross_attention_bias: Float[Tensor, "position block"] | None = None


def compute_entries(model: Model, trace: Trace, targets: Sequence[Target]) -> Entries:
    """Compute every update of the targets, one for each position, and prove each block and head."""
    stack = model.decoder_stack
    parts = replay(model, stack, trace.decoder)
    direction, norm_bias = enter_stack(model, trace, unembedding_direction(model, targets))
    directions: list[list[Tensor]] = [[] for _ in parts]
    for block in reversed(range(len(stack.blocks))):
        for part, gathered in reversed([*zip(parts, directions, strict=True)]):
            direction, written, bias = part.pull_back(block, direction)
            norm_bias = norm_bias + bias
            gathered.insert(0, written)
    attention: dict[str, tuple[Tensor, Tensor]] = {}
    mlps: list[Tensor] = []
    for part, gathered in zip(parts, directions, strict=True):
        written = torch.stack(gathered)
        if isinstance(part, AttentionPart):
            bias = torch.einsum("bpm,bm->pb", written, part.bias)
            attention[part.name] = _read_attention(model, stack, part, written), bias.cpu()
        else:
            mlps.append(torch.einsum("bpm,bpm->pb", written, part.trace.output))
    if trace.encoder is not None and model.encoder_stack is not None:
        _prove_stack(model, model.encoder_stack, trace.encoder)
    by_head, attention_bias = attention["attention"]
    cross_by_head, cross_bias = attention.get("cross-attention", (None, None))
    return Entries(
        by_head=by_head,
        attention_bias=attention_bias,
        mlp=torch.stack(mlps).sum(0).cpu() if len(mlps) > 1 else mlps[0].cpu(),
        embedding=(trace.decoder.stream_in[0] * direction).sum(-1).cpu(),
        norm_bias=norm_bias.cpu(),
        unembedding_bias=unembedding_bias(model, targets).cpu(),
        logit=read_logits(trace.uncapped, targets).cpu(),
        logit_rounding=find_rounding(model, trace, targets).cpu(),
        cross_by_head=cross_by_head,
        cross_attention_bias=cross_bias,
    )


def find_rounding(model: Model, trace: Trace, targets: Sequence[Target]) -> Float[Tensor, " position"]:
    """Return the rounding error of the logits of target and foils.

    A logit is rounded in the type of the model, and its products as they are added up.
    """
    half = torch.finfo(model.compute_dtype).eps / 2
    weights = model.unembedding_rows(list_choices(targets, model.device)).to(trace.unembedded).abs()
    products = torch.einsum("pcu,pu->pc", weights, trace.unembedded.abs()) * abs(model.logit_multiplier)
    logits = read_choices(trace.uncapped, targets).abs() * (torch.finfo(model.dtype).eps / 2)
    foils = [[1 / max(1, len(target.foils))] * len(target.foils) for target in targets]
    most = logits.shape[1] - 1
    shares = logits.new_tensor([[1.0, *own, *[0.0] * (most - len(own))] for own in foils])
    return ((logits + half * products.to(logits)) * shares).sum(1)


def _read_attention(
    model: Model, stack: LoadedStack, part: AttentionPart, directions: Float[Tensor, "block position model"]
) -> Float[Tensor, "position block head source"]:
    """Compute what an attention sub-layer adds, and prove its heads and their sum."""
    read, sums = [], []
    for block, context in enumerate(part.give_contexts()):
        with part.projections[block].holding():  # W_O comes from memory once
            read.append(part.read(block, directions[block]))
            sums.append(part.add_up(block, context))
    prove_attention(model, stack, part, sums)
    return part.update(read)


def _prove_stack(model: Model, stack: LoadedStack, trace: StackTrace) -> None:
    """Prove that a stack was recorded as it is described, where no direction is pulled through it."""
    for part in replay(model, stack, trace):
        if isinstance(part, AttentionPart):
            sums = [part.add_up(block, context) for block, context in enumerate(part.give_contexts())]
            prove_attention(model, stack, part, sums)


def enter_stack(
    model: Model, trace: Trace, direction: Float[Tensor, "position unembedded"]
) -> tuple[Float[Tensor, "position model"], Float[Tensor, " position"]]:
    """Pull directions back from the unembedding to the stream after the last block.

    Also returns what the final norm's bias adds, after proving that the frozen final norm of the residual
    stream is what the model unembedded.
    """
    stack, stream = model.architecture.decoder, trace.decoder.stream_out[-1]
    direction, output = direction.to(stream.device), stream
    bias = direction.new_zeros(direction.shape[0])
    if stack.final_norm is not None:
        norm = freeze(module_at(model.decoder, stack.final_norm), stack.norm, stream)
        output = norm.apply(stream)
    projection = optional_module(model.decoder, stack.project_out)
    if projection is not None:
        output = model.project(projection).apply(output)
        direction = model.project(projection).pull_back(direction)
    if (scale := model.unembedded_scale) != 1:
        output, direction = output * scale, direction * scale
    require_close(
        Identity.FINAL_NORM,
        "final norm",
        found=output,
        expected=trace.unembedded.to(output.device),
        scale=torch.linalg.vector_norm(output, dim=-1, keepdim=True),
        tolerance=tolerance_of(model.dtype),
    )
    if stack.final_norm is not None:
        bias, direction = norm.project_bias(direction), norm.pull_back(direction)
    return direction, bias
