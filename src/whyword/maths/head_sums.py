"""What each attention head gave: Σ_j A[h,t,j] v[h,j], compared with what the model's own attention gave."""

from collections.abc import Sequence

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from .proof import Identity, require_close_vectors, rounding_of

__all__ = ["prove_heads"]

_BY_HEAD = "block example value_head (group each) dim -> (block value_head group) (example each) dim"


def prove_heads(
    names: Sequence[str],
    weights: Float[Tensor, "block position head source"],
    values: Float[Tensor, "block example value_head source dim"],
    context: Float[Tensor, "block position written"],
    dtype: torch.dtype,
) -> None:
    """Prove of every head and position that weights × values are what the model's own attention gave.

    `names`: of the blocks; `dtype`: of the model. An error is relative to the lengths of what was rounded:
    each weight times its value, and their sum. Other heads do not count, nor do values without weight.
    """
    sizes = {"example": values.shape[1], "each": weights.shape[1] // values.shape[1]}
    grouped = rearrange(
        weights,
        "block (example each) (value_head group) source -> block example value_head (group each) source",
        value_head=values.shape[2],
        **sizes,
    )
    lengths = torch.linalg.vector_norm(values, dim=-1)
    found = rearrange(grouped @ values, _BY_HEAD, **sizes)
    parts = torch.linalg.vector_norm(grouped * lengths[:, :, :, None], dim=-1, keepdim=True)
    expected = rearrange(
        context, "block position (head dim) -> (block head) position dim", dim=found.shape[-1]
    )
    rounded = torch.cat([rearrange(parts, _BY_HEAD, **sizes), expected], dim=-1)
    # What is smaller than the normal numbers of a type has fewer digits, or none.
    widest = values.shape[-1] ** 0.5 + values.shape[-2] ** 0.5 * lengths.amax()
    require_close_vectors(
        Identity.HEADS,
        [f"{name}, head {head + 1}" for name in names for head in range(weights.shape[2])],
        found=found,
        expected=expected,
        scale=torch.linalg.vector_norm(rounded, dim=-1) + torch.finfo(dtype).smallest_normal * widest,
        tolerance=rounding_of(dtype),
    )
