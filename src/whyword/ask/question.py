"""Which token is explained, and against which: from words to ids at one position."""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import index
from typing import Any

from jaxtyping import Float
from torch import Tensor

from ..errors import InputError
from ..ledger import Target
from ..models.model import Model
from ..tokens import Tokens
from .prompt import continue_prompt, require_tokens

__all__ = ["AUTO", "Question", "choose", "first_difference", "pose"]

AUTO = "auto"
"""The foil that means the model's runner-up."""


@dataclass(frozen=True)
class Question:
    """A target and foils as token ids, up to the token where they differ."""

    forced: tuple[int, ...]
    """The tokens that target and foils share at the start: appended to the prompt."""
    target: int | None
    """None: the model's first choice."""
    foils: tuple[int, ...]
    runner_up: bool
    """Whether the foil is the model's runner-up."""


def pose(
    model: Model, prompt: Tokens, target: str | int | None, foil: str | int | Sequence[str | int] | None
) -> Question:
    """Find the first token where target and foils differ, and the tokens that are forced before it."""
    foils = _several(foil)
    runner_up = foils == [AUTO]
    if target is None:
        if foils and not runner_up:
            first = [_ids_of(model, prompt, word)[0] for word in foils]
            return Question((), None, tuple(first), runner_up=False)
        return Question((), None, (), runner_up)
    wanted = _ids_of(model, prompt, target)
    if runner_up or not foils:
        return Question((), wanted[0], (), runner_up)
    others = [_ids_of(model, prompt, word) for word in foils]
    places = {first_difference(target, wanted, word, ids) for word, ids in zip(foils, others, strict=True)}
    if len(places) > 1:
        raise InputError(
            f"The foils {', '.join(map(repr, foils))} diverge from {target!r} at different tokens.",
            "Explain them one at a time.",
        )
    place = places.pop()
    return Question(
        tuple(wanted[:place]), wanted[place], tuple(ids[place] for ids in others), runner_up=False
    )


def choose(question: Question, logits: Float[Tensor, " vocab"]) -> Target:
    """Fill in what the model decides: its first choice, its runner-up."""
    if question.target is not None and not question.runner_up:
        return Target(question.target, question.foils)
    best = logits.topk(min(2, logits.shape[0])).indices.tolist()
    target = best[0] if question.target is None else question.target
    if question.runner_up:
        return Target(target, (best[1] if target == best[0] else best[0],))
    if target in question.foils:
        raise InputError(
            f"The model's first choice is the foil itself (token {target}).",
            "Name a target, or another foil.",
        )
    return Target(target, question.foils)


def _several(foil: str | int | Sequence[str | int] | None) -> list[str | int]:
    if foil is None:
        return []
    foils: list[Any] = list(foil) if isinstance(foil, list | tuple) else [foil]
    if not foils:
        raise InputError("The list of foils is empty.", "Name at least one foil, or none at all.")
    return foils


def _ids_of(model: Model, prompt: Tokens, word: str | int) -> list[int]:
    if model.labels is not None:
        return [_find_class(model.labels, word)]
    if isinstance(word, str):
        return continue_prompt(model, prompt, word)
    try:
        ids = [index(word)]
    except TypeError:
        raise InputError(f"A target or foil cannot be {word!r}.", "Pass a word or a token id.") from None
    require_tokens(model, ids)
    return ids


def _find_class(labels: Sequence[str], word: str | int) -> int:
    """Find a class by its name, or by its number."""
    named = {label.casefold(): index for index, label in enumerate(labels)}
    found = named.get(word.strip().casefold()) if isinstance(word, str) else word
    if found in range(len(labels)):
        return int(found)  # type: ignore[arg-type]
    raise InputError(
        f"There is no class {word!r}.", f"Classes: {', '.join(labels)} (0 to {len(labels) - 1})."
    )


def first_difference(target: str | int, wanted: list[int], foil: str | int, other: list[int]) -> int:
    """Find the first token where two words differ."""
    if wanted == other:
        raise InputError(
            f"Target {target!r} and foil {foil!r} are the same tokens {wanted}.", "Name two that differ."
        )
    for place, (one, two) in enumerate(zip(wanted, other, strict=False)):
        if one != two:
            return place
    shorter, longer = sorted([(wanted, target), (other, foil)], key=lambda pair: len(pair[0]))
    raise InputError(
        f"{shorter[1]!r} (tokens {shorter[0]}) begins {longer[1]!r} (tokens {longer[0]}): they never differ.",
        "Name two words of which neither begins the other.",
    )
