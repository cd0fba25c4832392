"""An explanation of one prediction, one of a whole continuation, and their JSON documents."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from typing import Annotated, Any, ClassVar

import torch
from annotated_types import MinLen
from jaxtyping import Float
from torch import Tensor

from ..attribute.flow import Flow, add_flows
from ..attribute.methods import Measure, measure_of
from ..document.kinds import CONTINUATION_SCHEMA, SCHEMA
from ..document.notes import notes_of
from ..document.numbers import inside, misfit, read_tensor, require_length, to_numbers
from ..ledger import Ledger
from ..view.sentences import worded
from .explained_prediction import ExplainedPrediction, Numbers, PredictionRecord, read_prediction
from .prediction import Choice
from .prompt_parts import Divisible
from .shown import Shown
from .traced import FlowRecord, Traced, flow_to_dict, read_flow

__all__ = [
    "AccountRecord",
    "Continuation",
    "ContinuationDocument",
    "Explanation",
    "ExplanationDocument",
    "read_rows",
]


@dataclass(frozen=True, kw_only=True)
class AccountRecord:
    """The full account: MLPs and the embedding on tokens too (heuristic)."""

    attention: Numbers
    """The explanation's scores, by token."""
    mlp: Numbers
    """What all MLPs add, divided by the mixing of the explained position, by token."""
    embedding: Numbers
    """What the embedding adds, by token: at the explained position alone."""
    scores: Numbers
    """The sum of the three, by token."""
    biases: float
    """What is on no token: biases of projections, norms and the unembedding."""
    logit: float
    """The model's own logit, or difference."""
    note: str
    """What is heuristic in it."""


@dataclass(frozen=True, kw_only=True)
class ExplanationDocument(PredictionRecord):
    """How much every context token raised or lowered one logit, or one difference of logits."""

    method: str
    """The name of the method."""
    measure: Measure | None = None
    """What the scores are."""
    scores: Numbers
    """One number per token: the sum of `by_block`."""
    by_block: Annotated[list[Numbers], MinLen(1)]
    """The method's attribution, by block and token; one row where the method has no blocks."""
    by_head: list[list[Numbers]]
    """Updates before mixing, by block, head and the position they come from."""
    mixing: list[Numbers] | None = None
    """The explained position as a mix of input tokens, by block and token (heuristic)."""
    account: AccountRecord | None = None
    """The full account, where it was asked for."""
    flow: FlowRecord | None = None
    """The logit (difference) at every depth, where the method traces it."""


@dataclass(frozen=True, kw_only=True)
class ContinuationDocument:
    """Every token of a continuation, explained by what it could see."""

    model: str
    """The model's name."""
    method: str
    """The name of the method."""
    text: str
    """The continuation."""
    explanations: Annotated[tuple[ExplanationDocument, ...], MinLen(1)]
    """Documents of explanations, one per token, in order."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Explanation(ExplainedPrediction, Traced, Divisible):
    """How much every context token raised or lowered one logit, or one difference of logits."""

    schema: ClassVar[str] = SCHEMA
    method: str
    by_block: Float[Tensor, "block token"]
    """The method's attribution by block; one row for all blocks where the method has none; float32."""
    mixing: Float[Tensor, "block token"] | None = None
    """The stream of the explained position as a mix of input tokens, after the attention of every block
    (heuristic); None for methods that do not mix, and in continuations. See `account`."""
    traced: Flow | None = None
    """The logit (difference) at every depth, of methods that trace it: see `flow`, `bias`, `routes`."""
    accounted: AccountRecord | None = None
    """The full account as it stands in the document that this was read from, where there is one."""

    def __repr__(self) -> str:
        return (
            f"<Explanation: {self._ask()}; {self.method} on {self.model}, "
            f"logit {self.ledger.logit:+.3f}, error {self.ledger.error:.0e}>"
        )

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
        """Give the score of every word: the sum over its tokens; before them that of the start, "start"."""
        first, scores, sums = self.tokens.start, self.scores.tolist(), dict[int, float]()
        for token, score in list(zip(self.tokens, scores, strict=True))[first:]:
            sums[token.word] = sums.get(token.word, 0.0) + score
        words = zip(self.tokens.words()[len(self.tokens.words()) - len(sums) :], sums.values(), strict=True)
        return [*([("start", sum(scores[:first]))] if first else []), *words]

    @property
    def start(self) -> float:
        """The score of the start of text: what the model expects before it read anything; 0 without one."""
        return float(self.scores[: self.tokens.start].sum())

    @worded
    def to_dict(self) -> dict[str, Any]:
        """Give the JSON document."""
        described = self._describe()
        return {
            **described,
            "start": {**described["start"], "score": self.start},
            "method": self.method,
            "measure": asdict(self.measure),
            "scores": to_numbers(self.scores),
            "by_block": to_numbers(self.by_block),
            "by_head": to_numbers(self.by_head),
            "mixing": None if self.mixing is None else to_numbers(self.mixing),
            **({} if self.accounted is None else {"account": asdict(self.accounted)}),
            **({} if self.traced is None else {"flow": flow_to_dict(self.traced)}),
            "notes": notes_of([self.method]),
        }

    @classmethod
    def _from_declared(cls, declared: ExplanationDocument) -> "Explanation":
        blocks, seen = len(declared.ledger.mlp), len(declared.tokens)
        require_length("scores", declared.scores, seen)
        for name in ("attention", "mlp", "embedding", "scores") if declared.account else ():
            require_length(f"account.{name}", getattr(declared.account, name), seen)
        return cls(
            **read_prediction(declared, declared.by_head),
            method=declared.method,
            by_block=read_rows("by_block", declared.by_block, blocks, seen),
            mixing=None
            if declared.mixing is None
            else read_tensor("mixing", declared.mixing, (blocks, seen)),
            accounted=declared.account,
            traced=None if declared.flow is None else read_flow(declared.flow, blocks, seen),
        )


@dataclass(frozen=True)
class Continuation(Shown, Sequence[Explanation]):
    """One explanation per token of a continuation, in order."""

    schema: ClassVar[str] = CONTINUATION_SCHEMA
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

    @worded
    def to_dict(self) -> dict[str, Any]:
        """Give the JSON document: those of all tokens, in order."""
        return {
            "schema": self.schema,
            "model": self[0].model,
            "method": self[0].method,
            "text": self.text,
            "explanations": [explanation.to_dict() for explanation in self],
        }

    @classmethod
    def _from_declared(cls, declared: ContinuationDocument) -> "Continuation":
        explanations: list[Explanation] = []
        for index, part in enumerate(declared.explanations):
            with inside(f"explanations[{index}]"):
                explanations.append(Explanation._from_declared(part))
                _require_next(explanations)
        return cls(tuple(explanations))

    def sum(self) -> Explanation:
        """Add them up: the whole continuation explained, as the sum of its tokens' logits."""
        return reduce(_add, self.explanations)


def read_rows(place: str, rows: list[Numbers], blocks: int, seen: int) -> Float[Tensor, "_row _token"]:
    """Read what a method gives to tokens: a row for every block, or one for all of them."""
    return read_tensor(place, rows, (1 if len(rows) == 1 else blocks, seen))


def _require_next(explanations: Sequence[Explanation]) -> None:
    """Refuse an explanation that cannot follow the one before it: of a shorter context, or another model."""
    *_, before, last = [explanations[0], *explanations][-2:]
    if before is last:
        return
    if len(last.tokens) <= len(before.tokens):
        raise misfit("tokens", f"there are {len(last.tokens)}, not more than of the token before")
    if last.ledger.by_head.shape[:2] != before.ledger.by_head.shape[:2]:
        raise misfit("by_head", "there are not as many blocks and heads as of the token before")
    require_length("foils", last.foils, len(before.foils))


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
