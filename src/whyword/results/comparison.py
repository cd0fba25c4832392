"""Several methods for one prediction, and their JSON document."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any, ClassVar

from annotated_types import MinLen
from jaxtyping import Float
from torch import Tensor

from ..attribute.flow import Flow
from ..attribute.methods import METHODS, Measure, measure_of
from ..document.kinds import COMPARISON_SCHEMA
from ..document.notes import notes_of
from ..document.numbers import inside, misfit, read_tensor, require_length, to_numbers
from ..view.sentences import worded
from .explained_prediction import (
    ExplainedPrediction,
    Numbers,
    PredictionRecord,
    read_prediction,
    shared_fields,
)
from .explanation import Explanation, read_rows
from .traced import FlowRecord, flow_to_dict, read_flow

__all__ = ["Comparison", "ComparisonDocument", "MethodRecord"]


@dataclass(frozen=True, kw_only=True)
class MethodRecord:
    """What one method says of the prediction."""

    method: str
    """The name of the method."""
    measure: Measure | None = None
    """What its scores are."""
    scores: Numbers
    """One number per token: the sum of `by_block`."""
    by_block: Annotated[list[Numbers], MinLen(1)]
    """Its attribution, by block and token; one row where the method has no blocks."""


@dataclass(frozen=True, kw_only=True)
class ComparisonDocument(PredictionRecord):
    """What several methods say of one prediction."""

    methods: Annotated[tuple[MethodRecord, ...], MinLen(1)]
    """Every method, in the order in which they are shown."""
    by_head: list[list[Numbers]]
    """Updates before mixing, by block, head and the position they come from."""
    mixing: list[Numbers] | None = None
    """The explained position as a mix of input tokens, by block and token, where a method keeps it."""
    flow: FlowRecord | None = None
    """The logit (difference) at every depth, where a method traces it."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Comparison(ExplainedPrediction, Mapping[str, Explanation]):
    """What several methods say of one prediction: an explanation by the name of each."""

    schema: ClassVar[str] = COMPARISON_SCHEMA
    by_block: Mapping[str, Float[Tensor, "_block token"]]
    """Every method's attribution; float32."""
    mixing: Float[Tensor, "block token"] | None = None
    """The mixing of the explained position, where one of the methods keeps it."""
    traced: Flow | None = None
    """The logit (difference) at every depth, where one of the methods traces it."""

    def __getitem__(self, method: str) -> Explanation:
        return Explanation(
            **shared_fields(self),
            method=method,
            by_block=self.by_block[method],
            mixing=self.mixing if method in METHODS and METHODS[method].keeps_mixing else None,
            traced=self.traced if method in METHODS and METHODS[method].frozen else None,
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_block)

    def __len__(self) -> int:
        return len(self.by_block)

    def __repr__(self) -> str:
        return (
            f"<Comparison: {self._ask()}; {', '.join(self)} on {self.model}, logit {self.ledger.logit:+.3f}>"
        )

    @worded
    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document: the prediction once, and the scores of every method."""
        return {
            **self._describe(),
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
            "mixing": None if self.mixing is None else to_numbers(self.mixing),
            **({} if self.traced is None else {"flow": flow_to_dict(self.traced)}),
            "notes": notes_of(self),
        }

    @classmethod
    def _from_declared(cls, declared: ComparisonDocument) -> "Comparison":
        blocks, seen = len(declared.ledger.mlp), len(declared.tokens)
        by_block: dict[str, Float[Tensor, "_block _token"]] = {}
        for index, each in enumerate(declared.methods):
            with inside(f"methods[{index}]"):
                if each.method in by_block:
                    raise misfit("method", f"{each.method!r} is there twice")
                require_length("scores", each.scores, seen)
                by_block[each.method] = read_rows("by_block", each.by_block, blocks, seen)
        return cls(
            **read_prediction(declared, declared.by_head),
            by_block=by_block,
            mixing=None
            if declared.mixing is None
            else read_tensor("mixing", declared.mixing, (blocks, seen)),
            traced=None if declared.flow is None else read_flow(declared.flow, blocks, seen),
        )
