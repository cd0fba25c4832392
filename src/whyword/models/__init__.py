"""Models: descriptions of families (architecture, catalogue), fetching models, opening them."""

from typing import TYPE_CHECKING

from ..lazy import look_up_in

if TYPE_CHECKING:
    from .architecture import Architecture, Attention, Experts, Mlp, Norm, Stack, ValueLayout
    from .catalogue import GENERAL
    from .model import Model
    from .open import open_model
    from .testing.shrink import make_small

__all__ = [
    "GENERAL",
    "Architecture",
    "Attention",
    "Experts",
    "Mlp",
    "Model",
    "Norm",
    "Stack",
    "ValueLayout",
    "make_small",
    "open_model",
]

# Listing the cache must not import torch, so nothing is imported before it is used.
__getattr__ = look_up_in(
    __name__,
    {"GENERAL": "catalogue", "Model": "model", "make_small": "testing.shrink", "open_model": "open"}
    | dict.fromkeys(
        ["Architecture", "Attention", "Experts", "Mlp", "Norm", "Stack", "ValueLayout"], "architecture"
    ),
)
