"""Links between words, and the files they are kept in: talp, pharaoh, naacl.

talp:     one line per sentence, `1-1 2-3 4p5`: a dash for a sure link, p for a possible one
pharaoh:  the same without possible links
naacl:    one line per link, `18 1 2 S`: sentence, word of the source, word of the translation, S or P

Files count words from 0 or from 1 and do not say which. A file with an index 0 counts from 0; another may
count from either, and is read as counting from 1 unless told otherwise.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import InputError

__all__ = [
    "FORMATS",
    "Link",
    "LinkFile",
    "Links",
    "parse_links",
    "read_links",
    "require_inside",
    "require_parallel",
    "write_links",
]

Link = tuple[int, int]
"""A word of the source and a word of the translation, counted from 0."""

FORMATS = ("talp", "pharaoh", "naacl")
_MOST_WORDS = 100_000
"""The largest number of a word in a sentence."""
_MOST_SENTENCES = 1_000_000
"""The largest number of a sentence in a naacl file, unless it has many lines."""
_MOST_DIGITS = 18
_TALP = re.compile(r"(\d+)([-p])(\d+)")
_NAACL = re.compile(r"(\d+)\s+(\d+)\s+(\d+)(?:\s+([SP]))?(?:\s+[0-9.eE+-]+)?")


@dataclass(frozen=True)
class Links:
    """The links of one sentence."""

    sure: frozenset[Link] = frozenset()
    possible: frozenset[Link] = frozenset()
    """Links that are allowed but not required; sure links are always possible and need not be listed."""

    @property
    def allowed(self) -> frozenset[Link]:
        """Sure and possible links."""
        return self.sure | self.possible


@dataclass(frozen=True)
class LinkFile:
    """The content of a file of links."""

    sentences: tuple[Links, ...]
    lines: tuple[int, ...]
    """The line of each sentence, counted from 1; 0: it has none."""
    form: str
    """One of `FORMATS`."""
    base: int
    """What it counts words from, 0 or 1."""
    assumed: bool
    """Whether the base was inferred from its indices."""

    @property
    def open(self) -> bool:
        """Whether its words may count from 0 or from 1: it has no index 0, and no base was given."""
        return self.assumed and self.base == 1

    def count_from_zero(self) -> "LinkFile":
        """Read a file that may count from either as counting from 0."""
        moved = tuple(
            Links(_count_from(-1, each.sure), _count_from(-1, each.possible)) for each in self.sentences
        )
        return replace(self, sentences=moved, base=0)

    def first(self, count: int) -> "LinkFile":
        """Return the first sentences."""
        return replace(self, sentences=self.sentences[:count], lines=self.lines[:count])


def read_links(path: str | Path, form: str | None = None, base: int | None = None) -> LinkFile:
    """Read a file of links; format and base are inferred where they are None."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {error}.", "Pass a file of word alignments.") from None
    return parse_links(text, str(path), form, base)


def parse_links(text: str, name: str, form: str | None = None, base: int | None = None) -> LinkFile:
    """Read links from text; `name` is its name in messages."""
    if form not in (None, *FORMATS):
        raise InputError(f"There is no alignment format {form!r}.", f"Formats: {', '.join(FORMATS)}.")
    if base not in (None, 0, 1):
        raise InputError(f"base is {base}.", "Words are counted from 0 or from 1.")
    lines = text.split("\n")
    lines = [line.strip() for line in (lines[:-1] if lines[-1] == "" else lines)]
    found = form or _find_format(lines)
    read = _read_naacl(lines, name) if found == "naacl" else _read_talp(lines, name, found)
    indices = [index for _, sure, possible in read for link in (*sure, *possible) for index in link]
    start = base if base is not None else 0 if 0 in indices else 1
    if start == 1 and 0 in indices:
        raise InputError(f"{name} has an index 0, but words are counted from 1.", "Use base 0.")
    none = Links()
    return LinkFile(
        tuple(
            Links(_count_from(start, sure), _count_from(start, possible)) if line else none
            for line, sure, possible in read
        ),
        tuple(line for line, _, _ in read),
        found,
        start,
        base is None,
    )


def write_links(sentences: Iterable[Links], form: str = "pharaoh", base: int | None = None) -> str:
    """Write links as text; words count from 0 in pharaoh, from 1 in the others; `base` overrides that."""
    if form not in FORMATS:
        raise InputError(f"There is no alignment format {form!r}.", f"Formats: {', '.join(FORMATS)}.")
    start = (0 if form == "pharaoh" else 1) if base is None else base
    written = []
    for number, links in enumerate(sentences, 1):
        chosen = links.sure if form == "pharaoh" else links.allowed
        each = [
            (source + start, target + start, (source, target) in links.sure)
            for source, target in sorted(chosen)
        ]
        if form == "naacl":
            written += [f"{number} {source} {target} {'S' if sure else 'P'}" for source, target, sure in each]
        else:
            written.append(
                " ".join(f"{source}{'-' if sure else 'p'}{target}" for source, target, sure in each)
            )
    return "".join(f"{line}\n" for line in written)


def require_inside(found: LinkFile, sizes: Sequence[tuple[int, int]], name: str) -> None:
    """Refuse links outside their sentences; `sizes`: words of source and translation."""
    require_parallel(found, name, len(sizes))
    for links, line, size in zip(found.sentences, found.lines, sizes, strict=False):
        for source, target in sorted(links.allowed):
            if source >= size[0] or target >= size[1]:
                raise InputError(
                    f"{name}, line {line}: the link {source + found.base}-{target + found.base} is outside "
                    f"the sentence, which has {size[0]} source and {size[1]} target words.",
                    f"Links count words from {found.base} here; check the base, the direction and the line.",
                )


def require_parallel(found: LinkFile, name: str, sentences: int) -> None:
    """Refuse a file with another number of sentences; naacl files do not list sentences without links."""
    own = len(found.sentences)
    if own > sentences or (own < sentences and found.form != "naacl"):
        raise InputError(
            f"{name} has {own} sentences, but the other files have {sentences}.",
            "Pass files that are parallel line by line; a sentence without links is an empty line.",
        )


_Read = list[tuple[int, list[Link], list[Link]]]


def _find_format(lines: Sequence[str]) -> str:
    full = [line for line in lines if line]
    if full and all(_NAACL.fullmatch(line) for line in full):
        return "naacl"
    return "talp" if any("p" in line for line in full) else "pharaoh"


def _read_talp(lines: Sequence[str], name: str, form: str) -> _Read:
    read: _Read = []
    for number, line in enumerate(lines, 1):
        sure: list[Link] = []
        possible: list[Link] = []
        for written in line.split():
            link = _TALP.fullmatch(written)
            if link is None or (form == "pharaoh" and link[2] == "p"):
                raise InputError(
                    f"{name}, line {number}: {written[:40]!r} is not a link of a {form} file.",
                    "Links look like 3-4" + (", possible ones like 3p4." if form == "talp" else "."),
                )
            pair = _read_number(link[1], name, number), _read_number(link[3], name, number)
            (sure if link[2] == "-" else possible).append(pair)
        read.append((number, sure, possible))
    return read


def _read_naacl(lines: Sequence[str], name: str) -> _Read:
    links = []
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        link = _NAACL.fullmatch(line)
        if link is None:
            raise InputError(
                f"{name}, line {number}: {line[:40]!r} is not a link of a naacl file.",
                "Links look like 18 1 2 S: sentence, source word, target word, S or P.",
            )
        sentence = _read_number(link[1], name, number, max(_MOST_SENTENCES, 10 * len(lines)))
        pair = _read_number(link[2], name, number), _read_number(link[3], name, number)
        links.append((number, sentence, pair, link[4] != "P"))
    first = 0 if any(sentence == 0 for _, sentence, _, _ in links) else 1
    count = max((sentence for _, sentence, _, _ in links), default=first - 1) - first + 1
    read: _Read = [(0, [], [])] * count  # sentences without links share one entry
    for number, sentence, link_, is_sure in links:
        if not read[sentence - first][0]:
            read[sentence - first] = (number, [], [])
        _, sure, possible = read[sentence - first]
        (sure if is_sure else possible).append(link_)
    return read


def _read_number(digits: str, name: str, line: int, most: int = _MOST_WORDS) -> int:
    """Read the number of a word or a sentence; refuse one that no file can have."""
    if len(digits) <= _MOST_DIGITS and int(digits) <= most:
        return int(digits)
    raise InputError(
        f"{name}, line {line}: the number {digits[:20]}{'…' if len(digits) > 20 else ''} is too large.",
        f"Words and sentences are counted from 0 or from 1, here up to {most:,}.",
    )


def _count_from(start: int, links: Iterable[Link]) -> frozenset[Link]:
    return frozenset((source - start, target - start) for source, target in links)
