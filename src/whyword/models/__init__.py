"""Models: what a family is (architecture, catalogue), how one is fetched, and how one is opened."""

from typing import TYPE_CHECKING

from ..lazy import look_up_in

if TYPE_CHECKING:
    from .architecture import Architecture, Attention, Experts, Mlp, Norm, Stack, ValueLayout
    from .model import Model
    from .open import open_model

__all__ = [
    "Architecture",
    "Attention",
    "Experts",
    "Mlp",
    "Model",
    "Norm",
    "Stack",
    "ValueLayout",
    "open_model",
]

# The cache is looked at without torch, so nothing is imported before it is used.
__getattr__ = look_up_in(
    __name__,
    {"Model": "model", "open_model": "open"}
    | dict.fromkeys(
        ["Architecture", "Attention", "Experts", "Mlp", "Norm", "Stack", "ValueLayout"], "architecture"
    ),
)
