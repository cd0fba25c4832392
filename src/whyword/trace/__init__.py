"""Record: run the network once and keep only what later stages need."""

from .recorder import record
from .running import generate
from .types import AttentionTrace, MlpTrace, Places, Plan, StackTrace, Trace

__all__ = ["AttentionTrace", "MlpTrace", "Places", "Plan", "StackTrace", "Trace", "generate", "record"]
