"""A plain weight with low-rank adapters beside it (LoRA), read from its parts.

    y = x W + b + Σ_a s_a (x A_a) B_a

What PEFT's layer does to basis vectors would say the same, but takes as long as running it. That the layer
does act by these parts is for the caller to check.
"""

from dataclasses import dataclass
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from .weights import is_plain, orient

__all__ = ["LowRank", "is_changed", "may_be_low_rank", "read_low_rank"]

_LAYER = "peft.tuners.lora.layer", "Linear"
"""Where PEFT has the layer, and what it is called there."""


@dataclass(frozen=True)
class LowRank:
    """A plain weight and what adapters add to it, in the types that they are stored in."""

    weight: Float[Tensor, "read written"]
    bias: Float[Tensor, " written"] | None
    pairs: tuple[tuple[Float[Tensor, "read _rank"], Float[Tensor, "_rank written"], float], ...]
    """A, B and s of every active adapter."""

    def apply(self, rows: Float[Tensor, "row read"]) -> Float[Tensor, "row written"]:
        """Apply the linear part."""
        rows = rows.to(self.weight.device)
        found = rows @ self.weight.to(rows)
        for down, up, scale in self.pairs:
            found.addmm_(rows @ down.to(rows), up.to(rows), alpha=scale)
        return found

    def pull_back(self, directions: Float[Tensor, "row written"]) -> Float[Tensor, "row read"]:
        """Apply the transpose of the linear part."""
        directions = directions.to(self.weight.device)
        pulled = directions @ self.weight.T.to(directions)
        for down, up, scale in self.pairs:
            pulled.addmm_(directions @ up.T.to(directions), down.T.to(directions), alpha=scale)
        return pulled

    def merge(self, dtype: torch.dtype) -> Float[Tensor, "read written"]:
        """Return the matrix of all parts together."""
        turned = self.weight.T.to(dtype)  # as it is stored: adding is fastest this way round
        for down, up, scale in self.pairs:
            turned = torch.addmm(turned, up.T.to(dtype), down.T.to(dtype), alpha=scale)
        return turned.T


def may_be_low_rank(module: nn.Module) -> bool:
    """Say whether a module is of the kind that is read: what is inside is not looked at."""
    kind = type(module)
    return kind.__name__ == _LAYER[1] and kind.__module__ == _LAYER[0]


def read_low_rank(module: Any) -> LowRank | None:
    """Read a projection with low-rank adapters; None where it is none, or has more than these parts."""
    if not may_be_low_rank(module) or is_changed(module):
        return None
    try:
        return _read_parts(module)
    except (AttributeError, KeyError):  # another version of PEFT, with other parts
        return None


def _read_parts(module: Any) -> LowRank | None:
    parts = module._modules  # attributes of modules are slow to look up
    base, downs, ups = (parts[name] for name in ("base_layer", "lora_A", "lora_B"))
    if module.merged_adapters or not _is_readable(base):
        return None
    pairs = []
    for name in [] if module.disable_adapters else module.active_adapters:
        if name not in downs._modules:
            continue
        down, up = downs._modules[name], ups._modules[name]
        if name in module.lora_variant or not _is_readable(down) or not _is_readable(up):
            return None
        if up._parameters["bias"] is not None:
            return None
        weights = (each._parameters["weight"].detach().T for each in (down, up))
        pairs.append((*weights, float(module.scaling[name])))
    weight, bias = base._parameters["weight"].detach(), base._parameters["bias"]
    return LowRank(orient(base, weight), None if bias is None else bias.detach(), tuple(pairs))


def _is_readable(module: nn.Module) -> bool:
    """Say whether a part is its weight and bias, in memory."""
    if is_changed(module) or not is_plain(module):
        return False
    return not cast(Tensor, module._parameters["weight"]).is_meta


def is_changed(module: nn.Module) -> bool:
    """Say whether somebody else may change what a module reads or gives; what only records it does not."""
    hooks = [*module._forward_pre_hooks.values(), *module._forward_hooks.values()]
    return "forward" in vars(module) or not all(getattr(hook, "records", False) for hook in hooks)
