"""Record: run the network once and keep only what later stages need."""

from .recorder import generate, record
from .types import AttentionTrace, MlpTrace, Places, Plan, StackTrace, Trace

__all__ = ["AttentionTrace", "MlpTrace", "Places", "Plan", "StackTrace", "Trace", "generate", "record"]
