"""The explanation of a translation, and its JSON document."""

from dataclasses import asdict, dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ..document.kinds import TRANSLATION_SCHEMA, notes_of
from ..ledger import Ledger
from ..tokens import Token, Tokens
from ..view.sentences import worded
from .explanation import Choice, Shown, ledger_to_dict, to_numbers

__all__ = ["Translation", "read_translation"]


@dataclass(frozen=True, eq=False, repr=False)
class Translation(Shown):
    """How much every token of the source, and of the prefix, changed the logits of a translation."""

    model: str
    method: str
    source: Tokens
    """What the encoder read."""
    target: Tokens
    """From the start token to the end; the prefix of a step is what comes before."""
    first: int
    """Which token of the target is the first that is explained; those before it are forced."""
    choices: tuple[Choice, ...]
    """The tokens that are explained: `target[first:]`."""
    foils: tuple[Choice | None, ...]
    """What each is contrasted with; None: its logit itself is explained."""
    source_by_block: Float[Tensor, "block target source"]
    """The method's attribution to tokens of the source, by decoder block; float32."""
    prefix_by_block: Float[Tensor, "block target prefix"]
    """The same to tokens of the prefix, 0 where one comes later."""
    source_shares: Float[Tensor, " target"] | None
    """How much of each step's last stream came from the source, between 0 and 1; the rest came from the
    prefix. None where the method does not mix (logit)."""
    threshold: float
    """A source share below which a token is flagged."""
    ledgers: tuple[Ledger, ...]
    """One for each token that is explained, proven."""

    def __repr__(self) -> str:
        worst = max(ledger.error for ledger in self.ledgers)
        return (
            f"<Translation: why {self.target.text!r} for {self.source.text!r}; {self.method} on "
            f"{self.model}, {len(self)} tokens, largest error {worst:.0e}>"
        )

    def __len__(self) -> int:
        return len(self.choices)

    @property
    def prefix(self) -> Tokens:
        """What the decoder had read at the last step."""
        return self.target.first(len(self.target) - 1)

    @property
    def scores(self) -> Float[Tensor, "target token"]:
        """One number per explained token and token of source and prefix, in this order."""
        return torch.cat([self.source_by_block.sum(0), self.prefix_by_block.sum(0)], dim=1)

    @property
    def flagged(self) -> list[int]:
        """The explained tokens that may be hallucinated: almost nothing of them came from the source."""
        shares = [] if self.source_shares is None else self.source_shares.tolist()
        tokens = self.target.records[self.first :]
        return [
            place
            for place, (share, token) in enumerate(zip(shares, tokens, strict=False))
            if share < self.threshold and not token.special
        ]

    def show(self, by: str = "word", top: int | None = None, block: int | None = None) -> None:
        """Print the terminal view, by word or token; `top`: so many columns; `block`: of one, from 1."""
        from rich.console import Console

        from ..view.terminal import print_document
        from ..view.translation_grid import at_block

        print_document(at_block(self.to_dict(), block), Console(), by, top)

    @worded
    def to_dict(self) -> dict[str, Any]:
        """Give the JSON document: one matrix of explained tokens × (source | prefix), and the same by block.

        Null stands where a token of the prefix comes later than the step.
        """
        shares = self.source_shares
        return {
            "schema": TRANSLATION_SCHEMA,
            "model": self.model,
            "method": self.method,
            "source": {"text": self.source.text, "tokens": [asdict(token) for token in self.source]},
            "target": {"text": self.target.text, "tokens": [asdict(token) for token in self.target]},
            "first": self.first,
            "choices": [asdict(choice) for choice in self.choices],
            "foils": [None if foil is None else asdict(foil) for foil in self.foils],
            "scores": self._cut(to_numbers(self.scores)),
            "by_block": [
                self._cut(to_numbers(torch.cat(pair, dim=1)))
                for pair in zip(self.source_by_block, self.prefix_by_block, strict=True)
            ],
            "source_shares": None if shares is None else to_numbers(shares),
            "prefix_shares": None if shares is None else to_numbers(1 - shares),
            "threshold": self.threshold,
            "flagged": self.flagged,
            "ledgers": [ledger_to_dict(ledger) for ledger in self.ledgers],
            "notes": notes_of([self.method]),
        }

    def _cut(self, rows: list[list[float | None]]) -> list[list[float | None]]:
        """Put null where a step could not see a token of the prefix."""
        for step, row in enumerate(rows):
            seen = len(self.source) + self.first + step
            row[seen:] = [None] * (len(row) - seen)
        return rows


def read_translation(document: dict[str, Any]) -> Translation:
    """Read the explanation of a translation from its document; heads are not in it."""
    source, target = (
        Tokens(document[side]["text"], tuple(Token(**token) for token in document[side]["tokens"]))
        for side in ("source", "target")
    )
    numbers = [[[number or 0.0 for number in row] for row in block] for block in document["by_block"]]
    by_block = torch.tensor(numbers, dtype=torch.float32)
    shares = document["source_shares"]
    return Translation(
        model=document["model"],
        method=document["method"],
        source=source,
        target=target,
        first=document["first"],
        choices=tuple(Choice(**choice) for choice in document["choices"]),
        foils=tuple(None if foil is None else Choice(**foil) for foil in document["foils"]),
        source_by_block=by_block[..., : len(source)].contiguous(),
        prefix_by_block=by_block[..., len(source) :].contiguous(),
        source_shares=None if shares is None else torch.tensor(shares, dtype=torch.float32),
        threshold=document["threshold"],
        ledgers=tuple(
            _read_ledger(ledger, len(source), document["first"] + step)
            for step, ledger in enumerate(document["ledgers"])
        ),
    )


def _read_ledger(document: dict[str, Any], sources: int, seen: int) -> Ledger:
    entries: dict[str, Any] = {
        key: torch.tensor(value, dtype=torch.float64) if isinstance(value, list) else value
        for key, value in document.items()
    }
    blocks = len(document["mlp"])
    none = torch.zeros(blocks, 0, seen), torch.zeros(blocks, 0, sources)
    return Ledger(by_head=none[0], cross_by_head=none[1], **entries)
