"""The ledger: every update of a prediction, in logits, adding up to the model's own number [eq. 1–8].

    embedding + Σ_l attention[l, h, j] + Σ_l attention output bias[l] + Σ_l mlp[l]
    + norm biases + unembedding bias  =  logit

The direction of the logit is pulled back once, from the unembedding down through every frozen norm; an
update is what was written times that direction. No entry is ever what is left over: a remainder would hide
any error.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ..models.model import Model, module_at, optional_module, output_weight
from ..norm import freeze
from ..proof import require_close, tolerance_of
from ..trace import Trace
from .direction import Target, read_logits, unembedding_bias, unembedding_direction
from .parts import AttentionPart, prove_attention, replay

__all__ = ["Ledger", "enter_stack", "settle"]


@dataclass(frozen=True, eq=False)
class Ledger:
    """All updates of one prediction, in logits, on the CPU."""

    embedding: float
    """What the position's own embedding adds."""
    attention: Float[Tensor, " block"]
    """What attention adds: the sum of `by_head` over heads and sources."""
    attention_bias: Float[Tensor, " block"]
    """What the bias of each attention's output projection adds."""
    mlp: Float[Tensor, " block"]
    """What each MLP adds."""
    norm_bias: float
    """What the biases of the norms on the way to the logit add."""
    unembedding_bias: float
    """What the bias of the unembedding adds."""
    total: float
    """The sum of all entries."""
    logit: float
    """The model's own logit, or difference of logits, before they are capped."""
    error: float
    """|total − logit| / Σ|entries|."""
    by_head: Float[Tensor, "block head source"]
    """What each source adds through each head of each block."""


def settle(model: Model, trace: Trace, targets: Sequence[Target]) -> tuple[Ledger, ...]:
    """Settle the ledger of every position of a trace, one target each, and prove it."""
    parts = replay(model, trace.decoder)
    sums: list[tuple[Tensor, Tensor]] = []
    direction, norm_bias = enter_stack(model, trace, unembedding_direction(model, targets))
    by_head: list[Tensor] = []
    attention_bias: list[Tensor] = []
    mlp: list[Tensor] = []
    for block in reversed(range(len(model.blocks))):
        for part in reversed(parts):
            direction, written, bias = part.pull_back(block, direction)
            norm_bias = norm_bias + bias
            if isinstance(part, AttentionPart):
                by_head.insert(0, part.update(block, written).cpu())
                attention_bias.insert(0, written @ part.bias[block])
                sums.insert(0, part.add_up(block))  # beside the update: W_O is read from memory once
            else:
                mlp.insert(0, (part.trace.output[block] * written).sum(-1))
    for part in parts:
        if isinstance(part, AttentionPart):
            prove_attention(model, part, sums)
    entries = _Entries(
        by_head=torch.stack(by_head, dim=1),
        attention_bias=torch.stack(attention_bias, dim=1).cpu(),
        mlp=torch.stack(mlp, dim=1).cpu(),
        embedding=(trace.decoder.stream_in[0] * direction).sum(-1).cpu(),
        norm_bias=norm_bias.cpu(),
        unembedding_bias=unembedding_bias(model, targets).cpu(),
        logit=read_logits(trace.uncapped, targets).cpu(),
    )
    return _close(model, entries, list(trace.places))


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


@dataclass(frozen=True)
class _Entries:
    """The entries of all positions, on the CPU."""

    by_head: Float[Tensor, "position block head source"]
    attention_bias: Float[Tensor, "position block"]
    mlp: Float[Tensor, "position block"]
    embedding: Float[Tensor, " position"]
    norm_bias: Float[Tensor, " position"]
    unembedding_bias: Float[Tensor, " position"]
    logit: Float[Tensor, " position"]


def _close(model: Model, entries: _Entries, positions: Sequence[int]) -> tuple[Ledger, ...]:
    """Add up the entries of every position and compare with the model's logits."""
    attention = entries.by_head.double().sum((2, 3))
    attention_bias, mlp = entries.attention_bias.double(), entries.mlp.double()
    single = torch.stack([entries.embedding, entries.norm_bias, entries.unembedding_bias], dim=1).double()
    every, logit = torch.cat([attention, attention_bias, mlp, single], dim=1), entries.logit.double()
    total, size = every.sum(1), every.abs().sum(1)
    require_close(
        "sum of the ledger",
        [f"position {position + 1}" for position in positions],
        found=total,
        expected=logit,
        scale=size,
        tolerance=tolerance_of(model.dtype),
    )
    errors = (total - logit).abs() / size.clamp(min=torch.finfo(size.dtype).tiny)
    numbers = zip(single.tolist(), total.tolist(), logit.tolist(), errors.tolist(), strict=True)
    return tuple(
        Ledger(
            embedding=embedding,
            attention=attention[row],
            attention_bias=attention_bias[row],
            mlp=mlp[row],
            norm_bias=norm_bias,
            unembedding_bias=unembedding_bias,
            total=own_total,
            logit=own_logit,
            error=error,
            by_head=entries.by_head[row, :, :, : positions[row] + 1].clone(),  # not a view of all positions
        )
        for row, ((embedding, norm_bias, unembedding_bias), own_total, own_logit, error) in enumerate(numbers)
    )
