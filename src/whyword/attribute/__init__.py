"""Attribute: turn predictions into numbers per input token. `METHODS` names the ways."""

from typing import TYPE_CHECKING

from ..lazy import look_up_in
from .methods import METHODS, Method, find_methods, plan_methods

if TYPE_CHECKING:
    from .erasure import Erasure, erase
    from .recorded_predictions import Predictions

__all__ = ["METHODS", "Erasure", "Method", "Predictions", "erase", "find_methods", "plan_methods"]

# What a method measures is looked up without torch, so nothing else is imported before it is used.
__getattr__ = look_up_in(
    __name__, {"Erasure": "erasure", "erase": "erasure", "Predictions": "recorded_predictions"}
)
