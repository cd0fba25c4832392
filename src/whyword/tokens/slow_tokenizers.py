"""Which characters the pieces of a slow tokenizer stand for: those that tell no offsets.

Tokenizers write a text in other characters before they cut it (NFKC, lower case, no spaces). Text and
pieces are brought to one plain form, character by character, and the two rows of characters are matched; what
differs between two matches belongs together. So unknown pieces get the text that no other piece has.
"""

import unicodedata
from collections.abc import Sequence
from difflib import SequenceMatcher

import regex

__all__ = ["match_pieces"]

_UNKNOWN = "\ufffc"
"""Stands for a piece of which nothing is known, in the row of characters: no text is written with it."""
_DROPPED = {"Cc", "Cf", "Zs", "Zl", "Zp"}


def match_pieces(text: str, pieces: Sequence[str | None]) -> list[tuple[int, int]]:
    """Give where the text of each piece starts and ends; None stands for a piece whose text is not known.

    Pieces without any character of their own (a space, a sign for the start of a text) get an empty span.
    """
    written = [
        (character, match.span())
        for match in regex.finditer(r"\X", text)
        for character in _simplify(match.group())
    ]
    owners, read = list[int](), list[str]()
    for index, piece in enumerate(pieces):
        characters = [_UNKNOWN] if piece is None else _simplify(piece)
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


def _simplify(text: str) -> list[str]:
    """Bring text to the form in which it is compared."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    return [character for character in plain if unicodedata.category(character) not in _DROPPED]


def _match(written: Sequence[str], read: Sequence[str]) -> list[range | None]:
    """Find which written characters each read one stands for; None: it stands for none."""
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
    """Give pieces without text an empty span where the next piece with one starts, or after the last."""
    filled: list[tuple[int, int]] = []
    after = max((end for _, end in spans.values()), default=0)
    for index in reversed(range(count)):
        span = spans.get(index, (after, after))
        filled.append(span)
        after = span[0]
    return filled[::-1]
