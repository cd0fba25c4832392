"""Text as tokenizers take it: valid Unicode. What a tokenizer cannot read is refused in two lines."""

from typing import Any

import regex

from ..errors import InputError, first_line, is_failure

__all__ = ["encode", "require_unicode"]

_SURROGATE = regex.compile(r"[\ud800-\udfff]")
_SHOWN = 20
"""Characters shown around one that is refused."""


def require_unicode(text: str) -> str:
    """Return a text, or refuse it where it has half a character, as bytes that are not UTF-8 become."""
    found = _SURROGATE.search(text)
    if found is None:
        return text
    place, code = found.start(), ord(found[0])
    around = text[max(0, place - _SHOWN) : place + _SHOWN]
    what = f"the byte 0x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"half a character, U+{code:X}"
    raise InputError(
        f"The text {around!r} is not valid Unicode: character {place + 1} is {what}.",
        "Give text that can be written in UTF-8.",
    )


def encode(tokenizer: Any, text: str, side: str = "text", **options: Any) -> Any:
    """Call a tokenizer on a text (`side` text_target: a translation); say what it cannot read."""
    require_unicode(text)
    try:
        return tokenizer(**{side: text}, **options)
    except BaseException as error:
        if not is_failure(error):
            raise
        shown = repr(text if len(text) <= 2 * _SHOWN else text[: 2 * _SHOWN] + "…")
        raise InputError(
            f"The tokenizer cannot read the text {shown}: {first_line(error)}.",
            "Use a tokenizer that belongs to the model, in files that are complete.",
        ) from error
