"""The explanation of a translation, and its JSON document."""

from dataclasses import asdict, dataclass, field, fields
from typing import Annotated, Any, ClassVar

import torch
from annotated_types import Ge, MinLen
from jaxtyping import Float
from torch import Tensor

from ..attribute.source_and_prefix import JointFlow
from ..document.kinds import TRANSLATION_SCHEMA
from ..document.notes import notes_of
from ..document.numbers import inside, misfit, read_tensor, require_index, require_length, to_numbers
from ..ledger import Ledger
from ..tokens import Token, Tokens
from ..view.sentences import worded
from .explained_prediction import Count, LedgerRecord, Numbers, ledger_to_dict, read_ledger
from .prediction import Choice
from .shown import Shown
from .traced import require_flow

__all__ = ["SentenceRecord", "Translation", "TranslationDocument"]

NumbersOrNull = list[float | None]


@dataclass(frozen=True, kw_only=True)
class SentenceRecord:
    """A source or a translation."""

    text: str
    """The text."""
    tokens: Annotated[tuple[Token, ...], MinLen(1)]
    """Its tokens, in order."""


@dataclass(frozen=True, kw_only=True)
class JointFlowRecord:
    """Every explained logit at every depth of encoder and decoder; the first axis of each is the token."""

    prefix: list[list[Numbers]]
    """How much of it is at each position of the decoder, by depth: before block 1, …, after the last."""
    read: list[list[Numbers]]
    """How much of it the decoder's blocks above each depth read at each position of the encoder's output."""
    bias: list[Numbers]
    """What biases written above each depth of the decoder add."""
    source: list[list[Numbers]]
    """How much of it is at each position of the encoder, by depth."""
    encoder_bias: list[Numbers]
    """What biases written above each depth of the encoder add, in the encoder."""


@dataclass(frozen=True, kw_only=True)
class TranslationDocument:
    """How much every token of the source, and of the prefix, changed the logits of a translation."""

    model: str
    """The model's name."""
    method: str
    """The name of the method."""
    source: SentenceRecord
    """What the encoder read."""
    target: SentenceRecord
    """The translation, from the start token to the end; the prefix of a step is what comes before it."""
    first: Annotated[int, Ge(1)]
    """Which token of the target is the first that is explained; those before it are forced."""
    choices: Annotated[tuple[Choice, ...], MinLen(1)]
    """The tokens that are explained."""
    foils: tuple[Choice | None, ...]
    """What each is contrasted with; null: its logit itself is explained."""
    scores: list[NumbersOrNull]
    """By explained token, and token of source and prefix; null where a token comes later than the step."""
    by_block: Annotated[list[list[NumbersOrNull]], MinLen(1)]
    """The same by decoder block."""
    source_shares: Numbers | None
    """How much of each step's last stream came from the source, between 0 and 1; null: it was not mixed."""
    prefix_shares: Numbers | None = None
    """The rest, which came from the prefix."""
    threshold: float
    """A source share below which a token is flagged."""
    flagged: list[Count] = field(default_factory=list)
    """The explained tokens that may be hallucinated: almost nothing of them came from the source."""
    ledgers: tuple[LedgerRecord, ...]
    """One for each token that is explained."""
    joint_flow: JointFlowRecord | None = None
    """The logits at every depth, where the method traces them."""
    notes: dict[str, str] = field(default_factory=dict)
    """What is exact, what is heuristic, and what to use it for."""


@dataclass(frozen=True, eq=False, repr=False)
class Translation(Shown):
    """How much every token of the source, and of the prefix, changed the logits of a translation."""

    schema: ClassVar[str] = TRANSLATION_SCHEMA
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
    traced: JointFlow | None = None
    """The logits at every depth, of methods that trace them: see `flow`."""

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
    def flow(self) -> JointFlow:
        """Every explained logit at every depth of encoder and decoder."""
        return require_flow(self.method, self.traced)

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

    def show(
        self,
        by: str | None = None,
        top: int | None = None,
        block: int | None = None,
        word: int | None = None,
    ) -> None:
        """Print the terminal view by word, token or depth; `top`: the N strongest columns, or N depths.

        `block`: one, from 1; `word`: the one that is shown by depth, from 1.
        """
        from rich.console import Console

        from ..view.showing import print_by_kind
        from ..view.translation_depths import at_word
        from ..view.translation_grid import at_block

        document = at_block(self.to_dict(), block)
        shown = at_word(document, word) if by == "depth" else document
        print_by_kind(shown, Console(highlight=False), by, top)

    @worded
    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document: a matrix of explained tokens × (source | prefix), and the same by block.

        Null stands where a token of the prefix comes later than the step.
        """
        shares = self.source_shares
        return {
            "schema": self.schema,
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
            **({} if self.traced is None else {"joint_flow": _flow_to_dict(self.traced)}),
            "notes": notes_of([self.method]),
        }

    def _cut(self, rows: list[list[float | None]]) -> list[list[float | None]]:
        """Put null where a step could not see a token of the prefix."""
        for step, row in enumerate(rows):
            seen = len(self.source) + self.first + step
            row[seen:] = [None] * (len(row) - seen)
        return rows

    @classmethod
    def _from_declared(cls, declared: TranslationDocument) -> "Translation":
        source, target = (Tokens(each.text, each.tokens) for each in (declared.source, declared.target))
        require_index("first", declared.first, len(target))
        steps, rows = len(target) - declared.first, len(declared.by_block)
        for name in ("choices", "foils", "ledgers"):
            require_length(name, getattr(declared, name), steps)
        numbers = [_fill(place, rows, declared) for place, rows in _list_matrices(declared)][1:]
        by_block = read_tensor("by_block", numbers, (rows, steps, len(source) + len(target) - 1))
        shares = declared.source_shares
        blocks = len(declared.ledgers[0].mlp) if rows == 1 else rows  # one row: the method has no blocks
        ledgers = []
        for step, ledger in enumerate(declared.ledgers):
            with inside(f"ledgers[{step}]"):
                require_length("mlp", ledger.mlp, blocks)
                seen = declared.first + step, len(source)
                none = (torch.zeros(blocks, 0, each, dtype=torch.float32, device="cpu") for each in seen)
                ledgers.append(read_ledger(ledger, *none))
        return cls(
            model=declared.model,
            method=declared.method,
            source=source,
            target=target,
            first=declared.first,
            choices=declared.choices,
            foils=declared.foils,
            source_by_block=by_block[..., : len(source)].contiguous(),
            prefix_by_block=by_block[..., len(source) :].contiguous(),
            source_shares=None if shares is None else read_tensor("source_shares", shares, (steps,)),
            threshold=declared.threshold,
            ledgers=tuple(ledgers),
            traced=None if declared.joint_flow is None else _read_flow(declared),
        )


def _flow_to_dict(flow: JointFlow) -> dict[str, Any]:
    return {each.name: getattr(flow, each.name).tolist() for each in fields(flow)}


def _read_flow(declared: TranslationDocument) -> JointFlow:
    """Make the flow of the part of a document that holds it."""
    flow, source = declared.joint_flow, len(declared.source.tokens)
    assert flow is not None
    steps, prefix, depths = (
        len(declared.choices),
        len(declared.target.tokens) - 1,
        len(declared.ledgers[0].mlp) + 1,
    )
    shapes: dict[str, tuple[int | None, ...]] = {
        "prefix": (steps, depths, prefix),
        "read": (steps, depths, source),
        "bias": (steps, depths),
        "source": (steps, None, source),
        "encoder_bias": (steps, None),
    }
    read = {
        name: read_tensor(f"joint_flow.{name}", getattr(flow, name), shape, torch.float64)
        for name, shape in shapes.items()
    }
    if read["source"].shape[1] != read["encoder_bias"].shape[1]:
        raise misfit("joint_flow.encoder_bias", "it has not as many depths as joint_flow.source")
    return JointFlow(**read)


def _list_matrices(declared: TranslationDocument) -> list[tuple[str, list[NumbersOrNull]]]:
    """List the matrices of a document: the scores, then those of every block."""
    blocks = [(f"by_block[{index}]", rows) for index, rows in enumerate(declared.by_block)]
    return [("scores", declared.scores), *blocks]


def _fill(place: str, rows: list[NumbersOrNull], declared: TranslationDocument) -> list[Numbers]:
    """Put 0 where a step could not see a token, which null stands for; refuse null elsewhere."""
    sources, steps = len(declared.source.tokens), len(declared.choices)
    require_length(place, rows, steps)
    filled: list[Numbers] = []
    for step, row in enumerate(rows):
        require_length(f"{place}[{step}]", row, sources + len(declared.target.tokens) - 1)
        seen = sources + declared.first + step
        for index, number in enumerate(row):
            if (number is None) != (index >= seen):
                problem = "a number stands for a token that comes later" if index >= seen else "it is null"
                raise misfit(f"{place}[{step}][{index}]", problem)
        filled.append([number or 0.0 for number in row])
    return filled
