"""Examples: a prefix, the word that follows, one that would be wrong, and the words that decide."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

__all__ = ["Dataset", "Example", "Skipped", "Span", "Spans"]

Span = tuple[int, int]
"""Where something starts and ends in the prefix, in characters; no spaces at its edges."""
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
    """The word that grammar asks for."""
    foil: str
    """The word that would be wrong."""
    word: Spans = ()
    """Evidence as a word (column `target` of the published files); empty where it is not known."""
    phrase: Spans = ()
    """Evidence as a phrase (column `target_phrase`); empty where there is none."""
    columns: Mapping[str, str] = field(default_factory=dict, hash=False)
    """All columns of its row, to split a dataset by."""

    def evidence_text(self) -> str:
        """Give the evidence word as it stands in the prefix."""
        return " … ".join(self.prefix[start:end] for start, end in self.word)


@dataclass(frozen=True)
class Skipped:
    """A row that cannot be used, and why."""

    dataset: str
    row: int
    reason: str


@dataclass(frozen=True)
class Dataset:
    """The examples of one dataset, what had to be left out, and where it all came from."""

    name: str
    """Its short name."""
    title: str
    group: str
    """BLiMP, SVA, IOI or builtin: what means are taken over."""
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

    def first(self, count: int) -> "Dataset":
        """Give what is among the first rows, rows that were skipped counted with the others."""
        used, unused = {example.row for example in self.examples}, {skipped.row for skipped in self.skipped}
        kept = frozenset(sorted(used | unused)[:count])
        return replace(
            self,
            examples=tuple(example for example in self.examples if example.row in kept),
            skipped=tuple(skipped for skipped in self.skipped if skipped.row in kept),
        )
