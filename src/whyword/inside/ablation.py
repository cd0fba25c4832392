"""Mean ablation: set a neuron to its mean, and see if the logit difference changes as its update predicts.

The mean is taken over one half of the examples, the effect is measured on the other half. The direct effect,
along the residual stream, is known in advance: (mean − k) · (W_2[n] · u). The measured effect also includes
what later blocks do with it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Annotated, Any, ClassVar

import torch
from annotated_types import MinLen
from torch import Tensor, nn

from ..ask.start_of_text import find_start
from ..data import Dataset, Example
from ..document.kinds import ABLATION_SCHEMA
from ..errors import InputError, ModelError
from ..ledger.direction import read_logits
from ..ledger.neuron_updates import settle_neurons
from ..models.model import Model, find_down, module_at
from ..pipeline.one_prompt import require_decoder
from ..results.explained_prediction import Count
from ..results.shown import Shown
from ..runs.progress import report
from ..trace import Places, Plan, record
from ..trace.hooks import replace_inputs
from ..trace.neuron_activations import mlp_of
from .example_batches import Recorded, read_examples, record_examples
from .neuron_names import NeuronName, lay_out_block, lay_out_model, read_name
from .split import ALL, Split

__all__ = ["Ablation", "Effect", "ablate"]


@dataclass(frozen=True)
class Effect:
    """The effect on the held-out examples of one group."""

    group: str
    """The name of the group."""
    examples: Count
    """How many there are."""
    logit: float
    """Their mean logit difference."""
    update: float
    """The mean update of the neuron."""
    predicted: float
    """The mean change along the residual stream."""
    measured: float
    """The mean change of the model's own logit difference."""
    agreement: float
    """The share of examples whose difference changes in the predicted direction."""


@dataclass(frozen=True)
class Ablation(Shown):
    """The effect of setting a neuron to its mean."""

    schema: ClassVar[str] = ABLATION_SCHEMA
    model: str
    """The model's name."""
    label: str
    """The neuron's name."""
    mean: float
    """The activation it is set to: the mean over examples 1 and 2, 5 and 6, 9 and 10, …"""
    effects: Annotated[tuple[Effect, ...], MinLen(1)]
    """On the other, held-out examples: all of them, and by group."""
    start: str | None = None
    """The start of text before every example; null: none."""


@dataclass(frozen=True)
class _Change:
    group: str
    logit: float
    update: float
    predicted: float
    measured: float


def ablate(
    model: Model,
    datasets: Sequence[Dataset],
    neuron: str,
    *,
    split: Split | None = None,
    limit: int | None = None,
) -> Ablation:
    """Set a neuron (12.383) to its mean at the explained position, in held-out examples."""
    name = read_name(neuron, lay_out_model(require_decoder(model)))
    if name.expert is not None:
        raise InputError(
            f"{name.label} is a neuron of an expert.", "Only neurons of plain and gated MLPs can be ablated."
        )
    _require_own_down(model, name)
    examples = list(islice(chain.from_iterable(dataset.examples for dataset in datasets), limit))
    # Pairs stay together: the examples of a pair differ in exactly what a neuron may be about.
    averaged, held_out = (
        [each for place, each in enumerate(examples) if place // 2 % 2 == half] for half in (0, 1)
    )
    means = [
        activation
        for recorded in _record(model, averaged)
        for activation in _read(model, recorded, name)[0].tolist()
    ]
    _require_some(means and held_out, examples)
    mean = sum(means) / len(means)
    changes: list[_Change] = []
    for recorded in _record(model, held_out):
        changes += _change(model, recorded, name, mean, [(split or Split()).name(each) for each in held_out])
        report("examples", len(averaged) + len(changes), len(examples))
    _require_some(changes, examples)
    groups = (split or Split()).order(list({change.group for change in changes}))
    effects = [_summarise(ALL, changes)] + [
        _summarise(group, [change for change in changes if change.group == group])
        for group in groups
        if group != ALL
    ]
    return Ablation(model.name, name.label, mean, tuple(effects), find_start(model).text)


def _require_own_down(model: Model, name: NeuronName) -> None:
    """Refuse a neuron that writes through a module of several blocks: it would be set in all of them."""
    down = _down_of(model, name)
    shared = [str(index + 1) for index, block in enumerate(model.blocks) if down in block.modules()]
    if len(shared) > 1:
        named = model.blocks[name.block].named_modules()
        path = next(path for path, module in named if module is down)
        raise ModelError(
            f"Blocks {' and '.join(shared)} of {model.name} share {path}, through which {name.label} "
            "writes: it would be set in all of them.",
            "Give every block a module of its own (copy.deepcopy), then load the network.",
        )


def _require_some(usable: Sequence[Any], examples: Sequence[Example]) -> None:
    """Refuse examples of which one half has none that can be used."""
    if not usable:
        raise InputError(
            f"{len(examples)} examples are too few.",
            "Choose a dataset with usable examples in both halves: 1, 2, 5, 6, … and 3, 4, 7, 8, …",
        )


def _record(model: Model, examples: Sequence[Example]) -> Any:
    asked, _ = read_examples(model, examples)
    return record_examples(model, asked, Plan(neurons=True))


def _read(model: Model, recorded: Recorded, name: NeuronName) -> tuple[Tensor, Tensor, Tensor]:
    """Return a neuron's activations, updates, and what one unit of activation adds, in every example."""
    place = lay_out_block(model, name.block).place(name)
    blocks = settle_neurons(model, recorded.trace, recorded.targets)
    entries = next(each for each in blocks if each.block == name.block)
    return entries.activation[:, place], entries.update[:, place], entries.worth[:, place]


def _change(
    model: Model, recorded: Recorded, name: NeuronName, mean: float, groups: Sequence[str]
) -> list[_Change]:
    """Run the examples of a batch again, with the neuron set to its mean."""
    activation, update, worth = _read(model, recorded, name)
    places, ids = recorded.trace.places, [each.context.ids for each in recorded.asked]
    with replace_inputs(_down_of(model, name), lambda read: _set(read, places, name.neuron, mean)):
        ablated = record(model, ids, places)
    before = read_logits(recorded.trace.uncapped, recorded.targets)
    measured = read_logits(ablated.uncapped, recorded.targets) - before
    predicted = (mean - activation) * worth
    columns = zip(before.tolist(), update.tolist(), predicted.tolist(), measured.tolist(), strict=True)
    return [
        _Change(groups[each.number], *numbers) for each, numbers in zip(recorded.asked, columns, strict=True)
    ]


def _down_of(model: Model, name: NeuronName) -> nn.Module:
    mlp = mlp_of(model)
    return find_down(module_at(model.blocks[name.block], mlp.output), mlp)


def _set(read: Tensor, places: Places, neuron: int, mean: float) -> Tensor:
    """Set a neuron at the explained positions, whether or not the model has flattened the batch."""
    changed = read.clone()
    by_example = changed.reshape(len(places.ranges), -1, read.shape[-1])
    index = places.index(read.device)
    by_example[torch.arange(len(index), device=read.device)[:, None], index, neuron] = mean
    return by_example.reshape(read.shape)


def _summarise(group: str, changes: Sequence[_Change]) -> Effect:
    count = len(changes)
    agreeing = sum(change.predicted * change.measured > 0 for change in changes)
    return Effect(
        group=group,
        examples=count,
        logit=sum(change.logit for change in changes) / count,
        update=sum(change.update for change in changes) / count,
        predicted=sum(change.predicted for change in changes) / count,
        measured=sum(change.measured for change in changes) / count,
        agreement=agreeing / count,
    )
