"""The whole pipeline in one call: text → Tokens → Trace → Ledger → Attribution."""

import math
from collections.abc import Iterator, Sequence
from operator import index

from jaxtyping import Float
from torch import Tensor

from .attribute import METHODS, Method
from .attribute.alti_logit import mix
from .attribute.mixing_rows import mix_rows
from .choice import AUTO, Question, choose, pose
from .errors import InputError
from .explanation import Choice, Continuation, Explanation
from .ledger import Target, settle
from .memory import Request, make_plan
from .models.model import Model
from .prompt import Prompt, continue_prompt, extend_prompt, read_prompt, require_tokens, token_text
from .tokens import Tokens
from .trace import Places, Plan, Trace, generate, record

__all__ = ["explain", "explain_continuation", "mixing", "predict"]

Word = str | int


def explain(
    model: Model,
    prompt: Prompt,
    *,
    target: Word | None = None,
    foil: Word | Sequence[Word] | None = None,
    method: str = "alti-logit",
    max_memory: int | str | None = None,
) -> Explanation:
    """Explain the next token of a prompt, or why it is the target and not the foil.

    `target`: a word or token id; None: the model's first choice. `foil`: the same, several of them (the mean
    of their directions), or "auto": the model's runner-up. Words of several tokens are explained at the first
    token where target and foil differ. `max_memory`: bytes, or a text such as "2GB", that the explanation may
    take beyond the forward pass; None: what is free.
    """
    find_method(method)
    context, question = ask(require_model(model), prompt, target, foil)
    trace = record_contexts(model, [context], last_places([context]), method, max_memory)
    targets = [choose(question, trace.logits[0])]
    (explanation,) = explain_trace(model, [context], trace, targets, method, [len(question.forced)])
    return explanation


def explain_continuation(
    model: Model,
    prompt: Prompt,
    continuation: str | Sequence[int] | None = None,
    *,
    foil: str | None = None,
    method: str = "alti-logit",
    new_tokens: int = 20,
    max_memory: int | str | None = None,
) -> Continuation:
    """Explain every token of a continuation from one recorded pass.

    `continuation`: text or token ids; None: what the model generates greedily, up to `new_tokens` tokens.
    `foil`: None, or "auto": the runner-up at each position. `.sum()` explains the whole continuation.
    `max_memory`: see `explain`.
    """
    find_method(method)
    if foil not in (None, AUTO):
        raise InputError(f"foil is {foil!r}.", 'The foil of a continuation is None or "auto": the runner-up.')
    tokens = read_prompt(require_model(model), prompt)
    ids = _continuation_ids(model, tokens, continuation, new_tokens)
    context = read_prompt(model, extend_prompt(model, tokens, ids[:-1]))
    places = Places((range(len(tokens) - 1, len(context)),))
    trace = record_contexts(model, [context], places, method, max_memory)
    targets = [
        choose(Question((), id_, (), runner_up=foil == AUTO), logits)
        for id_, logits in zip(ids, trace.logits, strict=True)
    ]
    return Continuation(tuple(explain_trace(model, [context], trace, targets, method, [0])))


def predict(model: Model, prompt: Prompt, *, top: int = 10) -> tuple[Choice, ...]:
    """Give the tokens that the model would go on with, the likeliest first."""
    if top < 1:
        raise InputError(f"top is {top}.", "Ask for at least one token.")
    tokens = read_prompt(require_model(model), prompt)
    trace = record(model, [tokens.ids], last_places([tokens]))
    logits, probabilities = trace.logits[0], trace.logits[0].softmax(-1)
    return tuple(
        Choice(id_, token_text(model, id_, tokens), float(trace.uncapped[0, id_]), float(probabilities[id_]))
        for id_ in logits.topk(min(top, logits.shape[0])).indices.tolist()
    )


def mixing(model: Model, prompt: Prompt) -> Float[Tensor, "block token token"]:
    """Give each position's stream as a mix of input tokens, after every block (heuristic)."""
    tokens = read_prompt(require_model(model), prompt)
    trace = record(model, [tokens.ids], last_places([tokens]), Plan(len(model.blocks)))
    settle(model, trace, [Target(int(trace.logits[0].argmax()))])  # nothing is shown that is not proven
    return mix(trace).float()


def find_method(name: str) -> Method:
    """Find a method by its name."""
    if name not in METHODS:
        raise InputError(f"There is no method {name!r}.", f"Methods: {', '.join(METHODS)}.")
    return METHODS[name]


def require_model(model: object) -> Model:
    """Refuse what is not a loaded model."""
    if not isinstance(model, Model):
        raise InputError(
            f"The model is a {type(model).__name__}.",
            "Load it first: model = whyword.load(your_model, tokenizer=...).",
        )
    return model


def last_places(contexts: Sequence[Tokens]) -> Places:
    """Give the last position of every context."""
    return Places(tuple(range(len(context) - 1, len(context)) for context in contexts))


def ask(
    model: Model, prompt: Prompt, target: Word | None, foil: Word | Sequence[Word] | None
) -> tuple[Tokens, Question]:
    """Give the context whose next token is explained, and what is asked about it."""
    tokens = read_prompt(model, prompt)
    question = pose(model, tokens, target, foil)
    if not question.forced:
        return tokens, question
    return read_prompt(model, extend_prompt(model, tokens, question.forced)), question


def mixed_blocks(model: Model, method: str) -> int:
    """Say in how many blocks, from the first, a method needs contributions: all below the last, or none."""
    return len(model.blocks) - 1 if find_method(method).mixes else 0


def record_contexts(
    model: Model, contexts: Sequence[Tokens], places: Places, method: str, max_memory: int | str | None
) -> Trace:
    """Record what a method needs, of some contexts at once, within some memory."""
    request = Request(len(contexts), max(map(len, contexts)), places.each)
    plan = make_plan(model, request, mixed_blocks(model, method), max_memory)
    return record(model, [context.ids for context in contexts], places, plan)


def explain_trace(
    model: Model,
    contexts: Sequence[Tokens],
    trace: Trace,
    targets: Sequence[Target],
    method: str,
    forced: Sequence[int],
) -> Iterator[Explanation]:
    """Explain every position of a trace, example after example."""
    ledgers = settle(model, trace, targets)
    attributions = METHODS[method].attribute(trace, ledgers)
    mixing = mix_rows(model, trace) if METHODS[method].mixes else None
    normalisers = trace.logits.logsumexp(-1).tolist()
    for row, (position, target, ledger, by_block) in enumerate(
        zip(trace.places, targets, ledgers, attributions, strict=True)
    ):
        example = row // trace.places.each
        before, logits = contexts[example].first(position + 1), trace.logits[row]
        choices = [
            Choice(
                id=id_,
                text=token_text(model, id_, before),
                logit=float(trace.uncapped[row, id_]),
                probability=math.exp(float(logits[id_]) - normalisers[row]),
            )
            for id_ in (target.token, *target.foils)
        ]
        yield Explanation(
            model=model.name,
            method=method,
            tokens=before,
            forced=forced[example],
            position=position,
            target=choices[0],
            foils=tuple(choices[1:]),
            by_block=by_block.float(),
            ledger=ledger,
            mixing=None if mixing is None else mixing[row].float(),
        )


def _continuation_ids(
    model: Model, prompt: Tokens, continuation: str | Sequence[int] | None, new_tokens: int
) -> list[int]:
    if isinstance(continuation, str):
        return continue_prompt(model, prompt, continuation)
    if continuation is not None:
        ids = [index(id_) for id_ in continuation]
        if not ids:
            raise InputError(
                "The continuation is empty.", "Give at least one token, or None to generate one."
            )
        require_tokens(model, ids)
        return ids
    room = new_tokens if model.most_tokens is None else min(new_tokens, model.most_tokens - len(prompt) + 1)
    if room < 1:
        raise InputError(f"new_tokens is {new_tokens}.", "Let the model generate at least one token.")
    generated: list[int] = generate(model, prompt.ids, room)
    return generated
