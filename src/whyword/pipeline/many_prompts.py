"""Many prompts: one recorded run for as many as fit, with the same numbers as one by one.

Prompts are read ahead and cut into batches of similar length; explanations are yielded in the order of the
prompts.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, repeat
from typing import Any, TypeVar

import torch

from ..ask.chat_turns import shorten
from ..ask.prompt import Prompt
from ..ask.question import Question, choose
from ..attribute import plan_methods
from ..attribute.methods import DEFAULT_METHOD
from ..errors import InputError
from ..ledger import Target
from ..models.model import Model
from ..results.comparison import Comparison
from ..results.explanation import Explanation
from ..results.token_groups import list_parts
from ..runs.batches import cut_batches, run_batches
from ..runs.progress import report
from ..tokens import Tokens
from ..trace import Plan
from ..trace.memory_plan import Request, estimate, free_memory
from ..trace.untouched_run import must_run_alone
from .one_prompt import (
    Word,
    ask,
    compare_trace,
    last_places,
    list_methods,
    record_contexts,
    require_decoder,
    require_depth,
    require_erasing,
)

__all__ = ["Asked", "compare_batch", "compare_together", "cut_prompts", "explain_batch", "run_prompts"]

_AHEAD = 1024
"""How many prompts are read ahead, to find some of similar length."""
_TOKENS = {"cpu": 512}
"""Most tokens of a batch, by device: larger batches are no faster (on prompts of 1 to 10 tokens, batches of
32 to 128 prompts were equally fast, smaller and larger ones up to 250 slower)."""
_MOST_TOKENS = 8192
_SHARE = 0.5
"""The share of free memory that a batch may take."""
_SIMILAR = 8
"""How many tokens more than twice its shortest prompt a batch's longest one may have."""
_MISSING = object()
_ONE_FOR_EACH = "Pass one per prompt (None where there is none), or one word for all."
Result = TypeVar("Result")


def explain_batch(
    model: Model,
    prompts: Iterable[Prompt],
    *,
    targets: Word | Iterable[Word | None] | None = None,
    foils: Word | Iterable[Word | Sequence[Word] | None] | None = "auto",
    method: str = DEFAULT_METHOD,
    depth: int | None = None,
    batch_size: int | None = None,
) -> Iterator[Explanation]:
    """Explain the next token of many prompts, in order, with one run of the network per batch.

    `targets`, `foils`: one for each prompt (see `explain`), or one for all. `batch_size`: the most prompts of
    a run; None: as many as help, and fit into half of the free memory. Up to 1,024 prompts (or 16 batches)
    are read ahead. `depth`: see `explain`.
    """
    compared = compare_batch(
        model, prompts, targets=targets, foils=foils, methods=[method], depth=depth, batch_size=batch_size
    )
    return (comparison[method] for comparison in compared)


def compare_batch(
    model: Model,
    prompts: Iterable[Prompt],
    *,
    targets: Word | Iterable[Word | None] | None = None,
    foils: Word | Iterable[Word | Sequence[Word] | None] | None = "auto",
    methods: Sequence[str] | None = None,
    depth: int | None = None,
    parts: str | Mapping[str, Any] | Iterable[str | Mapping[str, Any]] | None = None,
    batch_size: int | None = None,
) -> Iterator[Comparison]:
    """Explain the next token of many prompts by several methods, in order.

    One recorded run per batch serves all methods; the further runs of baselines are batched too.
    `methods`: see `compare`; `parts`: what erasure erases, one for each prompt or one for all (see
    `explain`); the rest is as in `explain_batch`.
    """
    names = list_methods(methods)
    if batch_size is not None and batch_size < 1:
        raise InputError(f"batch_size is {batch_size}.", "Pass the number of prompts per batch, at least 1.")
    if isinstance(prompts, str):
        raise InputError("The prompts are one text.", "Pass a list of prompts; for a single one use explain.")
    if not isinstance(prompts, Iterable):
        raise InputError(f"The prompts are {shorten(prompts)}.", "Pass a list of prompts.")
    require_depth(require_decoder(model), depth, names)
    if parts is not None:
        require_erasing("given", names)
    asked = _read(model, prompts, targets, foils, parts)
    total = len(prompts) if isinstance(prompts, Sequence) else None
    return _compare_all(model, asked, names, depth, batch_size, total)


@dataclass(frozen=True)
class Asked:
    """A prompt with its question, tokenized."""

    number: int
    """Index of the prompt, from 0."""
    context: Tokens
    question: Question
    parts: Sequence[frozenset[int]] | None = None
    """What is erased as a whole."""


def _refuse(number: int, error: InputError) -> InputError:
    """Say which prompt an error is about."""
    return InputError(f"Prompt {number + 1}: {error.wrong}", error.remedy)


def _compare_all(
    model: Model,
    asked: Iterator[Asked | InputError],
    methods: list[str],
    depth: int | None,
    batch_size: int | None,
    total: int | None,
) -> Iterator[Comparison]:
    """Compare window after window; an error is raised when it is its prompt's turn."""
    done, plan = 0, plan_methods(model, methods)
    while window := list(islice(asked, _AHEAD if batch_size is None else 16 * batch_size)):
        found: dict[int, Comparison | InputError] = {}
        read = [each for each in window if isinstance(each, Asked)]
        batches = cut_prompts(model, read, plan, batch_size)
        for results in run_prompts(batches, lambda batch: compare_together(model, batch, methods, depth)):
            found.update(results)
            while done in found:
                comparison = found.pop(done)
                if isinstance(comparison, InputError):
                    raise comparison
                done += 1
                report("prompts", done, total)
                yield comparison
        if isinstance(window[-1], InputError):
            raise window[-1]


def _read(
    model: Model, prompts: Iterable[Prompt], targets: Any, foils: Any, parts: Any
) -> Iterator[Asked | InputError]:
    """Read every prompt with its target, foil and parts, up to the first one with an error."""
    named = {"targets": targets, "foils": foils, "parts": parts}
    columns = {name: _one_for_each(words) for name, words in named.items()}
    for number, prompt in enumerate(prompts):
        words: list[Any] = [next(column, _MISSING) for column in columns.values()]
        for name, word in zip(columns, words, strict=True):
            if word is _MISSING:
                yield InputError(f"There are {number} {name}, and more prompts.", _ONE_FOR_EACH)
                return
        try:
            context, question = ask(model, prompt, *words[:2])
            divided = None if words[2] is None else list_parts(context, words[2])
        except InputError as error:
            yield _refuse(number, error)
            return
        yield Asked(number, context, question, divided)
    for name, column in columns.items():
        if not isinstance(column, repeat) and next(column, _MISSING) is not _MISSING:
            yield InputError(f"There are more {name} than prompts.", _ONE_FOR_EACH)


def _one_for_each(words: Any) -> Iterator[Any]:
    """Return a word for each prompt; a single word is used for all."""
    return repeat(words) if words is None or isinstance(words, str | int | Mapping) else iter(words)


def cut_prompts(
    model: Model, asked: Sequence[Asked], plan: Plan, batch_size: int | None, room: int | None = None
) -> list[list[Asked]]:
    """Cut prompts into batches of similar length; the batch with the first prompt comes first.

    Where a user's own hooks act, each prompt is a batch. Padding never takes a prompt over a length at which
    the model may change what it does. `room`: bytes that a batch may take; None: half of what is free.
    """
    find_class = model.lengths.find
    batch_size = 1 if must_run_alone(model) else batch_size
    room = int(_SHARE * free_memory(model.device)) if room is None else room

    def fits(batch: Sequence[Asked]) -> bool:
        shortest, longest = len(batch[0].context), len(batch[-1].context)
        if longest > 2 * shortest + _SIMILAR or find_class(shortest) != find_class(longest):
            return False
        if batch_size is not None:
            return len(batch) <= batch_size
        return _pays(model, len(batch), longest, plan, room)

    batches = cut_batches(asked, lambda each: len(each.context), fits)
    return sorted(batches, key=lambda batch: min(each.number for each in batch))


def run_prompts(
    batches: Sequence[Sequence[Asked]], run: Callable[[Sequence[Asked]], Result]
) -> Iterator[Result]:
    """Run batches of prompts; one that runs out of memory is halved, and so are those after it."""
    return run_batches(batches, run, _name, _refuse_size)


def _name(batch: Sequence[Asked]) -> str:
    return f"{len(batch)} prompts of up to {max(len(each.context) for each in batch)} tokens"


def _refuse_size(asked: Asked) -> InputError:
    return InputError(
        f"Prompt {asked.number + 1} ({len(asked.context):,} tokens) ran out of memory.",
        "Explain it with explain(..., max_memory=...), by method='logit', or shorten it.",
    )


def _pays(model: Model, examples: int, tokens: int, plan: Plan, room: int) -> bool:
    """Say whether a batch of this size is faster, and fits into memory."""
    if examples * tokens > _TOKENS.get(model.device.type, _MOST_TOKENS):
        return False
    width: int = model.config.hidden_size
    forward = examples * tokens * 24 * width * torch.finfo(model.dtype).bits // 8
    return estimate(model, Request(examples, tokens), plan) + forward <= room


def compare_together(
    model: Model,
    batch: Sequence[Asked],
    methods: Sequence[str],
    depth: int | None,
    max_memory: int | None = None,
) -> list[tuple[int, Comparison | InputError]]:
    """Compare methods on the prompts of a batch, from one recorded run."""
    contexts = [each.context for each in batch]
    trace = record_contexts(model, contexts, last_places(contexts), methods, max_memory)
    targets: list[Target] = []
    refused: dict[int, InputError] = {}
    for each, logits in zip(batch, trace.logits, strict=True):
        try:
            targets.append(choose(model, each.context, each.question, logits))
        except InputError as error:
            refused[each.number] = _refuse(each.number, error)
            targets.append(Target(int(logits.argmax())))
    forced = [len(each.question.forced) for each in batch]
    divided = [each.parts for each in batch if each.parts is not None]
    compared = compare_trace(model, contexts, trace, targets, methods, forced, depth, divided or None)
    return [
        (each.number, refused.get(each.number, comparison))
        for each, comparison in zip(batch, compared, strict=True)
    ]
