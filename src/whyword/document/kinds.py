"""The JSON document that every view shares: what it is called, and what is said with it."""

from collections.abc import Iterable, Mapping
from typing import Any

from ..attribute.methods import Measure, measure_of

__all__ = [
    "ABLATION_SCHEMA",
    "ALIGNMENT_SCHEMA",
    "ANSWERS_SCHEMA",
    "COMPARISON_SCHEMA",
    "CONTINUATION_SCHEMA",
    "NEURONS_SCHEMA",
    "NEURON_NOTES",
    "PREDICTION_SCHEMA",
    "READERS",
    "SCHEMA",
    "SURVEY_NOTES",
    "SURVEY_SCHEMA",
    "TRANSLATION_SCHEMA",
    "Document",
    "is_comparison",
    "is_continuation",
    "is_translation",
    "notes_of",
    "read_measure",
]

Document = Mapping[str, Any]
"""What `to_dict` gives: JSON as Python objects."""

SCHEMA = "whyword.explanation/1"
CONTINUATION_SCHEMA = "whyword.continuation/1"
COMPARISON_SCHEMA = "whyword.comparison/1"
PREDICTION_SCHEMA = "whyword.prediction/1"
NEURONS_SCHEMA = "whyword.neurons/1"
SURVEY_SCHEMA = "whyword.survey/1"
ANSWERS_SCHEMA = "whyword.answers/1"
ABLATION_SCHEMA = "whyword.ablation/1"
TRANSLATION_SCHEMA = "whyword.translation/1"
ALIGNMENT_SCHEMA = "whyword.alignment/1"
READERS = {
    SCHEMA: "results.explanation:explanation_from",
    CONTINUATION_SCHEMA: "results.explanation:continuation_from",
    COMPARISON_SCHEMA: "results.comparison:comparison_from",
    TRANSLATION_SCHEMA: "results.translation:read_translation",
    ALIGNMENT_SCHEMA: "alignment.alignment:read_alignment",
}
"""By schema, the function that makes a result of a document. It is looked up when a document is read."""
_EXACT = "The updates add up to the model's logit; the error is in the ledger."
_MIXING = "Mixing (alti-logit) is a heuristic, and MLPs are not traced further back."
_FIXED = (
    "Flow holds fixed what the run computed: attention weights, norm statistics, router weights, the ratio "
    "act(z)/z of every activation. That a gated product gives half of itself to each factor is a convention."
)
_USE = "A debugging tool to be used with others, not a definitive account of why a model did something."
NEURON_NOTES = {
    "exact": "The updates of a block's neurons and its bias add up to the ledger's entry of that MLP.",
    "direct": "An update is what a neuron adds along the stream; what later blocks make of it is not in it.",
    "use": _USE,
}
SURVEY_NOTES = {
    "exact": "Every example's updates add up to its logit difference; means are over examples.",
    "direct": NEURON_NOTES["direct"],
    "use": _USE,
}


def is_continuation(document: Document) -> bool:
    """Tell the explanation of a continuation from that of one token."""
    return bool(document["schema"] == CONTINUATION_SCHEMA)


def is_comparison(document: Document) -> bool:
    """Tell several methods for one prediction from one."""
    return bool(document["schema"] == COMPARISON_SCHEMA)


def is_translation(document: Document) -> bool:
    """Tell the explanation of a translation from others."""
    return bool(document["schema"] == TRANSLATION_SCHEMA)


def read_measure(document: Document) -> Measure:
    """Read what the scores of an explanation, or of one method of a comparison, are."""
    known = document.get("measure")
    own = measure_of(document["method"])
    return own if known is None else Measure(**{"heuristic": own.heuristic, **known})


def notes_of(methods: Iterable[str]) -> dict[str, str]:
    """Say what is exact, what is heuristic, and what to use it for."""
    names = list(methods)
    measures = {name: measure_of(name) for name in names}
    others = [name for name in names if not measures[name].adds_up]
    blind = [name for name in names if not measures[name].contrastive]
    mixing = "alti" in names or any(each.adds_up and each.sum_of == "attention" for each in measures.values())
    whole = any(each.adds_up and each.sum_of == "difference" for each in measures.values())
    notes = {"exact": _EXACT}
    if mixing:
        notes["heuristic"] = _MIXING
    if whole:
        notes["held fixed"] = _FIXED
    notes["use"] = _USE
    if others:
        named = ", ".join(f"{name} ({measures[name].unit})" for name in others)
        notes["baseline"] = f"Scores that do not add up to the logit (difference), with their units: {named}."
    if blind:
        notes["not contrastive"] = (
            f"{', '.join(blind)}: the same numbers whatever the target and the foil are."
        )
    return notes
