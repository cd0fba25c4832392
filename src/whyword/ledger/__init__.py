"""Settle: turn a trace and a direction into exact updates that add up to the logit, and prove it."""

from .direction import Target
from .entries import Entries, read_off
from .ledger import Ledger, close, give_ledgers, settle

__all__ = ["Entries", "Ledger", "Target", "close", "give_ledgers", "read_off", "settle"]
