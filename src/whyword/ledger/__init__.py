"""Settle: turn a trace and a direction into exact updates that add up to the logit, and prove it."""

from .direction import Target, contrast, read_choices, read_logits
from .entries import Entries, compute_entries
from .ledger import Ledger, close, make_ledgers, settle
from .likelihoods import Likelihoods, read_likelihoods, read_ranks

__all__ = [
    "Entries",
    "Ledger",
    "Likelihoods",
    "Target",
    "close",
    "compute_entries",
    "contrast",
    "make_ledgers",
    "read_choices",
    "read_likelihoods",
    "read_logits",
    "read_ranks",
    "settle",
]
