"""Record: run the network once and keep only what later stages need."""

from .logit_reading import read_out
from .readout import Inputs, Readout
from .recorder import record
from .running import generate, pad
from .trace import AttentionTrace, MlpTrace, Places, Plan, StackTrace, Trace

__all__ = [
    "AttentionTrace",
    "Inputs",
    "MlpTrace",
    "Places",
    "Plan",
    "Readout",
    "StackTrace",
    "Trace",
    "generate",
    "pad",
    "read_out",
    "record",
]
