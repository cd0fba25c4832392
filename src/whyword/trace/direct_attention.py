"""Attention outside transformers' interface: calls of torch's own function, and weights modules return."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, no_type_check

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode

from ..models.architecture import ValueLayout
from ..models.model import Model
from .trace import Places

__all__ = ["ReturnedWeights", "SeeDirectCalls", "attend_plainly", "cut_values", "find_weights"]


class SeeDirectCalls(TorchFunctionMode):
    """Tell of every call of torch's attention function, which runs as it would have."""

    def __init__(self, see: Callable[[Tensor, Tensor, Tensor, Tensor | None, dict[str, Any]], None]) -> None:
        super().__init__()
        self.see = see

    @no_type_check  # tests check types at run time, but not in every operation of torch
    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Any,
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if function is scaled_dot_product_attention:
            self._tell(*args, **(kwargs or {}))
        return function(*args, **(kwargs or {}))

    def _tell(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> None:
        del dropout_p, enable_gqa  # nothing is dropped in evaluation; groups of heads show in the shapes
        self.see(query, key, value, attn_mask, {"is_causal": is_causal, "scaling": scale})


def attend_plainly(
    _module: None,
    query: Float[Tensor, "example head row key_dim"],
    key: Float[Tensor, "example value_head source key_dim"],
    value: Float[Tensor, "example value_head source _dim"],
    mask: Float[Tensor, "_example _head row source"] | None,
    *,
    scaling: float | None,
    is_causal: bool,
) -> tuple[Float[Tensor, "example head row _dim"], Float[Tensor, "example head row source"]]:
    """Attend as torch's function does, and give the weights too; what is causal is in the mask already."""
    del is_causal
    if key.shape[1] < query.shape[1]:
        key, value = (each.repeat_interleave(query.shape[1] // each.shape[1], dim=1) for each in (key, value))
    scores = query * (query.shape[3] ** -0.5 if scaling is None else scaling) @ key.transpose(2, 3)
    weights = torch.softmax(scores if mask is None else scores.add_(mask), dim=-1)
    return weights @ value, weights


@dataclass(frozen=True)
class ReturnedWeights:
    """Weights that the attention module returned."""

    value: Float[Tensor, "example value_head source dim"]
    weights: Float[Tensor, "example head position source"]

    def detach(self) -> "ReturnedWeights":
        """Return the same without what led to it."""
        return ReturnedWeights(self.value.detach(), self.weights.detach())

    def weigh(self, rows: slice, sources: int) -> Float[Tensor, "example head row source"]:
        """Pick the weights of some rows over the first sources."""
        return self.weights[:, :, rows, :sources]

    def weigh_places(self, places: Places) -> Float[Tensor, "example head each source"]:
        """Pick the weights of the explained positions."""
        return places.pick(self.weights.transpose(1, 2)).transpose(1, 2)


def find_weights(returned: Any) -> Float[Tensor, "example head position source"] | None:
    """Find the attention weights among what an attention module returned; None where there are none."""
    several = returned[::-1] if isinstance(returned, tuple) else ()  # T5 gives a bias by position before them
    return next((each for each in several if isinstance(each, Tensor) and each.ndim == 4), None)


def cut_values(
    model: Model, projected: Float[Tensor, "example source fused"], layout: ValueLayout, dim: int
) -> Float[Tensor, "example value_head source dim"]:
    """Cut the value vectors out of a projection's output."""
    axes = layout.pattern.strip("()").split()
    heads = " ".join(axis for axis in axes if axis not in ("part", "dim"))
    part = "part" if "part" in axes else "1"
    sizes = {
        axis: size if isinstance(size, int) else getattr(model.config, size)
        for axis, size in layout.sizes.items()
    }
    parts = rearrange(
        projected, f"example source {layout.pattern} -> {part} example ({heads}) source dim", dim=dim, **sizes
    )
    return parts[layout.part]
