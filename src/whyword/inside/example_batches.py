"""Examples of a dataset, recorded and settled batch by batch."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..ask.question import choose
from ..data import Example
from ..errors import InputError
from ..ledger import Ledger, Target, settle
from ..models.model import Model
from ..pipeline.many_prompts import Asked, cut_prompts, run_prompts
from ..pipeline.one_prompt import ask, last_places
from ..trace import Plan, Trace, record

__all__ = ["Recorded", "read_examples", "record_examples"]


@dataclass(frozen=True, eq=False)
class Recorded:
    """The examples of one recorded run."""

    asked: tuple[Asked, ...]
    """The questions; `number` is the example's index."""
    trace: Trace
    targets: tuple[Target, ...]
    ledgers: tuple[Ledger, ...]


def read_examples(model: Model, examples: Sequence[Example]) -> tuple[list[Asked], list[tuple[int, str]]]:
    """Tokenize examples; list those that cannot be used, with the reason."""
    asked: list[Asked] = []
    refused: list[tuple[int, str]] = []
    for number, example in enumerate(examples):
        try:
            asked.append(Asked(number, *ask(model, example.prefix, example.target, example.foil)))
        except InputError as error:
            refused.append((number, error.wrong))
    return asked, refused


def record_examples(model: Model, asked: Sequence[Asked], plan: Plan) -> Iterator[Recorded]:
    """Record examples in batches of similar length; a batch that runs out of memory is halved."""
    batches = cut_prompts(model, asked, plan, None)
    return run_prompts(batches, lambda batch: _record(model, batch, plan))


def _record(model: Model, batch: Sequence[Asked], plan: Plan) -> Recorded:
    contexts = [each.context for each in batch]
    trace = record(model, [context.ids for context in contexts], last_places(contexts), plan)
    targets = tuple(
        choose(model, each.context, each.question, logits)
        for each, logits in zip(batch, trace.logits, strict=True)
    )
    return Recorded(tuple(batch), trace, targets, settle(model, trace, targets))
