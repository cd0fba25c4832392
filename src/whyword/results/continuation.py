"""A continuation explained: every token of it, and any sum of its tokens."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from operator import index as whole
from typing import Annotated, Any, ClassVar

from annotated_types import MinLen

from ..attribute.flow import add_flows, add_padded
from ..document.kinds import CONTINUATION_SCHEMA
from ..document.numbers import inside, misfit, require_length
from ..errors import InputError
from ..ledger import Ledger
from ..tokens.segments import SPLITTERS, split_text
from ..view.sentences import worded
from .answer_support import UNSUPPORTED, AnswerSupport, ExplainedRow, make_support
from .computed_later import later
from .explanation import Explanation, ExplanationDocument
from .prediction import Choice
from .shown import Shown

__all__ = ["Continuation", "ContinuationDocument", "OnDemand", "add_explanations"]


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


class OnDemand(Sequence[Any]):  # Any: to check the type of a token at run time would explain it
    """Explanations of the tokens of a continuation that are made when they are asked for."""

    @property
    @abstractmethod
    def targets(self) -> Sequence[Choice]:
        """The tokens."""

    @abstractmethod
    def explain_sum(self, tokens: range) -> Explanation:
        """Explain the sum of some tokens at once."""


@dataclass(frozen=True, eq=False, repr=False)
class Continuation(Shown, Sequence[Any]):
    """One explanation per token of a continuation, in order; `sum` explains several tokens together.

    By flow, a token is explained when it is asked for, by one backward pass through the recorded run; `sum`
    takes one for any number of tokens. The continuation holds that run: the activations of a forward pass.
    `complete` gives one that holds no run; saving explains every token first.
    """

    schema: ClassVar[str] = CONTINUATION_SCHEMA
    explanations: tuple[Explanation, ...] | OnDemand

    def __len__(self) -> int:
        return len(self.explanations)

    def __getitem__(self, index: Any) -> Any:
        found: Any = self.explanations[index]
        return Continuation(found) if isinstance(index, slice) else found

    def __iter__(self) -> Iterator[Explanation]:
        return iter(self.explanations)

    def __repr__(self) -> str:
        return f"<Continuation: {self.text!r}, {len(self)} tokens>"

    @property
    def text(self) -> str:
        """The continuation."""
        return "".join(self._texts)

    @property
    def _targets(self) -> Sequence[Choice]:
        if isinstance(self.explanations, OnDemand):
            return self.explanations.targets
        return [explanation.target for explanation in self.explanations]

    @property
    def _texts(self) -> list[str]:
        return [target.text for target in self._targets]

    def complete(self) -> "Continuation":
        """Explain every token now, and return a continuation that holds no recorded run."""
        explained = tuple(self)
        for explanation in explained:
            _ = explanation.ledger  # settled now: until then it holds what was recorded for it
        return Continuation(explained)

    @worded
    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document: those of all tokens, in order."""
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

    def sum(
        self, *, tokens: tuple[int, int] | None = None, chars: tuple[int, int] | None = None
    ) -> Explanation:
        """Explain several tokens together: the sum of their logits, or differences.

        `tokens`: from the first of these to before the second, counted from 0; `chars`: every token with a
        character in that range of `text`. Neither: the whole continuation.
        """
        if tokens is not None and chars is not None:
            raise InputError("tokens and chars were both given.", "Pass one of them.")
        chosen = range(len(self))
        if tokens is not None:
            chosen = _read_range("tokens", tokens, len(self), "tokens")
        if chars is not None:
            chosen = self._find_tokens(_read_range("chars", chars, len(self.text), "characters"))
        if isinstance(self.explanations, OnDemand):
            return self.explanations.explain_sum(chosen)
        return add_explanations(self.explanations[chosen.start : chosen.stop])

    def by(
        self,
        rows: str = "sentence",
        columns: str | Mapping[str, Any] = "part",
        threshold: float = UNSUPPORTED,
    ) -> AnswerSupport:
        """Return what every part of the prompt adds to every sentence of the continuation.

        `rows`: sentence, line or paragraph of it. `columns`: what the prompt is divided into, as in
        `Explanation.by`: part, turn, sentence …, or spans of characters by name. By flow, a row takes one
        backward pass. `threshold`: the share of a row that its strongest source must have to support it.
        """
        if rows not in SPLITTERS:
            raise InputError(f"rows is {rows!r}.", f"A continuation is divided by {', '.join(SPLITTERS)}.")
        explained, answer = [], self._leave_out_end()
        for segment in split_text(answer, rows):
            chosen = self._find_tokens(range(segment.start, segment.end))
            total = self.sum(tokens=(chosen.start, chosen.stop))
            prompt = len(total.tokens) - chosen.stop + 1
            divided, words = total.divide(columns, prompt), total.list_words(columns, prompt)
            explained.append(ExplainedRow(segment.name, segment.start, segment.end, divided, words))
        if not explained:
            raise InputError(
                f"The continuation {self.text!r} is blank.", "Explain one with visible characters."
            )
        read = total.tokens.text[: total.tokens[prompt - 1].end]
        return make_support(rows, read, answer, explained, threshold)

    def _leave_out_end(self) -> str:
        """Return the text without the special tokens that end it."""
        targets = list(self._targets)
        while len(targets) > 1 and targets[-1].special:
            targets.pop()
        return "".join(target.text for target in targets)

    def _find_tokens(self, chars: range) -> range:
        """Find the tokens that have a character in a range."""
        ends = list(accumulate(map(len, self._texts)))
        starts = [0, *ends[:-1]]
        inside_ = [
            token
            for token, (start, end) in enumerate(zip(starts, ends, strict=True))
            if start < chars.stop and end > chars.start
        ]
        return range(inside_[0], inside_[-1] + 1)


def _read_range(name: str, given: Any, length: int, what: str) -> range:
    """Read a half-open range; refuse one that is empty, or beyond what there is."""
    try:
        start, stop = map(whole, given)
    except (TypeError, ValueError):
        raise InputError(
            f"{name} is {given!r}.", f"Pass two whole numbers: {name}=(0, {length}) are all {what}."
        ) from None
    if not 0 <= start < stop <= length:
        raise InputError(
            f"{name} is ({start}, {stop}), but the continuation has {length} {what}.",
            f"Pass a first and a later end, from 0 to {length}: {name}=(0, {length}) are all.",
        )
    return range(start, stop)


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


def add_explanations(explanations: Sequence[Explanation]) -> Explanation:
    """Add explanations of tokens in their order, each with a longer context than the one before."""
    first, last = explanations[0], explanations[-1]
    if len(explanations) == 1:
        return first
    flows = [each.traced for each in explanations if each.traced is not None]
    return Explanation(
        model=first.model,
        method=first.method,
        tokens=last.tokens,
        forced=first.forced,
        position=last.position,
        target=_join([each.target for each in explanations]),
        foils=tuple(map(_join, zip(*(each.foils for each in explanations), strict=True))),
        by_block=add_padded([each.by_block for each in explanations]),
        ledger=later(lambda: _add_ledgers([each.ledger for each in explanations])),
        traced=add_flows(flows) if len(flows) == len(explanations) else None,
    )


def _add_ledgers(ledgers: Sequence[Ledger]) -> Ledger:
    return Ledger(
        embedding=sum(each.embedding for each in ledgers),
        attention=add_padded([each.attention for each in ledgers]),
        attention_bias=add_padded([each.attention_bias for each in ledgers]),
        mlp=add_padded([each.mlp for each in ledgers]),
        norm_bias=sum(each.norm_bias for each in ledgers),
        unembedding_bias=sum(each.unembedding_bias for each in ledgers),
        total=sum(each.total for each in ledgers),
        logit=sum(each.logit for each in ledgers),
        error=max(each.error for each in ledgers),
        by_head=add_padded([each.by_head for each in ledgers]),
    )


def _join(choices: Sequence[Choice]) -> Choice:
    """Join the choices of consecutive tokens: logits add up, probabilities multiply."""
    capped = [each.capped for each in choices if each.capped is not None]
    return Choice(
        None,
        "".join(each.text for each in choices),
        sum(each.logit for each in choices),
        prod(each.probability for each in choices),
        sum(capped) if len(capped) == len(choices) else None,
    )
