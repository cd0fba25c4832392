"""The whole pipeline in one call: text → Tokens → Trace → Ledger → Attribution."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ..ask.prompt import Prompt, extend_prompt, read_prompt, token_texts
from ..ask.question import Question, choose, pose
from ..attribute import METHODS, Predictions, find_methods, plan_methods
from ..attribute.alti_logit import mix
from ..attribute.flow import find_depth, trace_flow
from ..attribute.methods import COMPARED, DEFAULT_METHOD
from ..attribute.mixing_rows import mix_rows
from ..errors import InputError
from ..ledger import Target, read_choices, read_likelihoods, read_ranks, settle
from ..models.model import Model
from ..results.comparison import Comparison
from ..results.explanation import Explanation
from ..results.prediction import Choice, Prediction
from ..results.token_groups import list_parts
from ..tokens import Tokens
from ..trace import Places, Plan, Readout, Trace, record
from ..trace.memory_plan import Request, make_plan

__all__ = ["compare", "explain", "mixing", "predict"]

Word = str | int


def explain(
    model: Model,
    prompt: Prompt,
    *,
    target: Word | None = None,
    foil: Word | Sequence[Word] | None = "auto",
    method: str = DEFAULT_METHOD,
    depth: int | None = None,
    parts: str | Mapping[str, Any] | None = None,
    max_memory: int | str | None = None,
) -> Explanation:
    """Explain why the next token of a prompt is the target and not the foil.

    `target`: a word or token id; None: the model's first choice. `foil`: the same, or several (the mean of
    their directions); "auto": the best-ranked rival of the target's kind (a word against a word, a function
    word against a function word, never another spelling of the target); "runner-up": the likeliest other
    token; None: no contrast, the logit of the target itself. Words of several tokens are explained at the
    first token where target and foil differ. `depth`: where flow is read, from 0 (before block 1) to the
    number of blocks; None: a tenth of them. `parts`: what erasure erases as a whole: sentence, turn, part …,
    or spans of characters by name, as in `Explanation.by`; None: each token by itself. `max_memory`: bytes,
    or a text such as "2GB", that the explanation may take beyond the forward pass; None: what is free.
    """
    asked: dict[str, Any] = {"target": target, "foil": foil, "depth": depth, "parts": parts}
    return compare(model, prompt, **asked, methods=[method], max_memory=max_memory)[method]


def compare(
    model: Model,
    prompt: Prompt,
    *,
    target: Word | None = None,
    foil: Word | Sequence[Word] | None = "auto",
    methods: Sequence[str] | None = None,
    depth: int | None = None,
    parts: str | Mapping[str, Any] | None = None,
    max_memory: int | str | None = None,
) -> Comparison:
    """Explain one prediction by several methods, from one recorded run and the further runs of baselines.

    `methods`: names; None: one method of every kind. The rest is as in `explain`. Explanations are indexed by
    the name of their method: `compare(...)["erasure"]`.
    """
    names = list_methods(methods)
    require_depth(require_decoder(model), depth, names)
    require_erasing(parts, names)
    context, question = ask(model, prompt, target, foil)
    divided = None if parts is None else [list_parts(context, parts)]
    trace = record_contexts(model, [context], last_places([context]), names, max_memory)
    targets = [choose(model, context, question, trace.logits[0])]
    forced = [len(question.forced)]
    (comparison,) = compare_trace(model, [context], trace, targets, names, forced, depth, divided)
    return comparison


def predict(model: Model, prompt: Prompt, *, top: int = 10) -> Prediction:
    """Return the most likely next tokens, the likeliest first."""
    if top < 1:
        raise InputError(f"top is {top}.", "Ask for at least one token.")
    tokens = read_prompt(require_decoder(model), prompt)
    trace = record(model, [tokens.ids], last_places([tokens]))
    best = trace.logits[0].topk(min(top, trace.logits.shape[1], model.vocabulary)).indices.tolist()
    target = Target(best[0], tuple(best[1:]))
    choices = _list_choices(model, tokens, target, *_read_numbers(model, trace, [target])[0])
    return Prediction(model.name, choices, tokens.describe_start())


def mixing(model: Model, prompt: Prompt) -> Float[Tensor, "block token token"]:
    """Return each position's residual stream as a mix of input tokens, after every block (heuristic)."""
    tokens = read_prompt(require_decoder(model), prompt)
    trace = record(model, [tokens.ids], last_places([tokens]), Plan(len(model.blocks)))
    settle(model, trace, [Target(int(trace.logits[0].argmax()))])  # nothing unproven is shown
    return mix(trace).float()


def list_methods(names: Sequence[str] | None) -> list[str]:
    """List methods, each once; refuse unknown names."""
    if isinstance(names, str):
        raise InputError(f"The methods are one text, {names!r}.", f"Pass a list, such as [{names!r}].")
    return list(find_methods(COMPARED if names is None else names))


def require_depth(model: Model, depth: int | None, methods: Sequence[str]) -> None:
    """Refuse a depth that the model does not have, or that no method uses."""
    if depth is None:
        return
    having = [name for name, method in METHODS.items() if method.frozen]
    if not set(having) & set(methods):
        raise InputError(
            f"depth is {depth!r}, but {', '.join(methods)} has no depth.",
            f"Leave it out, or use a method that has: {', '.join(having)}.",
        )
    find_depth(model, depth)


def require_erasing(parts: str | Mapping[str, Any] | None, methods: Sequence[str]) -> None:
    """Refuse parts where no method erases anything."""
    if parts is not None and not any(METHODS[name].erases for name in methods):
        having = ", ".join(name for name, method in METHODS.items() if method.erases)
        raise InputError(
            f"parts is {parts!r}, but {', '.join(methods)} erases nothing.",
            f"Leave it out and use .by(…), which adds up scores; methods that erase: {having}.",
        )


def require_decoder(model: object) -> Model:
    """Refuse what is not a loaded model, or one that translates."""
    loaded = require_model(model)
    if loaded.encoder_stack is not None:
        raise InputError(
            f"{loaded.name} is an encoder–decoder model: it needs a source, not a prompt.",
            "Use whyword.explain_translation(model, source), or `whyword translate`.",
        )
    return loaded


def require_words(model: object) -> Model:
    """Refuse what predicts no words: nothing goes on after a class."""
    loaded = require_decoder(model)
    if loaded.labels is not None:
        raise InputError(
            f"{loaded.name} predicts classes ({', '.join(loaded.labels[:4])}), not a continuation.",
            "Use whyword.explain(model, text, target=CLASS, foil=OTHER).",
        )
    return loaded


def require_model(model: object) -> Model:
    """Refuse what is not a loaded model."""
    if not isinstance(model, Model):
        raise InputError(
            f"The model is a {type(model).__name__}.",
            "Load it first: model = whyword.load(your_model, tokenizer=...).",
        )
    return model


def last_places(contexts: Sequence[Tokens]) -> Places:
    """Return the last position of every context."""
    return Places(tuple(range(len(context) - 1, len(context)) for context in contexts))


def ask(
    model: Model, prompt: Prompt, target: Word | None, foil: Word | Sequence[Word] | None
) -> tuple[Tokens, Question]:
    """Return the context whose next token is explained, and the question about it."""
    tokens = read_prompt(model, prompt)
    question = pose(model, tokens, target, foil)
    if not question.forced:
        return tokens, question
    return read_prompt(model, extend_prompt(model, tokens, question.forced)), question


def record_contexts(
    model: Model,
    contexts: Sequence[Tokens],
    places: Places,
    methods: Sequence[str],
    max_memory: int | str | None,
) -> Trace:
    """Record what the methods need of several contexts in one run, within a memory limit."""
    request = Request(len(contexts), max(map(len, contexts)), places.each)
    plan = make_plan(model, request, plan_methods(model, methods), max_memory)
    return record(model, [context.ids for context in contexts], places, plan)


def compare_trace(
    model: Model,
    contexts: Sequence[Tokens],
    trace: Trace,
    targets: Sequence[Target],
    methods: Sequence[str],
    forced: Sequence[int],
    depth: int | None = None,
    parts: Sequence[Sequence[frozenset[int]]] | None = None,
) -> Iterator[Comparison]:
    """Explain every position of a trace by every method, example after example.

    `forced`: how many tokens at the end of each context were appended because target and foil share them.
    """
    ledgers = settle(model, trace, targets)
    predictions = Predictions(
        model, [context.ids for context in contexts], trace, targets, ledgers, depth, parts
    )
    attributions = {name: METHODS[name].attribute(predictions) for name in methods}
    # Only for one position per example: for all of a continuation it would cost as much as the run itself.
    kept = any(METHODS[name].keeps_mixing for name in methods) and trace.places.each == 1
    mixing = mix_rows(model, trace) if kept else None
    flows = predictions.share(trace_flow) if trace.frozen is not None else None
    for row, described in enumerate(describe_positions(model, contexts, trace, targets, forced)):
        yield Comparison(
            **described,
            by_block={name: matrices[row].float() for name, matrices in attributions.items()},
            ledger=ledgers[row],
            mixing=None if mixing is None else mixing[row].float(),
            traced=None if flows is None else flows[row],
        )


def describe_positions(
    model: Model,
    contexts: Sequence[Tokens],
    trace: Trace,
    targets: Sequence[Target],
    forced: Sequence[int],
) -> Iterator[dict[str, Any]]:
    """Give the fields of every explanation of a position of a trace, besides its ledger."""
    numbers, first, name = _read_numbers(model, trace, targets), _read_first_attention(trace), model.name
    for row, (position, target) in enumerate(zip(trace.places, targets, strict=True)):
        example = row // trace.places.each
        before = contexts[example].first(position + 1)
        chosen, *foils = _list_choices(model, before, target, *numbers[row])
        yield {
            "model": name,
            "tokens": before,
            "forced": forced[example],
            "position": position,
            "target": chosen,
            "foils": tuple(foils),
            "first_attention": first[row],
            "computed_in": model.computed_in,
        }


def _read_numbers(
    model: Model, trace: Trace, targets: Sequence[Target]
) -> list[tuple[list[float], list[float], list[float | None], list[int]]]:
    """Read logits, probabilities, capped logits and ranks of targets and foils, position by position."""
    readout = Readout(trace.logits, trace.uncapped)
    read, ranks = read_likelihoods(readout, targets), read_ranks(readout, targets)
    logits, probabilities = read.logits.tolist(), read.probabilities.tolist()
    capped: list[list[float | None]] = [[None] * len(row) for row in logits]
    if model.logit_cap is not None:
        capped = read_choices(trace.logits, targets).tolist()
    return list(zip(logits, probabilities, capped, ranks.tolist(), strict=True))


def _read_first_attention(trace: Trace) -> list[float]:
    """Give how much attention every explained position gives to the first token, over blocks and heads."""
    by_block = [weights[:, :, 0].mean(1).float().cpu() for weights in trace.decoder.attention.weights]
    return [float(share) for share in torch.stack(by_block).mean(0)]


def _list_choices(
    model: Model,
    before: Tokens,
    target: Target,
    logits: list[float],
    probabilities: list[float],
    capped: list[float | None],
    ranks: list[int],
) -> tuple[Choice, ...]:
    texts = token_texts(model, target.choices, before)
    special = [id_ in model.special_ids for id_ in target.choices]
    numbers = zip(target.choices, texts, logits, probabilities, capped, ranks, special, strict=False)
    return tuple(Choice(*each) for each in numbers)
