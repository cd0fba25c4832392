"""Settle: turn a trace and a direction into exact updates that add up to the logit, and prove it."""

from .direction import Target, contrast, read_choices, read_logits
from .entries import Entries, read_off
from .ledger import Ledger, close, give_ledgers, settle
from .likelihoods import Likelihoods, read_likelihoods, read_ranks

__all__ = [
    "Entries",
    "Ledger",
    "Likelihoods",
    "Target",
    "close",
    "contrast",
    "give_ledgers",
    "read_choices",
    "read_likelihoods",
    "read_logits",
    "read_off",
    "read_ranks",
    "settle",
]
