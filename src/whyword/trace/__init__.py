"""Record: run the network once and keep only what later stages need."""

from .recorder import record
from .types import AttentionTrace, BlockTrace, MlpTrace, StackTrace, Trace

__all__ = ["AttentionTrace", "BlockTrace", "MlpTrace", "StackTrace", "Trace", "record"]
