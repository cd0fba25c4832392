"""Explain every token of a continuation, and any sum of its tokens, from one recorded run or a few."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from operator import index
from threading import Lock
from typing import Any

import torch

from ..ask.chat_turns import shorten
from ..ask.foil_names import AUTO, RUNNER_UP
from ..ask.prompt import Prompt, continue_prompt, extend_prompt, read_prompt, require_tokens
from ..ask.question import Question, choose
from ..attribute import METHODS, Predictions
from ..attribute.flow import find_depth, trace_sum
from ..attribute.methods import DEFAULT_METHOD
from ..errors import InputError
from ..ledger import Ledger, Target, settle
from ..maths.proof import Identity, require_close, tolerance_of
from ..models.model import Model
from ..results.computed_later import later, replace_unasked
from ..results.continuation import Continuation, OnDemand, add_explanations
from ..results.explanation import Explanation
from ..results.prediction import Choice
from ..runs.progress import report
from ..tokens import Tokens
from ..trace import Places, Trace, generate
from .one_prompt import (
    compare_trace,
    describe_positions,
    list_methods,
    record_contexts,
    require_depth,
    require_words,
)

__all__ = ["explain_continuation"]


def explain_continuation(
    model: Model,
    prompt: Prompt,
    continuation: str | Sequence[int] | None = None,
    *,
    foil: str | None = "auto",
    method: str = DEFAULT_METHOD,
    depth: int | None = None,
    new_tokens: int = 20,
    max_memory: int | str | None = None,
) -> Continuation:
    """Explain every token of a continuation from one recorded pass, or a few.

    `continuation`: text or token ids; None: what the model generates greedily, up to `new_tokens` tokens.
    `foil`: "auto": the best-ranked rival at each position (see `explain`); "runner-up": the likeliest other
    token; None: no contrast. `.sum()` explains the whole continuation, `.sum(tokens=(3, 9))` some of it. By
    flow, tokens are explained when they are asked for, and the result holds what was recorded until then:
    `.complete()` explains all and lets go of it.
    `depth`, `max_memory`: see `explain`.
    """
    names = list_methods([method])
    require_depth(require_words(model), depth, names)
    if foil not in (None, AUTO, RUNNER_UP):
        raise InputError(
            f"foil is {foil!r}.",
            f'The foil of a continuation is None, "{AUTO}" (the best rival) or "{RUNNER_UP}".',
        )
    tokens = read_prompt(model, prompt)
    ids, generated = _continuation_ids(model, tokens, continuation, new_tokens)
    context = read_prompt(model, extend_prompt(model, tokens, ids[:-1]))
    explained: list[Explanation] = []
    passes: list[_Pass] = []
    # One pass for all lengths between two thresholds of the model: its attention may change at each of them.
    for _, group in groupby(range(len(tokens), len(context) + 1), model.lengths.find):
        lengths = [*group]
        longest, places = context.first(lengths[-1]), Places((range(lengths[0] - 1, lengths[-1]),))
        trace = record_contexts(model, [longest], places, names, max_memory)
        predicted = ids[lengths[0] - len(tokens) :][: len(lengths)]
        if continuation is None:
            _require_greedy(model, trace, predicted, generated[lengths[0] - len(tokens) :])
        targets = [
            choose(model, context.first(length), Question((), id_, (), foil), logits)
            for length, id_, logits in zip(lengths, predicted, trace.logits, strict=True)
        ]
        if METHODS[method].frozen:
            passes.append(_keep_pass(model, longest, trace, targets, method, depth))
        else:
            compared = compare_trace(model, [longest], trace, targets, names, [0], depth)
            explained += [comparison[method] for comparison in compared]
    return Continuation(_Recorded(tuple(passes), range(len(ids))) if passes else tuple(explained))


def _require_greedy(model: Model, trace: Trace, generated: Sequence[int], logits: Sequence[float]) -> None:
    """Prove that what was generated token by token, with a cache, is what the whole run predicts.

    The token must be its first choice, and must have had the same logit: a hook may act on generated tokens
    only, or on the prompt only, and choose the same token by other numbers. In half precision both runs are
    rounded, each in its own way.
    """
    rounded = 2 if model.exactness.itemsize <= 2 else 1
    largest, count = trace.logits.amax(-1), len(generated)
    own = trace.logits.new_tensor(logits[:count])
    chosen = trace.logits[range(count), generated]
    for identity, found, times in ((Identity.GREEDY, chosen, 1), (Identity.GENERATED, own, rounded)):
        require_close(
            identity,
            [f"token {place + 1} of the continuation" for place in range(count)],
            found=found,
            expected=largest,
            scale=trace.logits.abs().amax(-1),
            tolerance=times * tolerance_of(model.exactness),
        )


@dataclass(frozen=True, eq=False)
class _Pass:
    """A recorded run, and what is known of the tokens that it predicts before they are explained."""

    predictions: Predictions
    described: tuple[Explanation, ...]
    """Explanations without scores."""

    def explain_sum(self, tokens: Sequence[int]) -> Explanation:
        """Explain some of its tokens together, by one pull-back."""
        (flow,) = trace_sum(self.predictions, tokens)
        depth = find_depth(self.predictions.model, self.predictions.depth)
        whole = add_explanations([self.described[token] for token in tokens])
        return replace_unasked(whole, traced=flow, by_block=flow.by_depth[depth][None].float())


def _keep_pass(
    model: Model, context: Tokens, trace: Trace, targets: list[Target], method: str, depth: int | None
) -> _Pass:
    """Keep a recorded run, with all that is known of its tokens without pulling anything back."""
    ledgers, described = _LedgersLater(model, replace(trace, frozen=None), targets), []
    for row, known in enumerate(describe_positions(model, [context], trace, targets, [0])):
        nothing = torch.zeros(1, len(known["tokens"]), dtype=torch.float32, device="cpu")
        ledger = later(partial(ledgers.find, row))
        described.append(Explanation(**known, ledger=ledger, method=method, by_block=nothing))
    return _Pass(Predictions(model, [context.ids], trace, targets, (), depth), tuple(described))


class _LedgersLater:
    """The ledgers of all tokens of a pass, settled when one of them is asked for: flow needs none."""

    def __init__(self, model: Model, trace: Trace, targets: Sequence[Target]) -> None:
        self._given: tuple[Model, Trace, Sequence[Target]] | None = (model, trace, targets)
        self._found: Sequence[Ledger] = ()
        self._one_at_a_time = Lock()

    def find(self, row: int) -> Ledger:
        """Return the ledger of one token; what was recorded for them is let go of once they are settled."""
        with self._one_at_a_time:
            if self._given is not None:
                self._found, self._given = settle(*self._given), None
        return self._found[row]


@dataclass(frozen=True, eq=False)
class _Recorded(OnDemand):
    """Tokens of a continuation that are explained when they are asked for, each once."""

    passes: tuple[_Pass, ...]
    tokens: range
    """Which tokens of the whole continuation."""
    explained: dict[int, Explanation] = field(default_factory=dict)
    """Those that were explained, by token of the whole continuation."""

    @property
    def targets(self) -> list[Choice]:
        """The tokens."""
        described = [each for part in self.passes for each in part.described]
        return [described[token].target for token in self.tokens]

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return replace(self, tokens=self.tokens[place])
        token = self.tokens[place]
        if token not in self.explained:
            self.explained[token] = self._explain([token])
            report("tokens", self.tokens.index(token) + 1, len(self))
        return self.explained[token]

    def explain_sum(self, tokens: range) -> Explanation:
        """Explain the sum of some tokens, by one pull-back of every pass."""
        return self._explain(sorted(self.tokens[token] for token in tokens))

    def _explain(self, tokens: Sequence[int]) -> Explanation:
        """Explain tokens of the whole continuation together."""
        first, parts = 0, []
        for part in self.passes:
            own = [token - first for token in tokens if 0 <= token - first < len(part.described)]
            first += len(part.described)
            if own:
                parts.append(part.explain_sum(own))
        return add_explanations(parts)


def _read_ids(continuation: Any) -> list[int]:
    try:
        if isinstance(continuation, bytes):
            raise TypeError("bytes are not token ids")
        return [index(id_) for id_ in continuation]
    except TypeError:
        raise InputError(
            f"A continuation cannot be {shorten(continuation)}.",
            "Pass text, token ids, or None and new_tokens=3 to generate some.",
        ) from None


def _continuation_ids(
    model: Model, prompt: Tokens, continuation: str | Sequence[int] | None, new_tokens: int
) -> tuple[list[int], list[float]]:
    """Give the tokens of a continuation, and, where the model generates it, the logits by which it did."""
    if isinstance(continuation, str):
        return continue_prompt(model, prompt, continuation), []
    if continuation is not None:
        ids = _read_ids(continuation)
        if not ids:
            raise InputError(
                "The continuation is empty.", "Pass at least one token, or None to generate some."
            )
        require_tokens(model, ids)
        return ids, []
    room = new_tokens if model.most_tokens is None else min(new_tokens, model.most_tokens - len(prompt) + 1)
    if room < 1:
        raise InputError(f"new_tokens is {new_tokens}.", "Let the model generate at least one token.")
    return generate(model, prompt.ids, room)
