"""The whole pipeline in one call: text → Tokens → Trace → Ledger → Attribution."""

from collections.abc import Sequence
from operator import index

from jaxtyping import Float
from torch import Tensor

from .attribute import METHODS, Method
from .attribute.alti_logit import mix
from .choice import AUTO, Question, choose, pose
from .errors import InputError
from .explanation import Choice, Continuation, Explanation
from .ledger import Target, settle
from .models.model import Model
from .prompt import Prompt, continue_prompt, extend_prompt, read_prompt, require_tokens, token_text
from .tokens import Tokens
from .trace import Trace, generate, record

__all__ = ["explain", "explain_continuation", "mixing", "predict"]

Word = str | int


def explain(
    model: Model,
    prompt: Prompt,
    *,
    target: Word | None = None,
    foil: Word | Sequence[Word] | None = None,
    method: str = "alti-logit",
) -> Explanation:
    """Explain the next token of a prompt, or why it is the target and not the foil.

    `target`: a word or token id; None: the model's first choice. `foil`: the same, several of them (the mean
    of their directions), or "auto": the model's runner-up. Words of several tokens are explained at the first
    token where target and foil differ.
    """
    way = _method(method)
    tokens = read_prompt(_require_model(model), prompt)
    question = pose(model, tokens, target, foil)
    context = read_prompt(model, extend_prompt(model, tokens, question.forced)) if question.forced else tokens
    trace = _record(model, context, range(len(context) - 1, len(context)), way)
    targets = [choose(question, trace.logits[0])]
    return _explain_trace(model, context, trace, targets, method, forced=len(question.forced))[0]


def explain_continuation(
    model: Model,
    prompt: Prompt,
    continuation: str | Sequence[int] | None = None,
    *,
    foil: str | None = None,
    method: str = "alti-logit",
    new_tokens: int = 20,
) -> Continuation:
    """Explain every token of a continuation from one recorded pass.

    `continuation`: text or token ids; None: what the model generates greedily, up to `new_tokens` tokens.
    `foil`: None, or "auto": the runner-up at each position. `.sum()` explains the whole continuation.
    """
    way = _method(method)
    if foil not in (None, AUTO):
        raise InputError(f"foil is {foil!r}.", 'The foil of a continuation is None or "auto": the runner-up.')
    tokens = read_prompt(_require_model(model), prompt)
    ids = _continuation_ids(model, tokens, continuation, new_tokens)
    context = read_prompt(model, extend_prompt(model, tokens, ids[:-1]))
    positions = range(len(tokens) - 1, len(context))
    trace = _record(model, context, positions, way)
    targets = [
        choose(Question((), id_, (), runner_up=foil == AUTO), logits)
        for id_, logits in zip(ids, trace.logits, strict=True)
    ]
    return Continuation(tuple(_explain_trace(model, context, trace, targets, method, forced=0)))


def predict(model: Model, prompt: Prompt, *, top: int = 10) -> tuple[Choice, ...]:
    """Give the tokens that the model would go on with, the likeliest first."""
    if top < 1:
        raise InputError(f"top is {top}.", "Ask for at least one token.")
    tokens = read_prompt(_require_model(model), prompt)
    logits = record(model, tokens.ids, range(len(tokens) - 1, len(tokens))).logits[0]
    probabilities = logits.softmax(-1)
    return tuple(
        Choice(id_, token_text(model, id_, tokens), float(logits[id_]), float(probabilities[id_]))
        for id_ in logits.topk(min(top, logits.shape[0])).indices.tolist()
    )


def mixing(model: Model, prompt: Prompt) -> Float[Tensor, "block token token"]:
    """Give each position's stream as a mix of input tokens, after every block (heuristic)."""
    tokens = read_prompt(_require_model(model), prompt)
    trace = record(model, tokens.ids, range(len(tokens) - 1, len(tokens)), mixed_blocks=len(model.blocks))
    settle(model, trace, [Target(int(trace.logits[0].argmax()))])  # nothing is shown that is not proven
    return mix(trace).float()


def _method(name: str) -> Method:
    if name not in METHODS:
        raise InputError(f"There is no method {name!r}.", f"Methods: {', '.join(METHODS)}.")
    return METHODS[name]


def _require_model(model: object) -> Model:
    if not isinstance(model, Model):
        raise InputError(
            f"The model is a {type(model).__name__}.",
            "Load it first: model = whyword.load(your_model, tokenizer=...).",
        )
    return model


def _record(model: Model, context: Tokens, positions: range, way: Method) -> Trace:
    return record(model, context.ids, positions, mixed_blocks=len(model.blocks) - 1 if way.mixes else 0)


def _explain_trace(
    model: Model, context: Tokens, trace: Trace, targets: Sequence[Target], method: str, *, forced: int
) -> list[Explanation]:
    """Explain every position of a trace."""
    ledgers = settle(model, trace, targets)
    attributions = METHODS[method].attribute(trace, ledgers)
    log_probabilities = trace.logits.log_softmax(-1)
    explanations = []
    for row, (position, target, ledger, by_block) in enumerate(
        zip(trace.positions, targets, ledgers, attributions, strict=True)
    ):
        before = context.first(position + 1)

        def weigh_choice(id_: int, row: int = row, before: Tokens = before) -> Choice:
            probability = float(log_probabilities[row, id_].exp())
            return Choice(id_, token_text(model, id_, before), float(trace.logits[row, id_]), probability)

        explanations.append(
            Explanation(
                model=model.name,
                method=method,
                tokens=before,
                forced=forced,
                position=position,
                target=weigh_choice(target.token),
                foils=tuple(weigh_choice(foil) for foil in target.foils),
                by_block=by_block.float(),
                ledger=ledger,
            )
        )
    return explanations


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
