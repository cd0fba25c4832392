"""Which modules of a block are followed as a whole while flow is noted, and which may be activations."""

from torch import nn

from ..models.low_rank import may_be_low_rank
from ..models.model import Model
from ..models.projection import Projection
from ..models.weights import is_opaque

__all__ = ["is_from_torch", "may_activate", "sort_modules"]

_IDLE = (nn.Identity, nn.ModuleDict, nn.ModuleList, nn.ParameterDict, nn.ParameterList)
"""Modules that compute nothing: adapters have many of them."""


def sort_modules(model: Model, block: nn.Module) -> tuple[list[nn.Module], dict[nn.Module, Projection]]:
    """List the modules of a block that have none inside, and projections that are followed as a whole.

    The operations of these need not be followed (low-rank adapters) or cannot be (quantised weights).
    """
    single: dict[nn.Module, None] = {}
    whole: dict[nn.Module, Projection] = {}
    waiting = [block]
    while waiting:
        module = waiting.pop()
        if may_be_low_rank(module):
            projection = model.project(module)
            if projection.low_rank is not None:
                whole[module] = projection
                continue
        elif is_opaque(module):
            whole[module] = model.project(module)
            continue
        if not module._modules:
            single[module] = None
        waiting += [child for child in reversed(module._modules.values()) if child is not None]
    return list(single), whole


def may_activate(module: nn.Module) -> bool:
    """Say whether a module with nothing inside may be an activation: it has no parameters."""
    if isinstance(module, _IDLE):
        return False
    return all(parameter is None for parameter in module._parameters.values())


def is_from_torch(module: nn.Module) -> bool:
    """Say whether torch or transformers wrote a module; others may compute with what torch does not show."""
    return type(module).__module__.partition(".")[0] in ("torch", "transformers")
