"""Names of neurons: 12.383 is neuron 383 of block 12, 12.e5.383 is neuron 383 of its expert 5.

Blocks are counted from 1, experts and neurons from 0.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import InputError
from ..models.model import Model
from ..trace.neuron_activations import SHARED, list_groups

__all__ = ["Layout", "NeuronName", "lay_out_block", "lay_out_model", "read_name"]

_NAME = re.compile(rf"(\d+)\.(?:(?:e(\d+)|({SHARED}))\.)?(\d+)")


@dataclass(frozen=True)
class NeuronName:
    """Which neuron."""

    block: int
    """From 0."""
    neuron: int
    """From 0, in its MLP or expert."""
    expert: int | str | None = None
    """The expert, from 0, or "shared"; None: the MLP is not a mixture."""

    @property
    def label(self) -> str:
        """Its name as it is shown: blocks are counted from 1."""
        expert = "" if self.expert is None else f"{'' if self.expert == SHARED else 'e'}{self.expert}."
        return f"{self.block + 1}.{expert}{self.neuron}"


@dataclass(frozen=True)
class Layout:
    """The order of a block's neurons: expert after expert, or those of one MLP."""

    block: int
    groups: tuple[tuple[int | str | None, int], ...]
    """The expert, and how many neurons it has."""

    @property
    def neurons(self) -> int:
        """How many there are."""
        return sum(size for _, size in self.groups)

    def name(self, place: int) -> NeuronName:
        """Name the neuron at a place."""
        for expert, size in self.groups:
            if place < size:
                return NeuronName(self.block, place, expert)
            place -= size
        raise IndexError(place)

    def group_of(self, place: int) -> tuple[int, int]:
        """Return the index of a neuron's group, and its index within it."""
        for index, (_, size) in enumerate(self.groups):
            if place < size:
                return index, place
            place -= size
        raise IndexError(place)

    def place(self, name: NeuronName) -> int:
        """Find the index of a neuron, or refuse its name."""
        start = 0
        for expert, size in self.groups:
            if expert == name.expert and name.neuron < size:
                return start + name.neuron
            start += size
        raise InputError(
            f"There is no neuron {name.label}.", f"Block {self.block + 1} has {self._say_range()}."
        )

    def _say_range(self) -> str:
        (first, size), (last, _) = self.groups[0], self.groups[-1]
        start, own = NeuronName(self.block, 0, first).label, NeuronName(self.block, size - 1, first).label
        if len(self.groups) == 1:
            return f"neurons {start} to {own}"
        end = NeuronName(self.block, 0, last).label
        return f"{len(self.groups)} experts: {start} to {own}, and so on to {end}"


def lay_out_block(model: Model, block: int) -> Layout:
    """Lay out the neurons of one block."""
    return Layout(block, tuple(list_groups(model, block)))


def lay_out_model(model: Model) -> tuple[Layout, ...]:
    """Lay out the neurons of all blocks."""
    return tuple(lay_out_block(model, block) for block in range(len(model.blocks)))


def read_name(text: str, layouts: Sequence[Layout]) -> NeuronName:
    """Read a neuron's name, and check that the neuron exists."""
    found = _NAME.fullmatch(text.strip())
    if found is None:
        raise InputError(
            f"{text!r} is not the name of a neuron.",
            "Write block.neuron (12.383); with experts block.e5.neuron or block.shared.neuron.",
        )
    block = int(found[1]) - 1
    if not 0 <= block < len(layouts):
        raise InputError(f"There is no block {found[1]}.", f"Blocks are counted from 1 to {len(layouts)}.")
    name = NeuronName(block, int(found[4]), int(found[2]) if found[2] else found[3])
    layouts[block].place(name)
    return name
