"""An explanation of one prediction, and its JSON document."""

from dataclasses import asdict, dataclass
from typing import Annotated, Any, ClassVar

from annotated_types import MinLen
from jaxtyping import Float
from torch import Tensor

from ..attribute.flow import Flow
from ..attribute.methods import Measure, measure_of
from ..document.kinds import SCHEMA
from ..document.notes import notes_of
from ..document.numbers import read_tensor, require_length, to_numbers
from ..view.sentences import worded
from .explained_prediction import ExplainedPrediction, Numbers, PredictionRecord, read_prediction
from .prompt_parts import Divisible
from .traced import FlowRecord, Traced, flow_to_dict, read_flow

__all__ = [
    "AccountRecord",
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
        """Return the score of every word: the sum over its tokens; before them that of the start, "start"."""
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
        """Return the JSON document."""
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


def read_rows(place: str, rows: list[Numbers], blocks: int, seen: int) -> Float[Tensor, "_row _token"]:
    """Read what a method gives to tokens: a row for every block, or one for all of them."""
    return read_tensor(place, rows, (1 if len(rows) == 1 else blocks, seen))
