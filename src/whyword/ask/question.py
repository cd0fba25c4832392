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
from .foil_names import AUTO, RUNNER_UP
from .prompt import continue_prompt, extend_prompt, require_tokens
from .rival import find_rival

__all__ = ["Question", "choose", "first_difference", "pose"]


@dataclass(frozen=True)
class Question:
    """A target and foils as token ids, up to the token where they differ."""

    forced: tuple[int, ...]
    """The tokens that target and foils share at the start: appended to the prompt."""
    target: int | None
    """None: the model's first choice."""
    foils: tuple[int, ...]
    chosen: str | None = None
    """How the model itself chooses the foil: AUTO or RUNNER_UP; None: it does not."""
    word: str | None = None
    """The target as it is written, where it has several tokens and the model chooses the foil."""


def pose(
    model: Model, prompt: Tokens, target: str | int | None, foil: str | int | Sequence[str | int] | None
) -> Question:
    """Find the first token where target and foils differ, and the tokens that are forced before it."""
    foils = _several(foil)
    chosen = next((name for name in (AUTO, RUNNER_UP) if foils == [name]), None)
    if target is None:
        if foils and chosen is None:
            first = [_ids_of(model, prompt, word)[0] for word in foils]
            return Question((), None, tuple(first))
        return Question((), None, (), chosen)
    wanted = _ids_of(model, prompt, target)
    if chosen is not None or not foils:
        word = _spell(model, prompt, wanted) if chosen == AUTO and len(wanted) > 1 else None
        return Question((), wanted[0], (), chosen, word)
    others = [_ids_of(model, prompt, word) for word in foils]
    places = {first_difference(target, wanted, word, ids) for word, ids in zip(foils, others, strict=True)}
    if len(places) > 1:
        raise InputError(
            f"The foils {', '.join(map(repr, foils))} diverge from {target!r} at different tokens.",
            "Explain them one at a time.",
        )
    place = places.pop()
    return Question(tuple(wanted[:place]), wanted[place], tuple(ids[place] for ids in others))


def choose(model: Model, before: Tokens, question: Question, logits: Float[Tensor, " vocab"]) -> Target:
    """Fill in what the model decides after a context: its first choice, and the foil."""
    target = int(logits.argmax()) if question.target is None else question.target
    if question.chosen == AUTO:
        return Target(target, (find_rival(model, before, target, logits, question.word),))
    if question.chosen == RUNNER_UP:
        best = logits.topk(min(2, logits.shape[0])).indices.tolist()
        return Target(target, (best[1] if target == best[0] else best[0],))
    if question.target is not None:
        return Target(target, question.foils)
    if target in question.foils:
        raise InputError(
            f"The model's first choice is the foil itself (token {target}).",
            "Name a target, or another foil.",
        )
    return Target(target, question.foils)


def _several(foil: str | int | Sequence[str | int] | None) -> list[str | int]:
    if foil is None:
        return []
    several = isinstance(foil, list | tuple) or getattr(foil, "ndim", 0) == 1  # an array of ids
    foils: list[Any] = list(foil) if several else [foil]  # type: ignore[arg-type]
    if not foils:
        raise InputError("The list of foils is empty.", "Name at least one foil, or none at all.")
    return foils


def _ids_of(model: Model, prompt: Tokens, word: str | int) -> list[int]:
    if model.labels is not None:
        return [_find_class(model.labels, word)]
    if isinstance(word, str):
        return continue_prompt(model, prompt, word)
    try:
        if isinstance(word, bool):
            raise TypeError
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


def _spell(model: Model, prompt: Tokens, ids: list[int]) -> str:
    """Return the text of a word of several tokens, as it stands after a prompt."""
    return extend_prompt(model, prompt, ids).text[len(prompt.text) :]


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
