"""Chat messages as text, and which stretch of it each turn is.

The tokenizer's template writes the text. Turns are found in it by their content; the markers before and after
it are the turn's too, as far as it can be told: what follows the first special token after a turn belongs to
the next. What the template adds of its own (a default system prompt, the beginning of the answer) is in no
turn.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import regex

from ..errors import InputError
from ..tokens.segments import Segment
from .filled_prompt import FilledPrompt

__all__ = ["Message", "RenderedChat", "render_chat", "require_messages", "shorten"]

Message = Mapping[str, Any]
"""`role` and `content`; the content is text, or a filled prompt."""


@dataclass(frozen=True)
class RenderedChat:
    """A chat as one text."""

    text: str
    turns: tuple[Segment, ...]
    """One for each message that was found, named by its role, in order."""
    parts: tuple[Segment, ...]
    """Named parts of the messages."""


def render_chat(name: str, tokenizer: Any, messages: Sequence[Message]) -> RenderedChat:
    """Render chat messages with a model's template; a last turn of the assistant is left open."""
    require_messages(messages)
    if tokenizer.chat_template is None:
        raise InputError(f"The tokenizer of {name} has no chat template.", "Pass the prompt as text instead.")
    plain = [{**message, "content": str(message["content"])} for message in messages]
    answering = messages[-1]["role"] == "assistant"
    try:
        text = tokenizer.apply_chat_template(
            plain, tokenize=False, add_generation_prompt=not answering, continue_final_message=answering
        )
        closed = text if answering else tokenizer.apply_chat_template(plain, tokenize=False)
    except Exception as error:  # a template may raise anything
        raise InputError(
            f"The chat template of {name} refuses these messages: {error}.",
            "Use the roles, and the order of turns, that the template accepts.",
        ) from error
    contents = _find_contents(text, plain)
    if contents is None:
        return RenderedChat(text, (), ())
    end = len(closed) if text.startswith(closed) else contents[-1][1]
    turns = _find_turns(text, plain, contents, end, _pattern_of(tokenizer))
    return RenderedChat(text, turns, _list_parts(messages, contents))


def require_messages(messages: Sequence[Message]) -> None:
    """Refuse messages without a role or a content."""
    for place, message in enumerate(messages):
        if not isinstance(message.get("role"), str):
            raise InputError(
                f"Message {place + 1} has no role: {shorten(dict(message))}.",
                "Every message needs a 'role' and a 'content'.",
            )
        if not isinstance(message.get("content"), str | FilledPrompt):
            raise InputError(
                f"Message {place + 1} has no content: {shorten(dict(message))}.",
                "Every message needs a 'content': text, or what whyword.fill gives.",
            )


def _find_contents(text: str, messages: Sequence[Message]) -> list[tuple[int, int]] | None:
    """Find what was said in the rendered text; None where the template changed it."""
    found, reached = [], 0
    for message in messages:
        content = message["content"].strip()  # templates strip it
        start = text.find(content, reached)
        if start < 0:
            return None
        reached = start + len(content)
        found.append((start, reached))
    return found


def _find_turns(
    text: str,
    messages: Sequence[Message],
    contents: Sequence[tuple[int, int]],
    end: int,
    special: "regex.Pattern[str]",
) -> tuple[Segment, ...]:
    """Divide what is between the contents among the turns."""
    starts = [_find_first_start(text[: contents[0][0]], messages[0]["role"], special)]
    for (_, before), (start, _) in pairwise(contents):
        closing = special.search(text, before, start)
        starts.append(start if closing is None else closing.end())
    ends = [*starts[1:], end]
    return tuple(
        Segment(message["role"], *span)
        for message, span in zip(messages, zip(starts, ends, strict=True), strict=True)
    )


def _find_first_start(before: str, role: str, special: "regex.Pattern[str]") -> int:
    """Find where the first turn begins: at the special token before its role, where there is one."""
    named = before.rfind(role)
    for match in reversed([*special.finditer(before)] if named >= 0 else []):
        if match.end() <= named:
            return match.start() if not before[match.end() : named].strip() else len(before)
    return len(before)


def _pattern_of(tokenizer: Any) -> "regex.Pattern[str]":
    """Give what finds special tokens and the space after them."""
    added = [token.content for token in tokenizer.added_tokens_decoder.values() if token.special]
    names = sorted({*map(str, tokenizer.all_special_tokens), *added}, key=len, reverse=True)
    return regex.compile(rf"(?:{'|'.join(map(regex.escape, names)) or '(?!)'})\s*")


def _list_parts(messages: Sequence[Message], contents: Sequence[tuple[int, int]]) -> tuple[Segment, ...]:
    """List the named parts of filled contents, where they are in the rendered text."""
    parts = []
    for message, (start, end) in zip(messages, contents, strict=True):
        content = message["content"]
        if isinstance(content, FilledPrompt):
            shift = start - (len(content.text) - len(content.text.lstrip()))
            parts += [
                Segment(part.name, max(part.start + shift, start), min(part.end + shift, end))
                for part in content.parts
            ]
    return tuple(parts)


def shorten(thing: object) -> str:
    """Show an object in a few characters."""
    shown = repr(thing)
    return shown if len(shown) <= 60 else shown[:57] + "..."
