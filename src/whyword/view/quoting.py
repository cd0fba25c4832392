"""Sentences with quoted text in them, and numbers as the tables of a report write them."""

from collections import Counter
from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Context, Decimal

__all__ = [
    "Sentence",
    "capitalise",
    "join",
    "quote",
    "separate",
    "tell_apart",
    "write_exponent",
    "write_plain",
    "write_signed",
]

_ANY_SIZE = Context(prec=350, rounding=ROUND_HALF_UP)
"""Digits enough for every float."""
_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
Sentence = list[str]
"""Words and quoted texts in turn, words first and last."""


def quote(text: str) -> Sentence:
    """Return a sentence that is a quoted text alone."""
    return ["", text, ""]


def join(*parts: str | Sentence) -> Sentence:
    """Put words and sentences together, so that words and quoted texts still take turns."""
    said = [""]
    for part in parts:
        own = [part] if isinstance(part, str) else part or [""]
        said = [*said[:-1], said[-1] + own[0], *own[1:]]
    return said


def separate(parts: Sequence[Sentence]) -> Sentence:
    """Put sentences together, with commas between them."""
    said = parts[0]
    for part in parts[1:]:
        said = join(said, ", ", part)
    return said


def tell_apart(labels: Sequence[str]) -> list[str]:
    """Number those that occur more than once: director¹, director²."""
    seen: Counter[str] = Counter()
    counts, told = Counter(labels), []
    for each in labels:
        seen[each] += 1
        told.append(f"{each}{str(seen[each]).translate(_SUPERSCRIPTS)}" if counts[each] > 1 else each)
    return told


def capitalise(text: str) -> str:
    """Begin with a capital letter."""
    return text[:1].upper() + text[1:]


def write_plain(number: float, digits: int) -> str:
    """Write a number as the tables of the page do: a half is rounded up, and a minus is as wide as a plus."""
    size = Decimal(abs(number)).quantize(Decimal(1).scaleb(-digits), context=_ANY_SIZE)
    return f"−{size}" if number < 0 and size else f"{size}"


def write_signed(number: float, digits: int) -> str:
    """Write a number with its sign, none where only zeros are shown."""
    shown = write_plain(number, digits)
    return f"+{shown}" if number > 0 and float(shown) else shown


def write_exponent(number: float) -> str:
    """Write the size of a number: 7e−6."""
    mantissa, _, power = f"{number:.0e}".partition("e")
    return f"{mantissa}e{int(power)}".replace("-", "−") if number and power else mantissa
