"""What every explanation of one prediction has, whatever the methods: its tokens, choices and ledger."""

from dataclasses import asdict, dataclass, field, fields
from typing import Annotated, Any

import torch
from annotated_types import Ge, MinLen
from jaxtyping import Float
from torch import Tensor

from ..document.numbers import inside, misfit, read_tensor, require_index
from ..ledger import Ledger
from ..tokens import Token, Tokens
from ..tokens.tokens import AS_GIVEN, StartRecord
from .computed_later import MayBeLater, when_asked
from .prediction import Choice
from .shown import Shown

__all__ = [
    "Count",
    "ExplainedPrediction",
    "LedgerRecord",
    "Numbers",
    "PredictionRecord",
    "ledger_to_dict",
    "read_ledger",
    "read_prediction",
    "shared_fields",
]

Count = Annotated[int, Ge(0)]
Numbers = list[float]


@dataclass(frozen=True, kw_only=True)
class LedgerRecord:
    """The entries of a ledger, in logits: they add up to `total`, which is the model's own `logit`."""

    embedding: float
    """What the position's own embedding adds."""
    attention: Numbers
    """What attention adds, by block."""
    attention_bias: Numbers
    """What the bias of each attention's output projection adds, by block."""
    mlp: Annotated[Numbers, MinLen(1)]
    """What each MLP adds, by block."""
    norm_bias: float
    """What the biases of the norms on the way to the logit add."""
    unembedding_bias: float
    """What the bias of the unembedding adds."""
    total: float
    """The sum of all entries."""
    logit: float
    """The model's own logit, or difference of logits, before they are capped."""
    error: float
    """|total − logit| / Σ|entries|."""
    cross_attention: Numbers | None = None
    """What cross-attention adds, by block, of a model with an encoder."""
    cross_attention_bias: Numbers | None = None
    """What the bias of each cross-attention's output projection adds, by block."""


@dataclass(frozen=True, kw_only=True)
class PredictionRecord:
    """What the documents of every explanation of one prediction have."""

    model: str
    """The model's name."""
    text: str
    """The prompt, and what was forced after it."""
    tokens: Annotated[tuple[Token, ...], MinLen(1)]
    """The context, in order: what the explained token was predicted from."""
    forced: Count
    """How many of the last tokens were forced because target and foil begin with them."""
    position: Count
    """Index of the token whose next token is explained."""
    target: Choice
    """The token that is explained."""
    foils: tuple[Choice, ...]
    """What it is contrasted with; none: its logit itself is explained."""
    ledger: LedgerRecord
    """Every update of the prediction, in logits."""
    start: StartRecord | None = None
    """The start of text: the first of the tokens."""
    first_attention: float | None = None
    """The share of attention that the explained position gives to the first token, over blocks and heads."""
    computed_in: str | None = None
    """The type that the network computed in: where it was converted, and where projections round more."""
    notes: dict[str, str] = field(default_factory=dict)
    """What is exact, what is heuristic, and what to use it for."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ExplainedPrediction(Shown):
    """One prediction, whose logit, or difference of logits, is explained."""

    model: str
    tokens: Tokens
    """The context, in order: what the explained token was predicted from."""
    forced: int
    """How many of the last tokens were forced because target and foil begin with them."""
    position: int
    """Index of the token whose next token is explained: the last of `tokens`."""
    target: Choice
    foils: tuple[Choice, ...]
    ledger: MayBeLater[Ledger] = when_asked()  # noqa: RUF009 - a descriptor, one for all results
    """Every update of the prediction: the same for all methods."""
    first_attention: float | None = None
    """The share of attention that the explained position gives to the first token, over blocks and heads."""
    computed_in: str | None = None
    """The type that the network computed in: where it was converted, and where projections round more."""

    @property
    def foil(self) -> Choice | None:
        """The (first) foil; all of them are in `foils`."""
        return self.foils[0] if self.foils else None

    @property
    def text(self) -> str:
        """The prompt as text, and what was forced after it: what the tokens' offsets count in."""
        return self.tokens.text

    def _ask(self) -> str:
        """Return the question for a representation."""
        against = f" not {' | '.join(repr(foil.text) for foil in self.foils)}" if self.foils else ""
        return f"why {self.target.text!r}{against} after {len(self.tokens)} tokens"

    def _describe(self) -> dict[str, Any]:
        """Return what the documents of all explanations of one prediction have."""
        return {
            "schema": self.schema,
            "model": self.model,
            "text": self.tokens.text,
            "tokens": [asdict(token) for token in self.tokens],
            "start": asdict(self.tokens.describe_start()),
            "first_attention": self.first_attention,
            "computed_in": self.computed_in,
            "forced": self.forced,
            "position": self.position,
            "target": asdict(self.target),
            "foils": [asdict(foil) for foil in self.foils],
            "ledger": ledger_to_dict(self.ledger),
        }


def shared_fields(source: ExplainedPrediction) -> dict[str, Any]:
    """Return the fields that all explanations of one prediction have."""
    return {each.name: getattr(source, each.name) for each in fields(ExplainedPrediction)}


def read_prediction(record: PredictionRecord, by_head: list[list[Numbers]] | None) -> dict[str, Any]:
    """Make these fields from those of a document; `by_head`: None where the document has no such numbers."""
    require_index("position", record.position, len(record.tokens))
    require_index("forced", record.forced, len(record.tokens) + 1)
    tokens = Tokens(record.text, record.tokens, record.start.chosen if record.start else AS_GIVEN)
    if record.start is not None and record.start.tokens != tokens.start:
        raise misfit(
            "start.tokens", f"it is {record.start.tokens}, but {tokens.start} special tokens are first"
        )
    blocks, seen = len(record.ledger.mlp), len(record.tokens)
    heads = torch.zeros(blocks, 0, seen, dtype=torch.float32, device="cpu")
    if by_head is not None:
        heads = read_tensor("by_head", by_head, (blocks, None, seen))
        if heads.shape[1] == 0:
            raise misfit("by_head[0]", "there are no heads")
    with inside("ledger"):
        ledger = read_ledger(record.ledger, heads)
    return {
        "model": record.model,
        "tokens": tokens,
        "first_attention": record.first_attention,
        "computed_in": record.computed_in,
        "forced": record.forced,
        "position": record.position,
        "target": record.target,
        "foils": record.foils,
        "ledger": ledger,
    }


def ledger_to_dict(ledger: Ledger) -> dict[str, Any]:
    """Return the entries of a ledger; those by head are elsewhere in a document."""
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


def read_ledger(
    record: LedgerRecord,
    by_head: Float[Tensor, "block head source"],
    cross_by_head: Float[Tensor, "block cross_head source_token"] | None = None,
) -> Ledger:
    """Make a ledger of its entries."""
    entries = {each.name: getattr(record, each.name) for each in fields(record)}
    if (record.cross_attention is None) != (record.cross_attention_bias is None):
        raise misfit("cross_attention_bias", "it belongs to cross_attention: both, or none of them")
    made: dict[str, Any] = {
        name: read_tensor(name, value, (len(record.mlp),), torch.float64)
        if isinstance(value, list)
        else value
        for name, value in entries.items()
    }
    return Ledger(by_head=by_head, cross_by_head=cross_by_head, **made)
