"""Sums over examples by group, as large for a thousand as for one, kept in a file that is always whole."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from ..errors import InputError
from ..runs.journal import require_same
from ..runs.whole_files import write_aside

__all__ = ["Group", "Tally", "count_examples", "read_tally"]


@dataclass
class Group:
    """Sums over the examples of one group, in float64, by block."""

    count: int = 0
    logit: float = 0.0
    """Sum of the differences of logits."""
    update: list[Float[Tensor, " unit"]] = field(default_factory=list)
    square: list[Float[Tensor, " unit"]] = field(default_factory=list)
    """Of updates."""
    activation: list[Float[Tensor, " unit"]] = field(default_factory=list)


@dataclass
class Tally:
    """Sums of a run, and how far it is."""

    settings: Mapping[str, Any]
    """What was asked for: a run goes on only where it was asked for the same."""
    widths: tuple[int, ...]
    """Units (neurons or heads) of every block."""
    done: int = 0
    """Examples that were looked at, those that were skipped too."""
    skipped: dict[str, int] = field(default_factory=dict)
    """How many examples could not be asked, by the reason."""
    groups: dict[str, Group] = field(default_factory=dict)

    def group(self, name: str) -> Group:
        """Give the sums of a group, zeros where it is new."""
        if name not in self.groups:
            self.groups[name] = Group(
                0,
                0.0,
                *([torch.zeros(width, dtype=torch.float64) for width in self.widths] for _ in range(3)),
            )
        return self.groups[name]

    def add(
        self,
        block: int,
        names: Sequence[str],
        update: Float[Tensor, "position unit"],
        activation: Float[Tensor, "position unit"] | None,
    ) -> None:
        """Add what the units of a block did in some examples, whose groups are named."""
        for name in dict.fromkeys(names):
            rows = [row for row, own in enumerate(names) if own == name]
            group = self.group(name)
            own = update if len(rows) == len(names) else update[rows]
            group.update[block] += own.sum(0, dtype=torch.float64).cpu()
            group.square[block] += own.square().sum(0, dtype=torch.float64).cpu()
            if activation is not None:
                kept = activation if len(rows) == len(names) else activation[rows]
                group.activation[block] += kept.sum(0, dtype=torch.float64).cpu()

    def save(self, path: Path) -> None:
        """Write aside and rename, so that whatever ends the run leaves a whole file."""
        tensors = {
            f"{index}.{kind}": torch.cat(getattr(group, kind))
            for index, group in enumerate(self.groups.values())
            for kind in ("update", "square", "activation")
        }
        known = {
            "settings": self.settings,
            "done": self.done,
            "skipped": self.skipped,
            "groups": [[name, group.count, group.logit] for name, group in self.groups.items()],
        }
        try:
            with write_aside(path) as aside:
                save_file(tensors or {"none": torch.zeros(1)}, aside, metadata={"whyword": json.dumps(known)})
        except OSError as error:
            raise InputError(
                f"{path} cannot be written: {error}.", "Name a folder where you may write."
            ) from None


def count_examples(path: Path) -> int:
    """Count the examples that a file holds sums of; 0 where it is not there."""
    if not path.exists():
        return 0
    with safe_open(path, "pt") as file:
        return int(json.loads(file.metadata()["whyword"])["done"])


def read_tally(path: Path, settings: Mapping[str, Any], widths: tuple[int, ...]) -> Tally:
    """Go on from a file, or from nothing; refuse one of a run that was asked for something else."""
    if not path.exists():
        return Tally(settings, widths)
    try:
        with safe_open(path, "pt") as file:
            known = json.loads(file.metadata()["whyword"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} is damaged: {error}.", "Remove it, or choose another folder.") from None
    require_same(path.parent, known["settings"], settings)
    tally = Tally(settings, widths, known["done"], known["skipped"])
    for index, (name, count, logit) in enumerate(known["groups"]):
        parts = [
            list(torch.split(tensors[f"{index}.{kind}"].clone(), list(widths)))
            for kind in ("update", "square", "activation")
        ]
        tally.groups[name] = Group(count, logit, *parts)
    return tally
