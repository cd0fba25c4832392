"""Models: what a family is (architecture, catalogue), how one is fetched, and how one is opened."""

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

# The cache is looked at without torch, so nothing is imported before it is used.
__getattr__ = look_up_in(
    __name__,
    {"GENERAL": "catalogue", "Model": "model", "make_small": "testing.shrink", "open_model": "open"}
    | dict.fromkeys(
        ["Architecture", "Attention", "Experts", "Mlp", "Norm", "Stack", "ValueLayout"], "architecture"
    ),
)
