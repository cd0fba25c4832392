"""Attribute: turn predictions into numbers per input token. `METHODS` names the ways."""

from typing import TYPE_CHECKING

from ..lazy import look_up_in

if TYPE_CHECKING:
    from .erasure import Chances, Erasure, erase, read_chances
    from .methods import METHODS, Method, find_methods, plan_methods
    from .recorded_predictions import Predictions

__all__ = [
    "METHODS",
    "Chances",
    "Erasure",
    "Method",
    "Predictions",
    "erase",
    "find_methods",
    "plan_methods",
    "read_chances",
]

# What a method measures is looked up without torch, so nothing is imported before it is used.
__getattr__ = look_up_in(
    __name__,
    dict.fromkeys(["Chances", "Erasure", "erase", "read_chances"], "erasure")
    | dict.fromkeys(["METHODS", "Method", "find_methods", "plan_methods"], "methods")
    | {"Predictions": "recorded_predictions"},
)
