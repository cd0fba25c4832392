"""From scores to links: words that are each other's best, then unlinked words, strongest first.

share of both sides:   e = √(score's share of its row × its share of its column)     positive scores, 0 … 1
best:                  every word of the translation, with its largest score
mutual:                words with the largest e of their row and of their column
recall r:              then also pairs with e > 1 − r of which one word has no mutual link
null n:                no link with e < n: such a word has no counterpart
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ..errors import InputError
from .links import Link

__all__ = [
    "CHOICES",
    "LINKING",
    "NULL",
    "RECALL",
    "Linking",
    "climb_recall",
    "find_mutual",
    "link_words",
    "read_linking",
    "share_both_sides",
]

CHOICES = ("mutual", "best")
"""Which links are made: of words that are each other's best (and more, by recall), or of every word of a
translation."""
RECALL = 0.6
"""The default of `recall`: chosen on the even lines of 450 Chinese–English pairs (docs/alignment.md)."""
NULL = 0.2
"""The default of `null`: of mutual links below it, fewer than a third are right."""


@dataclass(frozen=True)
class Linking:
    """How links are chosen."""

    choice: str = "mutual"
    """One of CHOICES."""
    recall: float = RECALL
    """0: mutual links alone; 1: every pair with an unlinked word and any evidence."""
    null: float = NULL
    """Pairs with less evidence are not linked; not for `best`, which links every word."""

    def __str__(self) -> str:
        return self.choice if self.choice == "best" else f"mutual links, recall {self.recall:g}"


LINKING = Linking()
"""The default."""


def read_linking(choice: str = "mutual", recall: float | None = None, null: float | None = None) -> Linking:
    """Read how links are chosen; refuse what is not between 0 and 1, or does not fit the choice."""
    if choice not in CHOICES:
        raise InputError(f"links is {choice!r}.", f"Links: {', '.join(CHOICES)}.")
    for name, value in (("recall", recall), ("null", null)):
        if value is not None and choice == "best":
            raise InputError(
                f"{name} is {value}, but best links link every word.",
                f"Leave {name} out, or use mutual links.",
            )
        if value is not None and not 0 <= value <= 1:
            raise InputError(f"{name} is {value}.", "Give a number between 0 and 1.")
    return Linking(choice, RECALL if recall is None else float(recall), NULL if null is None else float(null))


def share_both_sides(scores: Float[Tensor, "target source"]) -> Float[Tensor, "target source"]:
    """Return the geometric mean of a score's shares of its row and of its column; of positive scores only."""
    kept = scores.clamp(min=0)
    tiny = torch.finfo(kept.dtype).tiny
    rows = kept / kept.sum(1, keepdim=True).clamp(min=tiny)
    return (rows * (kept / kept.sum(0, keepdim=True).clamp(min=tiny))).sqrt()


def link_words(
    scores: Float[Tensor, "target source"],
    evidence: Float[Tensor, "target source"],
    written: tuple[Bool[Tensor, " target"], Bool[Tensor, " source"]],
    linking: Linking,
) -> tuple[Link, ...]:
    """Link words of a source (first) and of its translation.

    `evidence`: shares of both sides, 0 to 1. `written`: the words that tokens stand for; others have no link.
    """
    targets, sources = written
    if not sources.any() or not targets.any():
        return ()
    if linking.choice == "best":
        best = scores.masked_fill(~sources, -torch.inf).argmax(1).tolist()
        return tuple(sorted((own, place) for place, own in enumerate(best) if targets[place]))
    kept = evidence * (targets[:, None] & sources)
    mutual = find_mutual(kept)
    free = ~mutual.any(1)[:, None] | ~mutual.any(0)
    chosen = mutual | (free & (kept > 1 - linking.recall))
    rows, columns = (chosen & (kept >= linking.null)).nonzero(as_tuple=True)
    return tuple(sorted(zip(columns.tolist(), rows.tolist(), strict=True)))


def climb_recall(evidence: Float[Tensor, "target source"], null: float) -> list[tuple[Link, float]]:
    """List all links of mutual words and of higher recalls, each with the recall from which on it is made."""
    if evidence.numel() == 0:
        return []
    kept = evidence.clamp(min=0)
    mutual = find_mutual(kept)
    free = ~mutual.any(1)[:, None] | ~mutual.any(0)
    rows, columns = ((mutual | free) & (kept > 0) & (kept >= null)).nonzero(as_tuple=True)
    least = (1 - kept.double()).masked_fill(mutual, 0.0)[rows, columns].tolist()
    return sorted(zip(zip(columns.tolist(), rows.tolist(), strict=True), least, strict=True))


def find_mutual(kept: Float[Tensor, "target source"]) -> Bool[Tensor, "target source"]:
    """Mark the words that are each other's best; of equals the first."""
    rows, columns = torch.zeros_like(kept, dtype=torch.bool), torch.zeros_like(kept, dtype=torch.bool)
    rows.scatter_(1, kept.argmax(1, keepdim=True), True)
    columns.scatter_(0, kept.argmax(0, keepdim=True), True)
    return rows & columns & (kept > 0)
