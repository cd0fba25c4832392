"""An explanation, and the JSON document that every view shares."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from ..attribute.flow import Flow, add_flows
from ..attribute.methods import Measure, measure_of
from ..document.kinds import CONTINUATION_SCHEMA, PREDICTION_SCHEMA, SCHEMA, notes_of
from ..ledger import Ledger
from ..tokens import Token, Tokens
from .traced import Traced, flow_from, flow_to_dict

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = [
    "Choice",
    "Continuation",
    "Explanation",
    "Shown",
    "continuation_from",
    "describe_prediction",
    "explanation_from",
    "ledger_from",
    "ledger_to_dict",
    "to_numbers",
]


@dataclass(frozen=True)
class Choice:
    """A token the model could have gone on with."""

    id: int | None
    """None: several tokens together."""
    text: str
    logit: float
    """Before it is capped, where the model caps its logits (Gemma 2)."""
    probability: float
    capped: float | None = None
    """The logit after the cap, which the probability comes from; None where the model has no cap."""


class Shown:
    """What can be looked at: everything that has a document."""

    def to_dict(self) -> dict[str, Any]:
        """Give the JSON document."""
        raise NotImplementedError

    def save(self, path: str | Path, by: str = "block") -> None:
        """Write a file; its ending says what: .json, .html, .tex, .png, .svg or .csv.

        `by`: "head" makes the picture (.png, .svg) that of blocks × heads.
        """
        from ..view.saving import save_documents

        save_documents([self.to_dict()], path, by)

    def show(self, by: str = "block", top: int | None = None) -> None:
        """Print the terminal view, by block, head, token or word; `top`: only so many of them."""
        from rich.console import Console

        from ..view.terminal import print_document

        print_document(self.to_dict(), Console(), by, top)

    def to_dataframe(self) -> "DataFrame":
        """Give a data frame (pandas) with one row per token: the token, its score, its score by block."""
        from ..view.data_frames import make_frame

        return make_frame(self.to_dict())

    def _repr_html_(self) -> str:
        from ..view.html import render_notebook

        return render_notebook(self.to_dict())


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(Shown, Traced):
    """How much every context token raised or lowered one logit, or one difference of logits."""

    model: str
    method: str
    tokens: Tokens
    """The context, in order: what the explained token was predicted from."""
    forced: int
    """How many of the last tokens were forced because target and foil begin with them."""
    position: int
    """Index of the token whose next token is explained: the last of `tokens`."""
    target: Choice
    foils: tuple[Choice, ...]
    by_block: Float[Tensor, "block token"]
    """The method's attribution by block; one row for all blocks where the method has none; float32."""
    ledger: Ledger
    mixing: Float[Tensor, "block token"] | None = None
    """The stream of the explained position as a mix of input tokens, after the attention of every block
    (heuristic); None for methods that do not mix, and in continuations. See `account`."""
    traced: Flow | None = None
    """The whole logit (difference) at every depth, of methods that trace it: see `flow`, `bias`, `routes`."""

    def __repr__(self) -> str:
        against = f" not {' | '.join(repr(foil.text) for foil in self.foils)}" if self.foils else ""
        return (
            f"<Explanation: why {self.target.text!r}{against} after {len(self.tokens)} tokens; "
            f"{self.method} on {self.model}, logit {self.ledger.logit:+.3f}, error {self.ledger.error:.0e}>"
        )

    @property
    def foil(self) -> Choice | None:
        """The (first) foil; all of them are in `foils`."""
        return self.foils[0] if self.foils else None

    @property
    def measure(self) -> Measure:
        """What the scores are: their unit, and whether they add up."""
        return measure_of(self.method)

    @property
    def scores(self) -> Float[Tensor, " token"]:
        """One number per token: the sum of `by_block`."""
        return self.by_block.sum(0)

    @property
    def by_head(self) -> Float[Tensor, "block head token"]:
        """Updates by the position they come from, before mixing; float32."""
        return self.ledger.by_head.float()

    def words(self) -> list[tuple[str, float]]:
        """Give the score of every word: the sum over its tokens."""
        sums: dict[int, float] = {}
        for token, score in zip(self.tokens, self.scores.tolist(), strict=True):
            sums[token.word] = sums.get(token.word, 0.0) + score
        return list(zip(self.tokens.words(), sums.values(), strict=True))

    def to_dict(self) -> dict[str, Any]:
        """Give the JSON document."""
        return {
            "schema": SCHEMA,
            "model": self.model,
            "method": self.method,
            "measure": asdict(self.measure),
            "text": self.tokens.text,
            "tokens": [asdict(token) for token in self.tokens],
            "forced": self.forced,
            "position": self.position,
            "target": asdict(self.target),
            "foils": [asdict(foil) for foil in self.foils],
            "scores": to_numbers(self.scores),
            "by_block": to_numbers(self.by_block),
            "by_head": to_numbers(self.by_head),
            "mixing": None if self.mixing is None else to_numbers(self.mixing),
            "ledger": ledger_to_dict(self.ledger),
            "notes": notes_of([self.method]),
            **({} if self.traced is None else {"flow": flow_to_dict(self.traced)}),
        }


@dataclass(frozen=True)
class Continuation(Shown, Sequence[Explanation]):
    """One explanation per token of a continuation, in order."""

    explanations: tuple[Explanation, ...]

    def __len__(self) -> int:
        return len(self.explanations)

    def __getitem__(self, index: Any) -> Any:
        found = self.explanations[index]
        return Continuation(found) if isinstance(index, slice) else found

    def __iter__(self) -> Iterator[Explanation]:
        return iter(self.explanations)

    @property
    def text(self) -> str:
        """The continuation."""
        return "".join(explanation.target.text for explanation in self.explanations)

    def to_dict(self) -> dict[str, Any]:
        """Give the JSON document: those of all tokens, in order."""
        return {
            "schema": CONTINUATION_SCHEMA,
            "model": self[0].model,
            "method": self[0].method,
            "text": self.text,
            "explanations": [explanation.to_dict() for explanation in self],
        }

    def sum(self) -> Explanation:
        """Add them up: the whole continuation explained, as the sum of its tokens' logits."""
        return reduce(_add, self.explanations)


def describe_prediction(model: str, choices: Sequence[Choice]) -> dict[str, Any]:
    """Give the JSON document of what a model would go on with."""
    return {"schema": PREDICTION_SCHEMA, "model": model, "choices": [asdict(choice) for choice in choices]}


def explanation_from(document: dict[str, Any]) -> Explanation:
    """Make the explanation that a document was made from."""
    return Explanation(
        model=document["model"],
        method=document["method"],
        tokens=Tokens(document["text"], tuple(Token(**token) for token in document["tokens"])),
        forced=document["forced"],
        position=document["position"],
        target=Choice(**document["target"]),
        foils=tuple(Choice(**foil) for foil in document["foils"]),
        by_block=torch.tensor(document["by_block"], dtype=torch.float32),
        ledger=ledger_from(document),
        mixing=None if document.get("mixing") is None else torch.tensor(document["mixing"]),
        traced=None if document.get("flow") is None else flow_from(document["flow"]),
    )


def continuation_from(document: dict[str, Any]) -> Continuation:
    """Make the continuation that a document was made from."""
    return Continuation(tuple(explanation_from(part) for part in document["explanations"]))


def ledger_to_dict(ledger: Ledger) -> dict[str, Any]:
    """Give the entries of a ledger; those by head are elsewhere in a document."""
    entries: dict[str, Any] = {
        "embedding": ledger.embedding,
        "attention": ledger.attention.tolist(),
        "attention_bias": ledger.attention_bias.tolist(),
        "mlp": ledger.mlp.tolist(),
        "norm_bias": ledger.norm_bias,
        "unembedding_bias": ledger.unembedding_bias,
        "total": ledger.total,
        "logit": ledger.logit,
        "error": ledger.error,
    }
    if ledger.cross_attention is not None and ledger.cross_attention_bias is not None:
        entries["cross_attention"] = ledger.cross_attention.tolist()
        entries["cross_attention_bias"] = ledger.cross_attention_bias.tolist()
    return entries


def ledger_from(document: dict[str, Any]) -> Ledger:
    """Make the ledger of a document."""
    entries: dict[str, Any] = {
        key: torch.tensor(value, dtype=torch.float64) if isinstance(value, list) else value
        for key, value in document["ledger"].items()
    }
    return Ledger(by_head=torch.tensor(document["by_head"], dtype=torch.float32), **entries)


def _add(one: Explanation, two: Explanation) -> Explanation:
    """Add two explanations of which the second has the longer context."""
    longer = two.by_block.shape[1] - one.by_block.shape[1]
    pair = (one.ledger, two.ledger)
    ledger = Ledger(
        embedding=sum(each.embedding for each in pair),
        attention=pair[0].attention + pair[1].attention,
        attention_bias=pair[0].attention_bias + pair[1].attention_bias,
        mlp=pair[0].mlp + pair[1].mlp,
        norm_bias=sum(each.norm_bias for each in pair),
        unembedding_bias=sum(each.unembedding_bias for each in pair),
        total=sum(each.total for each in pair),
        logit=sum(each.logit for each in pair),
        error=max(each.error for each in pair),
        by_head=torch.nn.functional.pad(pair[0].by_head, (0, longer)) + pair[1].by_head,
    )
    return Explanation(
        model=one.model,
        method=one.method,
        tokens=two.tokens,
        forced=one.forced,
        position=two.position,
        target=_join(one.target, two.target),
        foils=tuple(_join(*pair) for pair in zip(one.foils, two.foils, strict=True)),
        by_block=torch.nn.functional.pad(one.by_block, (0, longer)) + two.by_block,
        ledger=ledger,
        traced=None if one.traced is None or two.traced is None else add_flows(one.traced, two.traced),
    )


def _join(one: Choice, two: Choice) -> Choice:
    """Join the choices of consecutive tokens: logits add up, probabilities multiply."""
    capped = None if one.capped is None or two.capped is None else one.capped + two.capped
    return Choice(None, one.text + two.text, one.logit + two.logit, one.probability * two.probability, capped)


def to_numbers(tensor: Tensor) -> list[Any]:
    """Write float32 numbers with the few digits that give them back exactly."""
    if tensor.ndim > 1:
        return [to_numbers(row) for row in tensor]
    return [float(f"{number:.9g}") for number in tensor.tolist()]
