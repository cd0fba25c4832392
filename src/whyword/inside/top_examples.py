"""The examples of a dataset where a neuron is most active."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import ClassVar

from ..ask.start_of_text import find_start
from ..data import Dataset
from ..document.kinds import ANSWERS_SCHEMA
from ..ledger.neuron_updates import settle_neurons
from ..models.model import Model
from ..pipeline.one_prompt import require_decoder
from ..results.explained_prediction import Count
from ..results.shown import Shown
from ..runs.progress import report
from ..trace import Plan
from .example_batches import read_examples, record_examples
from .neuron_names import lay_out_block, lay_out_model, read_name

__all__ = ["Answer", "Answers", "find_answers"]

_WINDOW = 512


@dataclass(frozen=True, order=True)
class Answer:
    """A neuron's activation and update in one example."""

    activation: float
    """The activation: what the down projection read."""
    update: float
    """What the neuron adds to the logit difference."""
    dataset: str
    """The name of the dataset."""
    row: int
    """The row of the example."""
    prefix: str
    """The text before target and foil."""
    target: str
    """The word that is right."""
    foil: str
    """The word that is wrong."""


@dataclass(frozen=True)
class Answers(Shown):
    """The examples where a neuron is most active."""

    schema: ClassVar[str] = ANSWERS_SCHEMA
    model: str
    """The model's name."""
    label: str
    """The neuron's name."""
    examples: Count
    """How many examples were searched."""
    highest: tuple[Answer, ...]
    """Highest activation first."""
    lowest: tuple[Answer, ...]
    """Lowest activation first."""
    start: str | None = None
    """The start of text before every example; null: none."""


def find_answers(
    model: Model, datasets: Sequence[Dataset], neuron: str, *, top: int = 10, limit: int | None = None
) -> Answers:
    """Find the examples with the highest and the lowest activations of a neuron (12.383)."""
    name = read_name(neuron, lay_out_model(require_decoder(model)))
    place = lay_out_block(model, name.block).place(name)
    highest: list[Answer] = []
    lowest: list[Answer] = []
    count, total = 0, sum(map(len, datasets))
    examples = islice(chain.from_iterable(dataset.examples for dataset in datasets), limit)
    while window := list(islice(examples, _WINDOW)):
        asked, _ = read_examples(model, window)
        for recorded in record_examples(model, asked, Plan(neurons=True)):
            blocks = settle_neurons(model, recorded.trace, recorded.targets)
            entries = next(each for each in blocks if each.block == name.block)
            numbers = zip(
                entries.activation[:, place].tolist(), entries.update[:, place].tolist(), strict=True
            )
            for each, (activation, update) in zip(recorded.asked, numbers, strict=True):
                own = window[each.number]
                words = own.dataset, own.row, own.prefix, own.target, own.foil
                highest.append(Answer(activation, update, *words))
                lowest.append(highest[-1])
            highest, lowest = heapq.nlargest(top, highest), heapq.nsmallest(top, lowest)
            count += len(recorded.asked)
            report("examples", count, total)
    return Answers(model.name, name.label, count, tuple(highest), tuple(lowest), find_start(model).text)
