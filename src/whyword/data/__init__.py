"""Datasets of minimal pairs, and the words that decide between their two sentences."""

from .names import GROUPS, PUBLISHED, SUITE
from .parsing import add_evidence, find_evidence
from .reading import read_datasets
from .rules import PHENOMENA
from .spans import EVIDENCE_KINDS, choose_evidence, locate_tokens
from .types import Dataset, Example, Skipped, Span, Spans

__all__ = [
    "EVIDENCE_KINDS",
    "GROUPS",
    "PHENOMENA",
    "PUBLISHED",
    "SUITE",
    "Dataset",
    "Example",
    "Skipped",
    "Span",
    "Spans",
    "add_evidence",
    "choose_evidence",
    "find_evidence",
    "locate_tokens",
    "read_datasets",
]
