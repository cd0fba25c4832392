"""What is said with every explanation: what is exact, what is heuristic, what it is for."""

from collections.abc import Iterable

from ..attribute.methods import measure_of, uses_mixing

__all__ = ["NEURON_NOTES", "SURVEY_NOTES", "notes_of"]

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


def notes_of(methods: Iterable[str]) -> dict[str, str]:
    """Say what is exact, what is heuristic, and what to use it for."""
    names = list(methods)
    measures = {name: measure_of(name) for name in names}
    others = [name for name in names if not measures[name].adds_up]
    blind = [name for name in names if not measures[name].contrastive]
    mixing = any(map(uses_mixing, names)) or any(
        each.adds_up and each.sum_of == "attention" for each in measures.values()
    )
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
