"""The fields of the document of a survey, and the means read from it."""

from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Literal

import torch
from annotated_types import Ge, MinLen
from jaxtyping import Float
from torch import Tensor

from ..document.numbers import inside, misfit, read_tensor, require_index, require_length
from ..results.explained_prediction import Count, Numbers
from .neuron_names import Layout

__all__ = ["GroupMeans", "GroupRecord", "RankedRecord", "SplitRecord", "SurveyDocument", "read_survey"]

_PLAIN = ("part", "model", "dtype", "weights", "start", "limit")
Size = Annotated[int, Ge(1)]


@dataclass(frozen=True, eq=False)
class GroupMeans:
    """Means over the examples of one group."""

    examples: int
    logit: float
    """The mean logit difference."""
    update: tuple[Float[Tensor, " _unit"], ...]
    """The mean update of every neuron (or head), by block."""
    deviation: tuple[Float[Tensor, " _unit"], ...] | None
    """The standard deviation of these updates over examples; None: documents do not hold all of them."""


@dataclass(frozen=True, kw_only=True)
class SplitRecord:
    """How examples are divided."""

    words: list[list[str]]
    """The words of each group; the last one that occurs in a prefix decides."""
    column: str | None
    """The column of the dataset that names the group."""


@dataclass(frozen=True, kw_only=True)
class GroupRecord:
    """The examples of one group."""

    name: str
    """The group's name."""
    examples: Size
    """How many there are."""
    logit: float
    """Their mean logit difference."""
    update: list[Numbers]
    """The mean update of every neuron (or head), by block."""


@dataclass(frozen=True, kw_only=True)
class RankedRecord:
    """One of the strongest neurons (or heads)."""

    label: str
    """Its name: block.neuron with neurons from 0, or block.head with heads from 1; blocks are from 1."""
    block: Count
    """Its block, from 0."""
    expert: int | str | None
    """Its expert, from 0, or "shared"; null: the MLP is not a mixture."""
    head: Count | None = None
    """The head, from 0."""
    neuron: Count | None = None
    """The neuron, from 0, in its MLP or expert."""
    place: Count
    """Its index among all neurons (or heads) of its block."""
    mean: dict[str, float]
    """Its mean update, by group."""
    deviation: dict[str, float]
    """The standard deviation of its updates over examples, by group."""


@dataclass(frozen=True, kw_only=True)
class SurveyDocument:
    """Means over a dataset: what every neuron, or every head, adds on average, by group of examples."""

    part: Literal["neurons", "heads"]
    """What was surveyed."""
    model: str
    """The model's name."""
    dtype: str
    """The type of its numbers."""
    weights: str | float
    """Distinguishes models of the same name: the start of a hash of the weights; formerly a sum."""
    start: str | None = None
    """The start of text before every example; null: none."""
    data: tuple[tuple[str, str], ...]
    """Names and hashes of the datasets."""
    split: SplitRecord
    """How examples were divided into groups."""
    limit: int | None
    """The most examples that were used; null: no limit."""
    examples: Count
    """How many examples there are."""
    skipped: dict[str, Count]
    """Number of skipped examples, by reason."""
    groups: Annotated[tuple[GroupRecord, ...], MinLen(1)]
    """Means by group."""
    experts: Annotated[tuple[tuple[tuple[int | str, Size], ...], ...], MinLen(1)]
    """Experts and how many neurons each has, by block; none: the block is not a mixture."""
    ranked: tuple[RankedRecord, ...]
    """The strongest, or those that differ most between groups."""
    notes: dict[str, str] = field(default_factory=dict)
    """What is exact, and what to use it for."""


def read_survey(declared: SurveyDocument) -> dict[str, Any]:
    """Read the fields of a survey from its document."""
    layouts = _read_layouts(declared)
    means: dict[str, GroupMeans] = {}
    for index, group in enumerate(declared.groups):
        with inside(f"groups[{index}]"):
            if group.name in means:
                raise misfit("name", f"{group.name!r} is there twice")
            means[group.name] = _read_group(group, layouts)
    if declared.examples != sum(group.examples for group in declared.groups):
        raise misfit("examples", f"it is {declared.examples}, which is not the sum over the groups")
    ranked = []
    for index, each in enumerate(declared.ranked):
        with inside(f"ranked[{index}]"):
            ranked.append(_read_ranked(each, declared.part[:-1], layouts, means))
    settings = {name: getattr(declared, name) for name in _PLAIN}
    return {
        "settings": {
            **settings,
            "data": [list(each) for each in declared.data],
            "split": asdict(declared.split),
        },
        "skipped": declared.skipped,
        "layouts": layouts,
        "means": means,
        "ranked": tuple(ranked),
    }


def _read_layouts(declared: SurveyDocument) -> tuple[Layout, ...]:
    first = declared.groups[0].update
    require_length("groups[0].update", first, len(declared.experts))
    for block, row in enumerate(first):
        if not row:
            raise misfit(f"groups[0].update[{block}]", "it is empty")
    return tuple(
        Layout(block, experts or ((None, len(first[block])),))
        for block, experts in enumerate(declared.experts)
    )


def _read_group(group: GroupRecord, layouts: tuple[Layout, ...]) -> GroupMeans:
    require_length("update", group.update, len(layouts))
    update = tuple(
        read_tensor(f"update[{layout.block}]", row, (layout.neurons,), torch.float64)
        for layout, row in zip(layouts, group.update, strict=True)
    )
    return GroupMeans(group.examples, group.logit, update, None)


def _read_ranked(
    record: RankedRecord, unit: str, layouts: tuple[Layout, ...], means: dict[str, GroupMeans]
) -> dict[str, Any]:
    require_index("block", record.block, len(layouts))
    require_index("place", record.place, layouts[record.block].neurons)
    known = asdict(record)
    if known[unit] is None:
        raise misfit(unit, "it is missing")
    for name in ("mean", "deviation"):
        if list(known[name]) != list(means):
            raise misfit(name, f"it is of {', '.join(known[name]) or 'no group'}, not of {', '.join(means)}")
    return {name: value for name, value in known.items() if name not in {"head", "neuron"} - {unit}}
