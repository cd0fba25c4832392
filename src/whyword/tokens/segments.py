"""Stretches of a text: its sentences, lines and paragraphs, and stretches that a user names.

Sentences are found by a few rules: a full stop ends one unless it belongs to an abbreviation, an initial, a
number or the marker of a list, or a small letter follows. Full stops of other scripts end one without a
space after them. An empty line always does.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import regex

from ..errors import InputError

__all__ = ["SPLITTERS", "Segment", "find_segment", "name_spans", "require_apart", "split_text", "trim_span"]


@dataclass(frozen=True)
class Segment:
    """A stretch of a text, with its name."""

    name: str
    start: int
    """Index of its first character."""
    end: int
    """Index after its last character."""


def _read_words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_CLOSING = r"[\"'”’»›)\]}」』》〉】）]*"
_WIDE = regex.compile(rf"[。．！？｡]+{_CLOSING}|[।॥։؟۔።፧၊။។៕]+{_CLOSING}")
"""Full stops that need no space after them."""
_STOP = regex.compile(rf"(?P<stop>[.!?…]+){_CLOSING}(?=\s|$)")
_EMPTY_LINE = regex.compile(r"\n[^\S\n]*(?:\n[^\S\n]*)+")
_LIST_MARKER = regex.compile(r"(?:^|\n)[^\S\n]*(?:\d{1,3}|[A-Za-z]|[ivxIVX]{1,4})\.$")
_LAST_WORD = regex.compile(r"[\p{L}\p{M}.]+\.$")
_NEXT_WORD = regex.compile(r"\s*[\"'“‘«(\[]*(?P<word>[\p{L}\p{M}'’]+|\S)")
_NEVER_LAST = _read_words(
    """
    mr mrs ms dr prof rev hon st mt gen col capt lt sgt sen rep gov pres messrs mme mlle e.g i.e cf vs v viz
    approx ca no nos fig figs eq eqs sec ch chap vol vols p pp ed eds al tab ref refs art nr bzw z.b d.h u.a
    usw vgl hr fr mm sr sra dña p.ej av bd dept est
    """
)
"""Abbreviations that a sentence hardly ends with, in small letters without their last full stop."""
_MAY_BE_LAST = _read_words(
    """
    etc inc ltd co corp llc jr u.s u.k u.n e.u a.m p.m b.c a.d ph.d m.a b.a jan feb mar apr jun jul aug sep
    sept oct nov dec mon tue wed thu fri sat sun
    """
)
"""Abbreviations that a sentence may end with: it does where a typical first word follows."""
_FIRST_WORDS = _read_words(
    """
    a an and as at but by for from he her his how however i if in it its many my no not of on one or our she
    so some such that the their then there these they this those to we what when where which while who why
    with you your
    """
)


def split_sentences(text: str) -> list[tuple[int, int]]:
    """Split a text into sentences; each span begins with its first visible character."""
    ends = [match.end() for match in _WIDE.finditer(text)]
    ends += [match.start() for match in _EMPTY_LINE.finditer(text)]
    ends += [
        match.end()
        for match in _STOP.finditer(text)
        if _ends_sentence(text, match.start("stop"), match.end("stop"), match.end())
    ]
    return _cut(text, ends)


def split_lines(text: str) -> list[tuple[int, int]]:
    """Split a text into lines; empty ones are left out."""
    return _cut(text, [match.start() for match in regex.finditer(r"\r?\n", text)])


def split_paragraphs(text: str) -> list[tuple[int, int]]:
    """Split a text at empty lines."""
    return _cut(text, [match.start() for match in _EMPTY_LINE.finditer(text)])


SPLITTERS: Mapping[str, Callable[[str], list[tuple[int, int]]]] = {
    "sentence": split_sentences,
    "line": split_lines,
    "paragraph": split_paragraphs,
}
"""What a text can be split into without knowing more than its characters."""


def split_text(text: str, unit: str) -> tuple[Segment, ...]:
    """Split a text into sentences, lines or paragraphs, named by their number."""
    spans = SPLITTERS[unit](text)
    return tuple(Segment(f"{unit} {number}", *span) for number, span in enumerate(spans, 1))


def name_spans(text: str, spans: Mapping[str, Any]) -> tuple[Segment, ...]:
    """Read spans of characters that a user names; refuse empty ones, and those outside the text or others."""
    segments = []
    for name, span in spans.items():
        try:
            start, end = (int(each) for each in span)
        except (TypeError, ValueError):
            raise InputError(
                f"The span {name!r} is {span!r}.", "Give two numbers: its first character, and that after it."
            ) from None
        if not 0 <= start <= end <= len(text):
            raise InputError(
                f"The span {name!r} goes from {start} to {end}, the text has {len(text)} characters.",
                f"Give numbers from 0 to {len(text)}.",
            )
        if not text[start:end].strip():
            raise InputError(
                f"The span {name!r}, from {start} to {end}, is empty.",
                "Leave it out, or give a span with visible characters.",
            )
        segments.append(Segment(str(name), start, end))
    if not segments:
        raise InputError("No span is named.", 'Pass spans={"name": (first, last + 1), …}.')
    return require_apart(sorted(segments, key=lambda segment: segment.start))


def require_apart(segments: Sequence[Segment]) -> tuple[Segment, ...]:
    """Refuse segments that overlap or share a name; they come in the order of the text."""
    seen: dict[str, Segment] = {}
    for before, segment in zip([None, *segments], segments, strict=False):
        if segment.name in seen:
            raise InputError(f"Two parts are named {segment.name!r}.", "Give every part its own name.")
        if before is not None and segment.start < before.end:
            raise InputError(
                f"The spans {before.name!r} ({before.start} to {before.end}) and {segment.name!r} "
                f"({segment.start} to {segment.end}) overlap.",
                "Give spans that share no character.",
            )
        seen[segment.name] = segment
    return tuple(segments)


def find_segment(segments: Sequence[Segment], place: int) -> int | None:
    """Find the segment that holds a character, by its index; None where none does."""
    index = bisect_right(segments, place, key=lambda segment: segment.start) - 1
    return index if index >= 0 and place < segments[index].end else None


def _ends_sentence(text: str, start: int, stop: int, after: int) -> bool:
    """Tell whether a full stop, question mark or exclamation mark ends a sentence."""
    following = _NEXT_WORD.match(text, after)
    if following is None:
        return True
    word = following["word"]
    if word[0].islower():
        return False
    if text[start:stop] != ".":
        return True
    before = _LAST_WORD.search(text[max(0, stop - 24) : stop])
    if _LIST_MARKER.search(text[max(0, stop - 8) : stop]):
        return False
    if before is None:
        return True
    last = before[0].rstrip(".").lstrip(".")
    if len(last) == 1 and last.isupper() and last != "I":  # an initial
        return False
    if last.lower() in _NEVER_LAST:
        return False
    return last.lower() not in _MAY_BE_LAST or word.lower() in _FIRST_WORDS


def trim_span(text: str, start: int, end: int) -> tuple[int, int]:
    """Strip spaces at the edges of a span, unless there is nothing else."""
    piece = text[start:end]
    if not piece or not (piece[0].isspace() or piece[-1].isspace()) or piece.isspace():
        return start, end
    return start + len(piece) - len(piece.lstrip()), end - len(piece) + len(piece.rstrip())


def _cut(text: str, ends: Iterable[int]) -> list[tuple[int, int]]:
    """Cut a text at some places, spaces at the edges left out, empty stretches too."""
    spans, reached = [], 0
    for end in [*sorted(set(ends)), len(text)]:
        if text[reached:end].strip():
            spans.append(trim_span(text, reached, end))
        reached = max(reached, end)
    return spans
