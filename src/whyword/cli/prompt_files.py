"""Prompts that are in files: a text, documents with a question about them, the turns of a chat."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError

if TYPE_CHECKING:
    from ..ask.filled_prompt import FilledPrompt

__all__ = ["fill_documents", "read_documents", "read_file", "read_turns"]

_TURNS = 'Give a list of turns: [{"role": "user", "content": "…"}, …].'


def read_file(path: Path) -> str:
    """Read a text file without its last line breaks; refuse one that cannot be read, or has no text."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} is not UTF-8: byte {error.start + 1} is 0x{error.object[error.start]:02x}.",
            "Give text in UTF-8, by `iconv -t utf-8` for one.",
        ) from None
    except OSError as error:
        what = f"There is no file {path}." if isinstance(error, FileNotFoundError) else None
        raise InputError(
            what or f"{path} cannot be read: {error.strerror}.", "Give the name of a text file."
        ) from None
    if not text.strip():
        raise InputError(f"{path} is empty.", "Give a file with text in it.")
    return text.rstrip("\r\n")


def read_documents(paths: Sequence[Path]) -> dict[str, str]:
    """Read documents, named by their files: by the whole path where two files have one name."""
    documents: dict[str, str] = {}
    for path in paths:
        same = [each for each in paths if each.name == path.name]
        name = path.name if len(same) == 1 else str(path)
        if name in documents:
            raise InputError(f"--documents names {name} twice.", "Give every document once.")
        documents[name] = read_file(path)
    return documents


def fill_documents(template: str, documents: Mapping[str, str], question: str | None) -> "FilledPrompt":
    """Fill a template that has the fields documents and question."""
    from ..ask.filled_prompt import fill

    fields: dict[str, Any] = {"documents": documents}
    if question is not None:
        fields["question"] = question
    try:
        return fill(template, **fields)
    except InputError as error:
        raise InputError(
            error.wrong,
            "A prompt with --documents is a template: write {documents}, and {question} where --question is "
            "given; {{ and }} stand for braces.",
        ) from None


def read_turns(path: Path) -> tuple[Mapping[str, Any], ...]:
    """Read the turns of a chat: a list of objects with role and content, or an object with `messages`."""
    from ..ask.chat_turns import require_messages

    text = read_file(path)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON: {error}.", _TURNS) from None
    messages = found.get("messages") if isinstance(found, dict) else found
    if not isinstance(messages, list) or not messages:
        raise InputError(f"{path} holds no list of turns.", _TURNS)
    for place, message in enumerate(messages, 1):
        if not isinstance(message, dict):
            raise InputError(f"Message {place} of {path} is {type(message).__name__}, not an object.", _TURNS)
    require_messages(messages)
    return tuple(messages)
