"""Tokens: ids with the text they stand for, by character offsets.

Words are found in the text and tokens are matched to them by where they start and end, never by the marker
characters of a tokenizer. Spaces at the edge of a token are not part of its span.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import regex

from .segments import Segment, find_segment, trim_span

__all__ = ["AS_GIVEN", "SEPARATOR", "Place", "StartRecord", "Token", "Tokens", "join_word", "spell"]

AS_GIVEN = "as given"
"""How the start of token ids and chat turns was chosen: they are read as they are."""

SEPARATOR = regex.compile(
    r"sep|bos|eos|(begin|start|end).?of.?(text|sentence|doc)|^</?s>$", flags=regex.IGNORECASE
)
"""Found in the names of special tokens that separate texts."""
_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
"""Scripts written without spaces between words."""
_LETTER = rf"[[\w\p{{M}}\u200c\u200d]--[{_UNSPACED}]]"
_WORD = regex.compile(rf"[{_UNSPACED}]\p{{M}}*|{_LETTER}+(?:['’\-]{_LETTER}+)*|(?!\s)\X", flags=regex.V1)
"""A character of an unspaced script, letters and digits with their marks, or any other visible character."""
_OPENING = regex.compile(r"[(\[{“‘«¿¡/$#@_]$|(?<!\S)[\"']$|(?<=\S)[-–—]$")
"""What no space follows: opening brackets and quotes, signs before a word, hyphens inside one."""


@dataclass(frozen=True)
class Token:
    """One token of a prompt."""

    id: int
    """Its id in the vocabulary."""
    text: str
    """The text it stands for, with the spaces that belong to it; the token's name for a special token."""
    start: int
    """Where its text starts in the prompt, leading spaces left out."""
    end: int
    """Where its text ends."""
    word: int
    """Index of the word it is part of."""
    special: bool
    """Whether it marks structure rather than text: BOS, chat markers."""
    role: str | None = None
    """Who speaks in its chat turn; None outside chats, and for what the template adds of its own."""
    turn: int | None = None
    """Index of its chat turn."""
    part: str | None = None
    """Name of the part of the prompt that it is in; None where that has no name."""

    @property
    def place(self) -> "Place":
        """Where in the prompt it is."""
        return Place(self.role, self.turn, self.part)


@dataclass(frozen=True)
class Place:
    """Where in a prompt a token is: in which turn, and in which part."""

    role: str | None = None
    turn: int | None = None
    part: str | None = None


@dataclass(frozen=True)
class StartRecord:
    """The start of text: special tokens before everything else."""

    tokens: int
    """How many there are; 0: the first word is the first token."""
    text: str
    """Their names."""
    chosen: str
    """Why these. tokenizer: it adds them itself; found: by the model's own likelihood of plain sentences;
    none found: no special token makes them likelier; given: by --start; as given: token ids, chat turns."""
    score: float | None = None
    """Their score: the model's expectation before it read anything. Only of explanations."""


@dataclass(frozen=True)
class Tokens:
    """A prompt as the model reads it."""

    text: str
    records: tuple[Token, ...]
    chosen: str = field(default=AS_GIVEN, compare=False)
    """How what stands before the text was chosen: see `ask.start_of_text.Start`."""

    @property
    def start(self) -> int:
        """How many special tokens stand before everything else: the start of text.

        Of token ids and chat turns, the first at most: what follows it is part of the prompt.
        """
        most = 1 if self.chosen == AS_GIVEN else len(self)
        first = self.records[:most]
        return next((place for place, token in enumerate(first) if not token.special), len(first))

    def describe_start(self) -> StartRecord:
        """Give what documents say of the start of text."""
        names = "".join(token.text for token in self.records[: self.start])
        return StartRecord(self.start, names, self.chosen)

    @property
    def ids(self) -> list[int]:
        """The token ids."""
        return [token.id for token in self.records]

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[Token]:
        return iter(self.records)

    def __getitem__(self, index: int) -> Token:
        return self.records[index]

    def first(self, count: int) -> "Tokens":
        """Return the first tokens of a prompt with its whole text, so that offsets stay valid."""
        return replace(self, records=self.records[:count])

    def last(self, count: int) -> "Tokens":
        """Return the last tokens of a prompt, with words renumbered."""
        kept = self.records[len(self) - count :]
        names = [token.text if token.special else None for token in kept]
        spelt = spell(self.text, [t.id for t in kept], [(t.start, t.end) for t in kept], names)
        return spelt.place(token.place for token in kept)

    def place(self, places: "Iterable[Place]") -> "Tokens":
        """Return the tokens with their places in the prompt, from the first on."""
        placed = tuple(
            token
            if (token.role, token.turn, token.part) == (own.role, own.turn, own.part)
            else replace(token, role=own.role, turn=own.turn, part=own.part)
            for token, own in zip(self.records, places, strict=False)
        )
        return replace(self, records=(*placed, *self.records[len(placed) :]))

    def begin(self, ids: Sequence[int], names: Sequence[str]) -> "Tokens":
        """Return the tokens after special ones that stand for no character of the text."""
        count = len(ids)
        front = (Token(*each, 0, 0, word, True) for word, each in enumerate(zip(ids, names, strict=True)))
        moved = (
            Token(t.id, t.text, t.start, t.end, t.word + count, t.special, t.role, t.turn, t.part)
            for t in self.records
        )
        return replace(self, records=(*front, *moved))

    def divide(self, turns: Sequence[Segment], parts: Sequence[Segment]) -> "Tokens":
        """Return the tokens with their places: a token is where its first visible character is."""
        return self.place(_place(token, turns, parts) for token in self.records)

    def words(self) -> list[str]:
        """Return the text of every word that has a token."""
        texts: list[str] = []
        by_word: dict[int, list[Token]] = {}
        for token in self.records:
            by_word.setdefault(token.word, []).append(token)
        for own in by_word.values():
            start, end = own[0].start, max(token.end for token in own)
            text = self.text[start:end]
            texts.append(own[0].text if own[0].special else text.strip() or text)
        return texts


def spell(
    text: str, ids: Sequence[int], spans: Sequence[tuple[int, int]], special: Sequence[str | None]
) -> Tokens:
    """Make tokens from ids and the spans of text they stand for.

    `special` holds the name of each special token, and None for the others.
    """
    words = [match.span() for match in _WORD.finditer(text)]
    starts, ends = [start for start, _ in words], [end for _, end in words]
    records: list[Token] = []
    word, last, reached = -1, None, 0
    for id_, (start, end), name in zip(ids, spans, special, strict=True):
        trimmed = trim_span(text, start, end)
        found = None if name is not None else _word_at(text, starts, ends, *trimmed)
        if found is None or found != last:
            word += 1
        last = found
        begin = reached if reached < start and text[reached:start].isspace() else start
        records.append(
            Token(id_, text[begin:end] if name is None else name, *trimmed, word, name is not None)
        )
        if end > reached:
            reached = end
    return Tokens(text, tuple(records))


def join_word(text: str, word: str) -> str:
    """Return a word as it is written after a text: with a space before it, unless there should be none.

    " has" and "has" mean the same; punctuation and scripts without spaces follow directly; other leading
    whitespace (an indent, a line break) stays as it is.
    """
    bare = word.removeprefix(" ")
    if not bare.strip(" "):
        return ""
    if bare[0].isspace():
        return word
    if not text or text[-1].isspace() or _OPENING.search(text):
        return bare
    follows = bare == word and (not bare[0].isalnum() or regex.match(f"[{_UNSPACED}]", bare))
    return bare if follows else " " + bare


def _place(token: Token, turns: Sequence[Segment], parts: Sequence[Segment]) -> Place:
    """Find where a token is; a special token that stands for no text is nowhere."""
    if token.special and token.start == token.end:
        return Place()
    turn, part = find_segment(turns, token.start), find_segment(parts, token.start)
    return Place(None if turn is None else turns[turn].name, turn, None if part is None else parts[part].name)


def _word_at(text: str, starts: Sequence[int], ends: Sequence[int], start: int, end: int) -> int | None:
    """Find the first word that shares a character with a span; spaces belong to the word after them.

    `starts`, `ends`: where the words of the text do.
    """
    index = bisect_right(ends, start)
    if index == len(ends):
        return None
    first = starts[index]
    return index if first < end or not text[start:first].strip(" ") else None
