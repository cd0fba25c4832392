"""Datasets of minimal pairs, and the words that decide between the two sentences of a pair."""

from .dataset_names import GROUPS, PUBLISHED, SUITE
from .evidence_rules import PHENOMENA
from .evidence_spans import EVIDENCE_KINDS, choose_evidence, locate_tokens
from .examples import Dataset, Example, Skipped, Span, Spans
from .parses import add_evidence, find_evidence
from .reading import read_datasets

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
