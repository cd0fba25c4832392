"""Over a dataset: what every neuron, or every head, adds on average, by group of examples."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from ..ask.start_of_text import find_start
from ..data import Dataset, Example
from ..document.kinds import SURVEY_SCHEMA
from ..document.notes import SURVEY_NOTES
from ..errors import InputError
from ..ledger.neuron_updates import settle_neurons
from ..models.model import Model
from ..pipeline.model_source import ModelSource, choose_source
from ..pipeline.one_prompt import require_decoder
from ..results.shown import Shown
from ..runs.engine import Job, Workers, choose_engine, put_in_order
from ..runs.fingerprint import fingerprint_network
from ..runs.progress import report
from ..runs.single_writer import write_folder_alone
from ..trace import Plan
from ..view.sentences import worded
from .example_batches import Recorded, read_examples, record_examples
from .neuron_names import Layout, lay_out_model
from .split import OTHER, Split
from .survey_records import GroupMeans, SurveyDocument, read_survey
from .tally import Tally, read_tally

__all__ = ["PARTS", "Survey", "survey"]

PARTS = ("neurons", "heads")
_RANKED = 10
"""Default number of neurons or heads that are ranked."""
_WINDOW = 512
"""Examples between two checkpoints; batches of similar length are cut from these."""


@dataclass(frozen=True, eq=False, repr=False)
class Survey(Shown):
    """Means over a dataset."""

    schema: ClassVar[str] = SURVEY_SCHEMA
    settings: Mapping[str, Any]
    """The settings: part, model, data, split and so on."""
    skipped: Mapping[str, int]
    """Number of skipped examples, by reason."""
    layouts: tuple[Layout, ...]
    """The order of the neurons; for heads one group for every block."""
    means: Mapping[str, GroupMeans]
    """By the name of the group, in order."""
    ranked: tuple[Mapping[str, Any], ...] | None = None
    """The strongest, as a document lists them; None: they are found from the means."""
    tally: Tally | None = None
    """The sums behind the means; None: the survey was read from a document."""

    def __repr__(self) -> str:
        examples = sum(group.examples for group in self.means.values())
        part, groups = self.settings["part"], ", ".join(self.means)
        return f"<Survey: {part} of {self.settings['model']} over {examples:,} examples; {groups}>"

    @property
    def groups(self) -> list[str]:
        """The names of the groups, in order."""
        return list(self.means)

    def mean(self, group: str, block: int) -> Float[Tensor, " unit"]:
        """Return the mean update of every neuron (or head) of a block."""
        return self.means[group].update[block]

    def deviation(self, group: str, block: int) -> Float[Tensor, " unit"]:
        """Return the standard deviation of these updates over examples."""
        known = self.means[group].deviation
        if known is None:
            raise InputError(
                "The document of a survey only has the deviations of ranked neurons or heads.",
                "Read them in to_dict()['ranked'], or run the survey again.",
            )
        return known[block]

    @worded
    def to_dict(self, top: int | None = None) -> dict[str, Any]:
        """Return the JSON document; `top`: how many are ranked; by default ten, or as many as were read."""
        return {
            "schema": self.schema,
            **self.settings,
            "examples": sum(group.examples for group in self.means.values()),
            "skipped": dict(self.skipped),
            "groups": [
                {
                    "name": name,
                    "examples": group.examples,
                    "logit": group.logit,
                    "update": [_round(update.tolist()) for update in group.update],
                }
                for name, group in self.means.items()
            ],
            "experts": [
                [[expert, size] for expert, size in layout.groups if expert is not None]
                for layout in self.layouts
            ],
            "ranked": self._rank(_RANKED if top is None else top)
            if self.ranked is None
            else [dict(each) for each in self.ranked[:top]],
            "notes": dict(SURVEY_NOTES),
        }

    @classmethod
    def _from_declared(cls, declared: SurveyDocument) -> "Survey":
        return cls(**read_survey(declared))

    def _compared(self) -> list[str]:
        """Return the groups that are compared: those of the split."""
        named = [name for name in self.groups if name != OTHER]
        return named or self.groups

    def _rank(self, top: int) -> list[dict[str, Any]]:
        """Rank by the mean update, or by how much it differs between groups."""
        found: list[tuple[float, int, int]] = []
        for block in range(len(self.layouts)):
            means = [self.mean(name, block) for name in self._compared()]
            size = means[0].abs()
            if len(means) > 1:
                size = _spread(means)
            best = size.topk(min(top, size.shape[0]))
            found += [
                (float(value), block, int(place))
                for value, place in zip(best.values, best.indices, strict=True)
            ]
        return [self._describe(block, place) for _, block, place in sorted(found, reverse=True)[:top]]

    def _describe(self, block: int, place: int) -> dict[str, Any]:
        name = self.layouts[block].name(place)
        heads = self.settings["part"] == "heads"
        return {
            "label": f"{block + 1}.{place + 1}" if heads else name.label,
            "block": block,
            "expert": name.expert,
            "head" if heads else "neuron": name.neuron,
            "place": place,
            "mean": {each: float(self.mean(each, block)[place]) for each in self.groups},
            "deviation": {each: float(self.deviation(each, block)[place]) for each in self.groups},
        }


def survey(
    model: Model,
    datasets: Sequence[Dataset],
    *,
    part: str = "neurons",
    split: Split | None = None,
    folder: str | Path | None = None,
    limit: int | None = None,
    engine: str = "local",
    workers: int | Workers = 1,
    source: ModelSource | None = None,
) -> Survey:
    """Return the mean update of every neuron (or head) over the examples of datasets.

    `folder`: where the sums are kept; a run that was stopped is resumed from there. `limit`: the most
    examples. `engine`, `workers`: where examples are recorded (see `run`): sums are the same everywhere.
    `source`: where other processes find the model; None: it is sent.
    """
    if part not in PARTS:
        raise InputError(f"part is {part!r}.", f"There are {' and '.join(PARTS)}.")
    split = split or Split()
    layouts = _lay_out(require_decoder(model), part)
    settings = _settings(model, datasets, part, split, limit)
    path = None if folder is None else Path(folder) / f"{part}.safetensors"
    widths = tuple(layout.neurons for layout in layouts)
    every = chain.from_iterable(dataset.examples for dataset in datasets)
    total = min(sum(map(len, datasets)), limit or sys.maxsize)
    chosen = choose_engine(engine, workers)
    with nullcontext() if path is None else write_folder_alone(path.parent), chosen.working():
        tally = Tally(settings, widths) if path is None else read_tally(path, settings, widths)
        examples = list(islice(every, total))
        windows = range(tally.done, total, _WINDOW)
        found = choose_source(chosen, model, source)
        job = Job(
            partial(_read_window, examples),
            partial(_begin, found, Tally(settings, widths), split),
        )
        for _, own in put_in_order(windows, chosen.map(job, windows)):
            split.require_few([*{*own.groups, *tally.groups}])
            tally.merge(own)
            report("examples", tally.done, total)
            if path is not None:
                tally.save(path)
    if not tally.groups:
        reasons = "; ".join(tally.skipped) or "there are none"
        raise InputError(f"No example could be used: {reasons}.", "Choose another dataset.")
    return _finish(tally, split, layouts)


def _finish(tally: Tally, split: Split, layouts: tuple[Layout, ...]) -> Survey:
    """Divide the sums by the numbers of examples."""
    means = {}
    for name in split.order(list(tally.groups)):
        own = tally.groups[name]
        update = tuple(each / own.count for each in own.update)
        deviation = tuple(
            (square / own.count - mean**2).clamp(min=0).sqrt()
            for square, mean in zip(own.square, update, strict=True)
        )
        means[name] = GroupMeans(own.count, own.logit / own.count, update, deviation)
    return Survey(tally.settings, tally.skipped, layouts, means, tally=tally)


def _lay_out(model: Model, part: str) -> tuple[Layout, ...]:
    if part == "neurons":
        return lay_out_model(model)
    heads: int = model.config.num_attention_heads
    return tuple(Layout(block, ((None, heads),)) for block in range(len(model.blocks)))


def _settings(
    model: Model, datasets: Sequence[Dataset], part: str, split: Split, limit: int | None
) -> dict[str, Any]:
    """Describe a run: it is only resumed with the same settings."""
    return {
        "part": part,
        "model": model.name,
        "weights": fingerprint_network(model.network)[:12],
        "start": find_start(model).text,
        "dtype": str(model.dtype).removeprefix("torch."),
        "data": [[dataset.name, dataset.hash] for dataset in datasets],
        "split": {"words": [list(group) for group in split.words], "column": split.column},
        "limit": limit,
    }


def _read_window(examples: Sequence[Example], start: int) -> Sequence[Example]:
    """Read the examples between two checkpoints."""
    return examples[start : start + _WINDOW]


def _begin(source: ModelSource, empty: Tally, split: Split) -> Callable[[Sequence[Example]], Tally]:
    """Make a worker ready."""
    return partial(_add_window, source.open(), empty=empty, split=split)


def _add_window(model: Model, window: Sequence[Example], empty: Tally, split: Split) -> Tally:
    """Add up the examples of a window."""
    tally = Tally(empty.settings, empty.widths)
    names = [split.name(example) for example in window]
    split.require_few([*{*names}])
    asked, refused = read_examples(model, window)
    for _, reason in refused:
        tally.skipped[reason] = tally.skipped.get(reason, 0) + 1
    neurons = tally.settings["part"] == "neurons"
    for recorded in record_examples(model, asked, Plan(neurons=neurons)):
        own = [names[each.number] for each in recorded.asked]
        for name, ledger in zip(own, recorded.ledgers, strict=True):
            group = tally.group(name)
            group.count += 1
            group.logit += ledger.logit
        for block, update, activation in _list_updates(model, recorded, neurons):
            tally.add(block, own, update, activation)
    tally.done += len(window)
    return tally


def _list_updates(
    model: Model, recorded: Recorded, neurons: bool
) -> Iterator[tuple[int, Float[Tensor, "position unit"], Float[Tensor, "position unit"] | None]]:
    """Return the updates of every block: of its neurons, with their activations, or of its heads."""
    if neurons:
        for entries in settle_neurons(model, recorded.trace, recorded.targets):
            yield entries.block, entries.update, entries.activation
        return
    heads = torch.stack([ledger.by_head.sum(2) for ledger in recorded.ledgers])
    for block in range(heads.shape[1]):
        yield block, heads[:, block], None


def _spread(means: Sequence[Float[Tensor, " unit"]]) -> Float[Tensor, " unit"]:
    """Return the largest difference between two groups."""
    largest = smallest = means[0]
    for mean in means[1:]:
        largest, smallest = largest.maximum(mean), smallest.minimum(mean)
    return largest - smallest


def _round(numbers: list[float]) -> list[float]:
    return [float(f"{number:.6g}") for number in numbers]
