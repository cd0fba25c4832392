"""Words, as the command takes them."""

from ..errors import InputError

__all__ = ["read_word"]


def read_word(text: str | None, ids: bool) -> str | int | None:
    """Read a target or foil: a word, or a token id."""
    if text is None or not ids:
        return text
    if not text.isdecimal():
        raise InputError(f"{text!r} is not a token id.", "With --ids, target and foils are token ids.")
    return int(text)
