"""Several methods on the parts of one prompt, and whether the part that each names matters."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..ask.prompt import Prompt
from ..attribute import METHODS, Erasure, erase
from ..ledger import Target
from ..models.model import Model
from ..results.comparison import Comparison
from ..results.part_comparison import NO_SOURCES, PartComparison, PartFaithfulness, compare_divided
from ..results.prompt_parts import PromptParts
from ..results.token_groups import list_parts
from .one_prompt import Word, compare, list_methods

__all__ = ["COMPARED_BY_PART", "compare_parts"]

COMPARED_BY_PART = ("flow", "logit", "erasure", "gradient-x-input")
"""The methods that are compared by part when none are named."""


def compare_parts(
    model: Model,
    prompt: Prompt,
    parts: str | Mapping[str, Any] = "part",
    *,
    target: Word | None = None,
    foil: Word | Sequence[Word] | None = "auto",
    methods: Sequence[str] | None = None,
    depth: int | None = None,
    max_memory: int | str | None = None,
) -> PartComparison:
    """Compare methods on the parts of a prompt: documents, turns, sentences …, as in `Explanation.by`.

    Erasure erases whole parts. Of every method, the source with the highest score is erased, and all other
    sources: comprehensiveness and sufficiency say whether it matters to the model. `methods`: None: flow,
    logit, erasure and gradient × input. The rest is as in `explain`.
    """
    names = list_methods(COMPARED_BY_PART if methods is None else methods)
    erasing = any(METHODS[name].erases for name in names)
    asked: dict[str, Any] = {"target": target, "foil": foil, "depth": depth, "max_memory": max_memory}
    compared = compare(model, prompt, **asked, methods=names, parts=parts if erasing else None)
    divided = {name: compared[name].divide(parts) for name in names}
    return compare_divided(divided, _measure(model, compared, divided, parts))


def _measure(
    model: Model, compared: Comparison, divided: Mapping[str, PromptParts], parts: str | Mapping[str, Any]
) -> dict[str, PartFaithfulness]:
    """Erase the strongest source of every method, and all other sources; nothing of one source."""
    tokens, named = list_parts(compared.tokens, parts), next(iter(divided.values())).parts
    sources = [place for place, part in enumerate(named) if part.name not in NO_SOURCES]
    if len(sources) < 2:
        return {}
    best = {
        method: max(sources, key=lambda place, own=each: own.scores[place])  # type: ignore[misc]
        for method, each in divided.items()
    }
    sets = [frozenset[int]()]
    for place in dict.fromkeys(best.values()):
        others = [tokens[other] for other in sources if other != place]
        sets += [tokens[place], frozenset[int]().union(*others)]
    assert compared.target.id is not None
    foils = tuple(foil.id for foil in compared.foils if foil.id is not None)
    (found,) = erase(model, [Erasure(compared.tokens.ids, Target(compared.target.id, foils), sets)])
    whole, *others = found.preference.tolist()
    lost = {
        place: (whole - others[2 * at], whole - others[2 * at + 1])
        for at, place in enumerate(dict.fromkeys(best.values()))
    }
    return {method: PartFaithfulness(named[place].name, *lost[place]) for method, place in best.items()}
