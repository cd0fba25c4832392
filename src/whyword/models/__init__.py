"""Models: what a family is (architecture, catalogue), and how one is opened."""

from .architecture import Architecture, Attention, Mlp, Norm, Stack, ValueLayout
from .model import Model
from .open import open_model

__all__ = ["Architecture", "Attention", "Mlp", "Model", "Norm", "Stack", "ValueLayout", "open_model"]
