"""The languages of a multilingual tokenizer: its codes, and setting them temporarily."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

import regex

from ..errors import InputError

__all__ = ["Languages", "speak"]

_CODE = regex.compile(r"[a-z]{2,3}_[A-Z][A-Za-z]{1,3}")
"""A language code that is a special token (NLLB, mBART)."""
_MARK = regex.compile(r">>.+<<")
"""A language code that is written before a source (Marian)."""
_LISTED = 8
_SPEAKING = threading.RLock()
"""Held while a tokenizer, which belongs to the user, is set to another language."""


class Languages:
    """The languages that a tokenizer knows, by code."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        written = getattr(tokenizer, "supported_language_codes", ())
        self.marked = [code[2:-2] for code in written if _MARK.fullmatch(code)]
        """Codes that are written before the source, for the target language (Marian)."""
        special = [str(token) for token in tokenizer.added_tokens_decoder.values()]
        found = getattr(tokenizer, "lang_code_to_id", None) or filter(_CODE.fullmatch, special)
        self.codes = sorted(found)
        """Codes of source and target language (M2M-100, NLLB, mBART)."""

    def require(self, code: str | None, what: str) -> None:
        """Refuse a code that the tokenizer does not know."""
        known = self.codes or (self.marked if what == "target" else [])
        if code is None or code in known:
            return
        name = type(self.tokenizer).__name__
        if not known:
            raise InputError(
                f"The {what} language is {code!r}, but {name} has no {what} languages.",
                f"Leave {what}_language out: the model has only one, or the text names it.",
            )
        near = [each for each in known if each.startswith(code[:2].lower())]
        near = [*get_close_matches(code, known, _LISTED), *near, *known]
        listed = ", ".join(list(dict.fromkeys(near))[:_LISTED])
        raise InputError(
            f"{name} does not know the {what} language {code!r}.",
            f"Similar: {listed} ({len(known)} in all).",
        )

    def mark(self, target: str | None) -> str:
        """Return the prefix of a source that names the target language."""
        return f">>{target}<< " if target is not None and not self.codes else ""


@contextmanager
def speak(tokenizer: Any, source: str | None, target: str | None) -> Iterator[Languages]:
    """Set the languages of a tokenizer, and restore them afterwards."""
    languages = Languages(tokenizer)
    languages.require(source, "source")
    languages.require(target, "target")
    with _SPEAKING:
        if not languages.codes:
            yield languages
            return
        own = tokenizer.src_lang, tokenizer.tgt_lang
        if target is None and own[1] is None:
            raise InputError(
                f"{type(tokenizer).__name__} translates into many languages, and none was named.",
                f"Name one, for example target_language={languages.codes[0]!r}.",
            )
        try:
            tokenizer.tgt_lang = own[1] if target is None else target
            tokenizer.src_lang = own[0] if source is None else source
            yield languages
        finally:
            tokenizer.tgt_lang = own[1]
            tokenizer.src_lang = own[0]
