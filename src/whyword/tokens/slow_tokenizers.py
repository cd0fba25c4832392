"""Character spans for the pieces of slow tokenizers, which return no character offsets.

Tokenizers normalise a text before they cut it (NFKC, lower case, no spaces). Text and pieces are brought to
one plain form, character by character, and the two sequences of characters are matched. What differs between
two matches belongs together, so unknown pieces get the text that no other piece has.
"""

import unicodedata
from collections.abc import Sequence
from difflib import SequenceMatcher
from functools import lru_cache

import regex

__all__ = ["match_pieces"]

_UNKNOWN = "\ufffc"
"""Stands for an unknown piece in the sequence of characters; it occurs in no text."""
_DROPPED = {"Cc", "Cf", "Zs", "Zl", "Zp"}


def match_pieces(text: str, pieces: Sequence[str | None]) -> list[tuple[int, int]]:
    """Return where the text of each piece starts and ends; None is a piece whose text is not known.

    Pieces without a character of their own (a space, a marker of the start of a text) get an empty span.
    """
    written = [
        (character, match.span())
        for match in regex.finditer(r"\X", text)
        for character in _simplify(match.group())
    ]
    owners, read = list[int](), list[str]()
    for index, piece in enumerate(pieces):
        characters = (_UNKNOWN,) if piece is None else _simplify(piece)
        read += characters
        owners += [index] * len(characters)
    places = _match([character for character, _ in written], read)
    spans: dict[int, tuple[int, int]] = {}
    for owner, found in zip(owners, places, strict=True):
        if found is not None:
            start, end = written[found.start][1][0], written[found.stop - 1][1][1]
            before = spans.get(owner, (start, end))
            spans[owner] = (min(start, before[0]), max(end, before[1]))
    return _fill(spans, len(pieces))


@lru_cache(maxsize=2**16)  # of characters and pieces, which are few in a corpus
def _simplify(text: str) -> tuple[str, ...]:
    """Normalise text to the form that is compared."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    return tuple(character for character in plain if unicodedata.category(character) not in _DROPPED)


def _match(written: Sequence[str], read: Sequence[str]) -> list[range | None]:
    """Find the written characters that each read one stands for; None where it stands for none."""
    if list(written) == list(read):
        return [range(place, place + 1) for place in range(len(read))]
    places: list[range | None] = []
    for name, first, last, start, stop in SequenceMatcher(None, written, read, False).get_opcodes():
        count = stop - start
        if name == "delete":
            continue
        if name == "insert":
            places += [None] * count
        elif last - first == count:
            places += [range(place, place + 1) for place in range(first, last)]
        else:
            bytes_ = [place for place in range(first, last) for _ in written[place].encode()]
            whole = [range(first, last)] * count
            places += [range(place, place + 1) for place in bytes_] if len(bytes_) == count else whole
    return places


def _fill(spans: dict[int, tuple[int, int]], count: int) -> list[tuple[int, int]]:
    """Return pieces without text an empty span where the next piece with one starts, or after the last."""
    filled: list[tuple[int, int]] = []
    after = max((end for _, end in spans.values()), default=0)
    for index in reversed(range(count)):
        span = spans.get(index, (after, after))
        filled.append(span)
        after = span[0]
    return filled[::-1]
