"""Several methods for one prediction, and their JSON document."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ..attribute.flow import Flow
from ..attribute.methods import METHODS, measure_of
from ..document.kinds import COMPARISON_SCHEMA, notes_of
from ..ledger import Ledger
from ..tokens import Token, Tokens
from .explanation import Choice, Explanation, Shown, ledger_from, ledger_to_dict, to_numbers

__all__ = ["Comparison", "comparison_from"]


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Shown, Mapping[str, Explanation]):
    """What several methods say of one prediction: an explanation by the name of each."""

    model: str
    tokens: Tokens
    """The context, in order: what the explained token was predicted from."""
    forced: int
    """How many of the last tokens were forced because target and foil begin with them."""
    position: int
    """Index of the token whose next token is explained: the last of `tokens`."""
    target: Choice
    foils: tuple[Choice, ...]
    by_block: Mapping[str, Float[Tensor, "_block token"]]
    """Every method's attribution; float32."""
    ledger: Ledger
    """That of the prediction: the same for all methods."""
    mixing: Float[Tensor, "block token"] | None = None
    """The mixing of the explained position, where one of the methods keeps it."""
    traced: Flow | None = None
    """The whole logit (difference) at every depth, where one of the methods traces it."""

    def __getitem__(self, method: str) -> Explanation:
        return Explanation(
            model=self.model,
            method=method,
            tokens=self.tokens,
            forced=self.forced,
            position=self.position,
            target=self.target,
            foils=self.foils,
            by_block=self.by_block[method],
            ledger=self.ledger,
            mixing=self.mixing if METHODS[method].keeps_mixing else None,
            traced=self.traced if METHODS[method].frozen else None,
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_block)

    def __len__(self) -> int:
        return len(self.by_block)

    def __repr__(self) -> str:
        against = f" not {' | '.join(repr(foil.text) for foil in self.foils)}" if self.foils else ""
        return (
            f"<Comparison: why {self.target.text!r}{against} after {len(self.tokens)} tokens; "
            f"{', '.join(self)} on {self.model}, logit {self.ledger.logit:+.3f}>"
        )

    @property
    def foil(self) -> Choice | None:
        """The (first) foil; all of them are in `foils`."""
        return self.foils[0] if self.foils else None

    def show(self, by: str = "token", top: int | None = None) -> None:
        """Print the terminal view, by token or word; `top`: only so many of them."""
        super().show(by, top)

    def to_dict(self) -> dict[str, Any]:
        """Give the JSON document: the prediction once, and the scores of every method."""
        return {
            "schema": COMPARISON_SCHEMA,
            "model": self.model,
            "text": self.tokens.text,
            "tokens": [asdict(token) for token in self.tokens],
            "forced": self.forced,
            "position": self.position,
            "target": asdict(self.target),
            "foils": [asdict(foil) for foil in self.foils],
            "methods": [
                {
                    "method": method,
                    "measure": asdict(measure_of(method)),
                    "scores": to_numbers(by_block.sum(0)),
                    "by_block": to_numbers(by_block),
                }
                for method, by_block in self.by_block.items()
            ],
            "by_head": to_numbers(self.ledger.by_head.float()),
            "ledger": ledger_to_dict(self.ledger),
            "notes": notes_of(self),
        }


def comparison_from(document: dict[str, Any]) -> Comparison:
    """Make the comparison that a document was made from."""
    return Comparison(
        model=document["model"],
        tokens=Tokens(document["text"], tuple(Token(**token) for token in document["tokens"])),
        forced=document["forced"],
        position=document["position"],
        target=Choice(**document["target"]),
        foils=tuple(Choice(**foil) for foil in document["foils"]),
        by_block={
            each["method"]: torch.tensor(each["by_block"], dtype=torch.float32)
            for each in document["methods"]
        },
        ledger=ledger_from(document),
    )
