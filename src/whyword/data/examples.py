"""Examples: a prefix, the word that follows, one that would be wrong, and the words that decide."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

__all__ = ["Dataset", "Example", "Skipped", "Span", "Spans", "hash_examples"]

Span = tuple[int, int]
"""Start and end in the prefix, in characters, without spaces at the edges."""
Spans = tuple[Span, ...]


@dataclass(frozen=True)
class Example:
    """One minimal pair, cut before the word in which its two sentences differ."""

    dataset: str
    """Short name of its dataset: "aga", "sva-2", "ioi", "builtin-aga"."""
    row: int
    """Its row in the file, counted from 0."""
    prefix: str
    target: str
    """The grammatical continuation."""
    foil: str
    """The ungrammatical continuation."""
    word: Spans = ()
    """Evidence as a word (column `target` of the published files); empty where it is not known."""
    phrase: Spans = ()
    """Evidence as a phrase (column `target_phrase`); empty where there is none."""
    columns: Mapping[str, str] = field(default_factory=dict, hash=False)
    """All columns of its row, to split a dataset by."""
    parts: Spans = ()
    """Documents or turns that are ranked instead of tokens, where there are any: one of them is evidence."""

    def evidence_text(self) -> str:
        """Return the evidence word as it stands in the prefix."""
        return " … ".join(self.prefix[start:end] for start, end in self.word)


@dataclass(frozen=True)
class Skipped:
    """A row that cannot be used, and why."""

    dataset: str
    row: int
    reason: str


@dataclass(frozen=True)
class Dataset:
    """The examples of one dataset, the rows that were skipped, and where they came from."""

    name: str
    """Its short name."""
    title: str
    group: str
    """BLiMP, SVA, IOI or builtin: the group that means are taken over."""
    phenomenon: str
    """Which rule finds its evidence in a parse: see `PHENOMENA`."""
    examples: tuple[Example, ...]
    skipped: tuple[Skipped, ...]
    hash: str
    """SHA-256 of the source: a file's bytes, or the rows where there is no file."""
    source: str
    """Where it came from: a path, a name on the hub, or the seed of the built-in suite."""

    def __len__(self) -> int:
        return len(self.examples)

    @property
    def has_evidence(self) -> bool:
        """Whether any example says which words decide."""
        return any(example.word or example.phrase for example in self.examples)

    @property
    def ranks_parts(self) -> bool:
        """Whether documents or turns are ranked instead of tokens."""
        return any(example.parts for example in self.examples)

    def first(self, count: int) -> "Dataset":
        """Return the dataset cut to its first rows; skipped rows count."""
        used, unused = {example.row for example in self.examples}, {skipped.row for skipped in self.skipped}
        kept = frozenset(sorted(used | unused)[:count])
        return replace(
            self,
            examples=tuple(example for example in self.examples if example.row in kept),
            skipped=tuple(skipped for skipped in self.skipped if skipped.row in kept),
        )


def hash_examples(examples: Iterable[Example]) -> str:
    """Return the SHA-256 of examples that come from no file."""
    rows = [[each.prefix, each.target, each.foil, each.word, each.phrase] for each in examples]
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()
