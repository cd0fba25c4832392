"""Settle: turn a trace and a direction into exact updates that add up to the logit, and prove it."""

from .direction import Target, contrast, read_choices, read_logits
from .ledger import Ledger, settle

__all__ = ["Ledger", "Target", "contrast", "read_choices", "read_logits", "settle"]
