"""Attribute: turn predictions into numbers per input token. `METHODS` names the ways."""

from .erasure import Chances, Erasure, erase, read_chances
from .method import METHODS, Method, find_methods, plan_methods
from .prediction import Predictions

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
