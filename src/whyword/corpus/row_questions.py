"""From a row to its question: prompt or messages, target, foil, answer and parts; the rest is carried."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..ask.chat_turns import require_messages, shorten
from ..ask.filled_prompt import fill
from ..errors import InputError
from ..tokens.encoding import require_unicode

__all__ = ["ASKED", "RowQuestion", "find_id", "read_question"]

ASKED = ("prompt", "messages", "target", "foil", "answer", "parts", "id")
"""Columns that say what is asked."""
_REMEDY = "Mend the row, or go on without such rows: bad_rows='write'."


@dataclass(frozen=True)
class RowQuestion:
    """What a row asks."""

    prompt: Any
    target: str | int | None
    foil: Any
    """A word, an id, several, "auto", "runner-up", or None: no contrast."""
    answer: str | None
    spans: Mapping[str, tuple[int, int]] | None
    """Parts of the prompt as characters, by name."""


def find_id(values: Mapping[str, Any], number: int) -> str:
    """Give the id of a row: its own, or its number, counted from 1."""
    found = values.get("id")
    if found is None or found == "":
        return str(number)
    if isinstance(found, bool) or not isinstance(found, str | int):
        raise InputError(f"its id is {shorten(found)}, not a text or a whole number", _REMEDY)
    return str(found)


def read_question(values: Mapping[str, Any]) -> RowQuestion:
    """Read the question of a row; InputError says what is wrong with it."""
    prompt, messages = _take(values, "prompt"), _read_json(_take(values, "messages"), "messages")
    if prompt is None and messages is None:
        raise InputError("it has no prompt", _REMEDY)
    if prompt is not None and messages is not None:
        raise InputError("it has a prompt and messages", "Give one of them in each row.")
    answer = _take(values, "answer")
    if answer is not None and not isinstance(answer, str):
        raise InputError(f"its answer is {shorten(answer)}, not a text", _REMEDY)
    target = _read_word(_take(values, "target"), "target")
    foil = _read_foil(values)
    if answer is not None and target is not None:
        raise InputError("it has a target and an answer", "Give one of them in each row.")
    if prompt is None:
        return RowQuestion(_read_messages(messages), target, foil, answer, None)
    if not isinstance(prompt, str):
        raise InputError(f"its prompt is {shorten(prompt)}, not a text", _REMEDY)
    filled, spans = _read_parts(require_unicode(prompt), _read_json(_take(values, "parts"), "parts"))
    return RowQuestion(filled, target, foil, answer, spans)


def _take(values: Mapping[str, Any], name: str) -> Any:
    """Take a cell; an empty one is none."""
    found = values.get(name)
    return None if isinstance(found, str) and not found else found


def _read_json(found: Any, name: str) -> Any:
    """Read a cell of text, as CSV has it, as JSON."""
    if not isinstance(found, str):
        return found
    try:
        return json.loads(found)
    except (ValueError, RecursionError) as error:
        raise InputError(f"its {name} are not JSON: {error}", _REMEDY) from None


def _read_messages(messages: Any) -> list[Mapping[str, Any]]:
    if not isinstance(messages, list) or not messages or not all(isinstance(m, Mapping) for m in messages):
        raise InputError(f"its messages are {shorten(messages)}, not a list of turns", _REMEDY)
    try:
        require_messages(messages)
    except InputError as error:
        raise InputError(error.wrong.rstrip("."), error.remedy) from None
    return messages


def _read_word(found: Any, name: str) -> Any:
    if found is None or (isinstance(found, str | int) and not isinstance(found, bool)):
        return found
    raise InputError(f"its {name} is {shorten(found)}, not a word or a token id", _REMEDY)


def _read_foil(values: Mapping[str, Any]) -> Any:
    """Read the foil: "auto" where there is none, except of an answer, whose logits are explained."""
    found = _take(values, "foil")
    if found is None:
        return None if _take(values, "answer") is not None else "auto"
    if isinstance(found, Sequence) and not isinstance(found, str):
        return [_read_word(each, "foil") for each in found] or None
    return _read_word(found, "foil")


def _read_parts(prompt: str, parts: Any) -> tuple[Any, Mapping[str, tuple[int, int]] | None]:
    """Fill a template with texts by field, or take spans of characters by name."""
    if parts is None:
        return prompt, None
    # Arrow gives every struct all fields of its column.
    known = (
        {name: each for name, each in parts.items() if each is not None} if isinstance(parts, Mapping) else {}
    )
    if not known:
        raise InputError(f"its parts are {shorten(parts)}, not an object of names", _REMEDY)
    if all(_is_span(each) for each in known.values()):
        return prompt, {str(name): (int(each[0]), int(each[1])) for name, each in known.items()}
    try:
        return fill(prompt, **{str(name): each for name, each in known.items()}), None
    except (InputError, TypeError) as error:
        said = error.wrong.rstrip(".") if isinstance(error, InputError) else str(error)
        raise InputError(f"its parts do not fill its prompt: {said}", _REMEDY) from None


def _is_span(each: Any) -> bool:
    return (
        isinstance(each, Sequence)
        and len(each) == 2
        and all(isinstance(end, int) and not isinstance(end, bool) for end in each)
    )
