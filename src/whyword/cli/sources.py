"""Models, prompts and datasets, as the command takes them."""

import logging
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..ask.foil_names import AUTO, RUNNER_UP
from ..errors import InputError
from .prompt_files import fill_documents, read_documents, read_file, read_turns
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
    "read_ids",
    "read_source",
    "read_text",
    "read_word",
]


@dataclass(frozen=True)
class Source:
    """A prompt as it was typed, or read from files."""

    text: str
    """With documents, a template; "": that which fits the model."""
    chat: bool = False
    ids: bool = False
    turns: tuple[Mapping[str, Any], ...] = ()
    """A chat instead of a text."""
    documents: Mapping[str, str] = field(default_factory=dict)
    """By name."""
    question: str | None = None
    """What is asked about the documents."""

    def prompt(self, model: "Model") -> "Prompt":
        """Return the prompt that a model reads."""
        if self.ids:
            return read_ids(self.text)
        if self.turns:
            return list(self.turns)
        if self.documents:
            return self._fill(model)
        if self.chat:
            return [{"role": "user", "content": self.text}]
        return self.text

    def _fill(self, model: "Model") -> "Prompt":
        """Ask about the documents by the template that was typed, or by that which fits the model."""
        from ..ask.document_question import ASKED, ask_documents, put_in_chat

        if not self.text and not self.chat:
            return ask_documents(model, self.documents, self.question or "")
        filled = fill_documents(self.text or ASKED, self.documents, self.question)
        return put_in_chat(filled) if self.chat else filled


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
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)  # it tells of every product in another type


def read_source(
    prompt: str | None,
    *,
    start: str,
    chat: bool,
    ids: bool,
    prompt_file: Path | None = None,
    documents: Sequence[Path] | None = None,
    question: str | None = None,
) -> Source:
    """Read the prompt, from stdin where it is a dash; refuse early what no model could read."""
    if prompt is not None and prompt_file is not None:
        raise InputError(f"PROMPT and --prompt-file {prompt_file} were both given.", "Give one of them.")
    if question is not None and not documents:
        raise InputError("--question was given without --documents.", "Add --documents FILE …, or type both.")
    if ids and documents:
        raise InputError("--ids was given with --documents.", "Documents are text: leave --ids out.")
    turns = prompt_file or (None if prompt is None else Path(prompt))
    in_file = chat and turns is not None and turns.suffix.lower() == ".json" and "\n" not in str(turns)
    if in_file and turns is not None:
        source = Source("", chat, turns=_read_whole_turns(turns, documents))
    else:
        text = read_text(prompt) if prompt is not None else read_file(prompt_file) if prompt_file else ""
        source = Source(text, chat, ids, (), read_documents(documents or ()), question)
        _require_prompt(source, given=prompt is not None)
    if (ids or chat) and start != "auto":
        raise InputError(
            f"--start {start} was given with {'--ids' if ids else '--chat'}.",
            "Token ids and chat turns are read as they are: leave --start out.",
        )
    return source


def _read_whole_turns(path: Path, documents: Sequence[Path] | None) -> tuple[Mapping[str, Any], ...]:
    if documents:
        raise InputError(
            f"--documents was given with the turns in {path}.",
            "Write the documents into the turns, or give a template instead of the file.",
        )
    return read_turns(path)


def _require_prompt(source: Source, given: bool) -> None:
    """Refuse an empty prompt, ids that are none, and a template that cannot be filled."""
    if source.documents:
        if not source.text and source.question is None:
            raise InputError(
                "--documents was given without --question.",
                "Add --question TEXT, or a PROMPT with {documents} where they belong.",
            )
        if source.text:
            fill_documents(source.text, source.documents, source.question)
    elif not source.text and not given:
        raise InputError(
            "There is no prompt.",
            "Give PROMPT, --prompt-file FILE, or --documents FILE … with --question TEXT.",
        )
    elif not source.text:
        raise InputError("The prompt is empty.", "Give a text of at least one token.")
    if source.ids:
        read_ids(source.text)


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


def read_ids(text: str) -> list[int]:
    """Read token ids with spaces or commas between them."""
    words = text.replace(",", " ").split()
    if wrong := [word for word in words if not _is_id(word)]:
        raise InputError(
            f"{wrong[0][:40]!r} is not a token id.", "With --ids, give ids with spaces between them."
        )
    return [int(word) for word in words]


def _is_id(word: str) -> bool:
    return word.isdecimal() and len(word) < 19  # what fits into 64 bits
