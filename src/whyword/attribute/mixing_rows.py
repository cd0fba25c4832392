"""The stream of the explained position as a mix of input tokens, after every block's attention (heuristic).

    rows[l] = M[l][t]        M[l] = C[l] ··· C[1]; the row of t only

C of the last block is computed for that row alone, from what was recorded of it.
"""

import torch
from einops import rearrange, repeat
from jaxtyping import Float
from torch import Tensor

from ..maths.frozen_norm import freeze
from ..models.architecture import Attention
from ..models.model import Model, module_at, output_weight
from ..trace import AttentionTrace, Trace
from .alti_logit import carry_down

__all__ = ["mix_rows"]

_AT_ONCE = 2**24
"""Numbers of parts that are held at once."""


@torch.no_grad()
def mix_rows(model: Model, trace: Trace) -> list[Float[Tensor, "block _"]]:
    """Give the rows of every explained position, in a trace with the contributions of all blocks but one."""
    last, places = _contribute_last(model, trace), list(trace.places)
    own = torch.zeros_like(last)
    own[torch.arange(len(places)), places] = 1
    rows = carry_down(trace, torch.stack([*[own] * (len(model.blocks) - 1), last], dim=1))
    return [own[:, : place + 1].cpu() for own, place in zip(rows, places, strict=True)]


def _contribute_last(model: Model, trace: Trace) -> Float[Tensor, "position source"]:
    """Give the rows of C of the last block that belong to the explained positions."""
    sublayers = model.architecture.decoder.sublayers
    sublayer, written = next(
        (one, two)
        for one, two in zip(sublayers, trace.decoder.sublayers, strict=True)
        if isinstance(one, Attention) and isinstance(two, AttentionTrace)
    )
    weights, value = written.weights[-1], written.values[-1]
    positions, heads, sources = weights.shape
    step = max(1, _AT_ONCE // (sources * written.output.shape[2]))
    value = repeat(
        value,
        "example value_head source dim -> (example each) (value_head group) source dim",
        each=positions // value.shape[0],
        group=heads // value.shape[1],
    )
    places = torch.tensor(list(trace.places), device=weights.device)
    rows = [
        _contribute(model, sublayer, trace, weights[piece], value[piece], places[piece], piece)
        for start in range(0, positions, step)
        for piece in [slice(start, start + step)]
    ]
    return torch.cat(rows)


def _contribute(
    model: Model,
    sublayer: Attention,
    trace: Trace,
    weights: Float[Tensor, "position head source"],
    value: Float[Tensor, "position head source dim"],
    places: Tensor,
    piece: slice,
) -> Float[Tensor, "position source"]:
    """C_tj ∝ max(0, ‖y_t‖₁ − ‖y_t − T_tj‖₁), as in contributions.py, for some positions."""
    block, norm = model.blocks[-1], model.architecture.decoder.norm
    weight = output_weight(module_at(block, sublayer.output), value.dtype)
    weighted = rearrange(weights[..., None] * value, "position head source dim -> position source (head dim)")
    parts = weighted @ weight.to(weighted.device)
    (output,) = (part.output[-1] for part in trace.decoder.sublayers if isinstance(part, AttentionTrace))
    output, residual = output[piece].to(parts.device), trace.decoder.stream_in[-1][piece].to(parts.device)
    if sublayer.norm_after is not None:
        frozen = freeze(module_at(block, sublayer.norm_after), norm, output)
        parts, output = frozen.map_rows(parts) * frozen.scale[:, None], frozen.apply(output)
    multiplier = model.multiplier_of(sublayer)
    parts, whole = parts * multiplier, residual + output * multiplier
    if sublayer.norm_sum is not None:
        frozen = freeze(module_at(block, sublayer.norm_sum), norm, whole)
        parts, residual = frozen.map_rows(parts) * frozen.scale[:, None], frozen.map_vectors(residual)
        whole = frozen.apply(whole)
    rows = torch.arange(len(places), device=parts.device)
    parts[rows, places] += residual
    rest = (whole[:, None] - parts).abs().sum(-1)
    closeness = (whole.abs().sum(-1, keepdim=True) - rest).clamp(min=0)
    closeness = closeness * (torch.arange(closeness.shape[1], device=parts.device) <= places[:, None])
    total = closeness.sum(-1, keepdim=True)
    closeness[rows, places] += (total == 0)[:, 0]
    return closeness / (total + (total == 0))
