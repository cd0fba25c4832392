"""The JSON document that every view shares: what it is called, and what is said with it."""

from collections.abc import Mapping
from typing import Any

__all__ = [
    "ABLATION_SCHEMA",
    "ANSWERS_SCHEMA",
    "CONTINUATION_SCHEMA",
    "NEURONS_SCHEMA",
    "NEURON_NOTES",
    "NOTES",
    "SCHEMA",
    "SURVEY_NOTES",
    "SURVEY_SCHEMA",
    "Document",
    "is_continuation",
]

Document = Mapping[str, Any]
"""What `Explanation.to_dict` or `Continuation.to_dict` gives: JSON as Python objects."""

SCHEMA = "whyword.explanation/1"
CONTINUATION_SCHEMA = "whyword.continuation/1"
NEURONS_SCHEMA = "whyword.neurons/1"
SURVEY_SCHEMA = "whyword.survey/1"
ANSWERS_SCHEMA = "whyword.answers/1"
ABLATION_SCHEMA = "whyword.ablation/1"
NOTES = {
    "exact": "The updates add up to the model's logit; the error is in the ledger.",
    "heuristic": "Mixing (alti-logit) is a heuristic, and MLPs are not traced further back.",
    "use": "A debugging tool to be used with others, not a definitive account of why a model did something.",
}
NEURON_NOTES = {
    "exact": "The updates of a block's neurons and its bias add up to the ledger's entry of that MLP.",
    "direct": "An update is what a neuron adds along the stream; what later blocks make of it is not in it.",
    "use": NOTES["use"],
}
SURVEY_NOTES = {
    "exact": "Every example's updates add up to its logit difference; means are over examples.",
    "direct": NEURON_NOTES["direct"],
    "use": NOTES["use"],
}


def is_continuation(document: Document) -> bool:
    """Tell the explanation of a continuation from that of one token."""
    return bool(document["schema"] == CONTINUATION_SCHEMA)
