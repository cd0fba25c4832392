"""Which group an example belongs to: by words in its prefix, or by a column of its dataset."""

from collections.abc import Sequence
from dataclasses import dataclass

import regex

from ..data import Example
from ..errors import InputError

__all__ = ["ALL", "OTHER", "Split", "read_split"]

ALL = "all"
OTHER = "other"
_MOST = 12
"""Most groups that a column may have."""


@dataclass(frozen=True)
class Split:
    """How examples are divided."""

    words: tuple[tuple[str, ...], ...] = ()
    """The words of each group; the last one that occurs in a prefix decides."""
    column: str | None = None

    def name(self, example: Example) -> str:
        """Name the group of an example."""
        if self.column is not None:
            return self._read_column(example)
        if not self.words:
            return ALL
        last, found = -1, OTHER
        for group in self.words:
            for word in group:
                pattern = rf"(?<!\w){regex.escape(word)}(?!\w)"
                for match in regex.finditer(pattern, example.prefix, flags=regex.IGNORECASE):
                    if match.start() > last:
                        last, found = match.start(), ",".join(group)
        return found

    def order(self, names: Sequence[str]) -> list[str]:
        """Sort the names of groups: in the requested order, or alphabetically."""
        asked = [",".join(group) for group in self.words]
        return sorted(
            names, key=lambda name: (name == OTHER, asked.index(name) if name in asked else 0, name)
        )

    def require_few(self, names: Sequence[str]) -> None:
        """Refuse a column that divides examples into too many groups."""
        if len(names) > _MOST:
            raise InputError(
                f"The column {self.column!r} has more than {_MOST} values: {', '.join(sorted(names)[:4])}, …",
                "Split by a column with few values, or by words: this,that|these,those.",
            )

    def _read_column(self, example: Example) -> str:
        column = self.column or ""
        if column not in example.columns:
            known = ", ".join(sorted(example.columns)) or "none"
            raise InputError(
                f"{example.dataset} has no column {column!r}.",
                f"It has {known}. Groups of words are written with |: this,that|these,those.",
            )
        return example.columns[column] or OTHER


def read_split(text: str | None) -> Split:
    """Read a split: "this,that|these,those" are the words of two groups, "number" is a column."""
    if text is None:
        return Split()
    if "|" not in text:
        return Split(column=text.strip())
    words = tuple(tuple(word.strip() for word in part.split(",") if word.strip()) for part in text.split("|"))
    if not all(words):
        raise InputError(f"The split {text!r} has a group without words.", "Write this,that|these,those.")
    return Split(words=words)
