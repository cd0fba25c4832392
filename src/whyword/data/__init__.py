"""Datasets of minimal pairs, and the words that decide between their two sentences."""

from .names import GROUPS, PUBLISHED, SUITE
from .reading import read_datasets
from .spans import EVIDENCE_KINDS, choose_evidence, locate_tokens
from .types import Dataset, Example, Skipped, Span, Spans

__all__ = [
    "EVIDENCE_KINDS",
    "GROUPS",
    "PUBLISHED",
    "SUITE",
    "Dataset",
    "Example",
    "Skipped",
    "Span",
    "Spans",
    "choose_evidence",
    "locate_tokens",
    "read_datasets",
]
