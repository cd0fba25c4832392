"""The same question twice: of another prompt, or of another model. What is explained is their difference."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from .sources import Source

if TYPE_CHECKING:
    from ..models import Model
    from ..results.explanation import Explanation
    from ..results.two_explanations import Difference

__all__ = ["explain_two", "require_two"]


def require_two(versus: str | None, models: Sequence[str] | None, *, difference: bool) -> None:
    """Refuse a difference of less or more than two."""
    if versus is not None and difference:
        raise InputError(
            "--versus and --difference were given.", "Change the prompt or the model, one at a time."
        )
    if difference and len(models or ()) != 2:
        raise InputError(
            f"--difference is of two models, and {len(models or ())} were named.", "Name two: -m A -m B."
        )


def explain_two(question: Any, models: "Iterable[Model]", versus: Source | None) -> "Iterator[Difference]":
    """Answer a question twice, and put both answers side by side, method by method.

    `versus`: another prompt, of which every model is asked; None: two models are asked about one prompt.
    """
    from ..results.two_explanations import difference

    if versus is not None:
        for model in models:
            first = list(question.answer(model))
            asked = _repeat(question, first[0], same_model=True)
            second = replace(asked, source=versus).answer(model)
            yield from map(difference, first, second)
        return
    first = []
    for model in models:
        if not first:
            first = list(question.answer(model))
            continue
        yield from map(difference, first, _repeat(question, first[0], same_model=False).answer(model))


def _repeat(question: Any, answered: "Explanation", *, same_model: bool) -> Any:
    """Ask again about the same words, where the first model chose some of them itself."""
    named = isinstance(question.foil, list) and question.foil not in (["auto"], ["runner-up"])
    if question.target is not None and (named or question.foil is None):
        return question
    choices = [answered.target, *answered.foils]
    target, *foils = [choice.id if same_model else choice.text for choice in choices]
    return replace(question, target=target, foil=foils or None)
