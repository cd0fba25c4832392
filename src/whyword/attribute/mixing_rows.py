"""The residual stream of the explained position as a mix of input tokens, after every block's attention.

    rows[l] = M[l][t]        M[l] = C[l] ··· C[1]; the row of t only        (heuristic: see contributions.py)

C of the last block is computed for that row alone, from what was recorded of it.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from ..maths.contributions import contribute_rows
from ..models.architecture import Attention
from ..models.model import Model
from ..trace import Trace
from ..trace.written_parts import AttentionOutput, write_parts
from .alti_logit import carry_down

__all__ = ["mix_rows"]

_AT_ONCE = 2**24
"""Numbers of parts that are held at once."""


@torch.no_grad()
def mix_rows(model: Model, trace: Trace) -> list[Float[Tensor, "block _"]]:
    """Return the rows of the explained positions, one of each example.

    The trace has the contributions of all blocks but the last.
    """
    last, places = _contribute_last(model, trace), list(trace.places)
    own = torch.zeros_like(last)
    for row, place in enumerate(places):
        own[row, place] = 1
    rows = carry_down(trace, torch.stack([*[own] * (len(model.blocks) - 1), last], dim=1))
    return [own[:, : place + 1].cpu() for own, place in zip(rows, places, strict=True)]


def _contribute_last(model: Model, trace: Trace) -> Float[Tensor, "example source"]:
    """Return the rows of C of the last block that belong to the explained positions."""
    (sublayer,) = (each for each in model.architecture.decoder.sublayers if isinstance(each, Attention))
    attention = trace.decoder.attention
    weights, values, output = attention.weights[-1], attention.values[-1], attention.output[-1]
    positions = torch.tensor(list(trace.places), device="cpu")
    examples, heads, sources = weights.shape
    step = max(1, _AT_ONCE // (heads * sources * output.shape[1]))
    rows = []
    for start in range(0, examples, step):
        some = slice(start, start + step)
        parts = write_parts(
            AttentionOutput(
                model=model,
                stack=model.decoder_stack,
                index=len(model.blocks) - 1,
                sublayer=sublayer,
                value=values[some],
                output=output[some, None].to(values.device),
                residual=trace.decoder.stream_in[-1][some, None].to(values.device),
            )
        )
        weighed = weights[some, :, None].to(values.device)
        weighed = weighed if parts.scale is None else weighed * parts.scale[:, None]
        rows.append(
            contribute_rows(
                weighed, parts.projected, parts.residual, parts.whole, positions[some], model.workspace
            )
        )
    return torch.cat(rows)
