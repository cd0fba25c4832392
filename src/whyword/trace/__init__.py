"""Record: run the network once and keep only what later stages need."""

from .recorder import generate, record
from .types import AttentionTrace, BlockTrace, MlpTrace, StackTrace, Trace

__all__ = ["AttentionTrace", "BlockTrace", "MlpTrace", "StackTrace", "Trace", "generate", "record"]
