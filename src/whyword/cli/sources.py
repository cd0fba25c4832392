"""Models and prompts, as the command takes them."""

import logging
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..ask.foil_names import AUTO, RUNNER_UP
from ..errors import InputError
from .reporting import show_progress

if TYPE_CHECKING:
    from ..ask.prompt import Prompt
    from ..data import Dataset
    from ..models import Model

__all__ = [
    "Source",
    "open_models",
    "quiet_transformers",
    "read_dataset_files",
    "read_source",
    "read_text",
    "read_word",
]


@dataclass(frozen=True)
class Source:
    """A prompt as it was typed."""

    text: str
    chat: bool = False
    ids: bool = False

    def prompt(self, model: "Model") -> "Prompt":
        """Return the prompt that a model reads."""
        if self.ids:
            return _read_ids(self.text)
        if self.chat:
            return [{"role": "user", "content": self.text}]
        return self.text


def open_models(
    names: Sequence[str] | None,
    *,
    dtype: str | None = None,
    allow: Collection[str] = (),
    start: str = "auto",
) -> "Iterator[Model]":
    """Load models one after the other; only one is held at a time."""
    from ..pipeline.loading import load

    quiet_transformers()
    chosen: Sequence[str | None] = names or [None]
    for name in chosen:
        with show_progress(f"Loading {name or 'the default model'} …"):
            model = load(name, dtype=dtype, allow=allow, start=start)
        yield model
        del model


def read_dataset_files(names: Sequence[str], folder: str | None) -> "list[Dataset]":
    """Read datasets by name, from a folder where there is one; names may be joined by commas."""
    from ..data import read_datasets

    return read_datasets([name for each in names for name in each.split(",")], folder)


def quiet_transformers() -> None:
    """Let transformers and the hub's client speak of errors only."""
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()  # one bar is enough
    transformers_logging.set_verbosity_error()
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # it tells of every attempt to connect


def read_source(prompt: str, *, start: str, chat: bool, ids: bool) -> Source:
    """Read the prompt, from stdin where it is a dash; refuse early what no model could read."""
    text = read_text(prompt)
    if not text:
        raise InputError("The prompt is empty.", "Give a text of at least one token.")
    if ids:
        _read_ids(text)
    if (ids or chat) and start != "auto":
        raise InputError(
            f"--start {start} was given with {'--ids' if ids else '--chat'}.",
            "Token ids and chat turns are read as they are: leave --start out.",
        )
    return Source(text, chat, ids)


def read_text(text: str) -> str:
    """Read a text as it was typed, from stdin where it is a dash."""
    from ..tokens.encoding import require_unicode

    return require_unicode(_read_stdin() if text == "-" else text)


def _read_stdin() -> str:
    try:
        return sys.stdin.read().rstrip("\n")
    except UnicodeDecodeError as error:
        raise InputError(
            f"The text on stdin is not UTF-8: byte {error.start + 1} is 0x{error.object[error.start]:02x}.",
            "Give text in UTF-8, by `iconv -t utf-8` for one.",
        ) from None


def read_word(text: str | None, ids: bool) -> str | int | None:
    """Read a target or foil: a word, or a token id."""
    from ..tokens.encoding import require_unicode

    if text is None or not ids or text in (AUTO, RUNNER_UP):
        return None if text is None else require_unicode(text)
    if not _is_id(text):
        raise InputError(f"{text[:40]!r} is not a token id.", "With --ids, target and foils are token ids.")
    return int(text)


def _read_ids(text: str) -> list[int]:
    words = text.replace(",", " ").split()
    if wrong := [word for word in words if not _is_id(word)]:
        raise InputError(
            f"{wrong[0][:40]!r} is not a token id.", "With --ids, give ids with spaces between them."
        )
    return [int(word) for word in words]


def _is_id(word: str) -> bool:
    return word.isdecimal() and len(word) < 19  # what fits into 64 bits
