"""Sums over examples by group, of constant size, kept in a file that is replaced atomically."""

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
    """Sum of the logit differences."""
    update: list[Float[Tensor, " unit"]] = field(default_factory=list)
    square: list[Float[Tensor, " unit"]] = field(default_factory=list)
    """Of updates."""
    activation: list[Float[Tensor, " unit"]] = field(default_factory=list)


@dataclass
class Tally:
    """The sums of a run, and its progress."""

    settings: Mapping[str, Any]
    """The settings: a run is only resumed with the same ones."""
    widths: tuple[int, ...]
    """Number of units (neurons or heads) of every block."""
    done: int = 0
    """Number of examples done, including skipped ones."""
    skipped: dict[str, int] = field(default_factory=dict)
    """Number of skipped examples, by reason."""
    groups: dict[str, Group] = field(default_factory=dict)

    def group(self, name: str) -> Group:
        """Return the sums of a group; zeros where it is new."""
        if name not in self.groups:
            self.groups[name] = Group(
                0,
                0.0,
                *([_make_zeros(width) for width in self.widths] for _ in range(3)),
            )
        return self.groups[name]

    def add(
        self,
        block: int,
        names: Sequence[str],
        update: Float[Tensor, "position unit"],
        activation: Float[Tensor, "position unit"] | None,
    ) -> None:
        """Add the activations and updates of a block's units in some examples, given with their groups."""
        for name in dict.fromkeys(names):
            rows = [row for row, own in enumerate(names) if own == name]
            group = self.group(name)
            own = update if len(rows) == len(names) else update[rows]
            group.update[block] += own.sum(0, dtype=torch.float64).cpu()
            group.square[block] += own.square().sum(0, dtype=torch.float64).cpu()
            if activation is not None:
                kept = activation if len(rows) == len(names) else activation[rows]
                group.activation[block] += kept.sum(0, dtype=torch.float64).cpu()

    def merge(self, other: "Tally") -> None:
        """Add the sums of a window; in the order of windows, they are the same whoever made them."""
        self.done += other.done
        for reason, count in other.skipped.items():
            self.skipped[reason] = self.skipped.get(reason, 0) + count
        for name, own in other.groups.items():
            group = self.group(name)
            group.count += own.count
            group.logit += own.logit
            for kind in ("update", "square", "activation"):
                for total, more in zip(getattr(group, kind), getattr(own, kind), strict=True):
                    total += more

    def save(self, path: Path) -> None:
        """Write atomically, so that the file is complete however the run ends."""
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
                save_file(tensors or {"none": _make_zeros(1)}, aside, metadata={"whyword": json.dumps(known)})
        except (OSError, SafetensorError) as error:
            raise InputError(
                f"{path} cannot be written: {getattr(error, 'strerror', None) or error}.",
                "Make room and run the same command again: what is finished is kept.",
            ) from None


def _make_zeros(width: int) -> Float[Tensor, " unit"]:
    return torch.zeros(width, dtype=torch.float64, device="cpu")


def count_examples(path: Path) -> int:
    """Count the examples that a file holds sums of; 0 where it is not there."""
    try:
        return int(_read_file(path)[0]["done"]) if path.exists() else 0
    except (InputError, KeyError, TypeError, ValueError):
        return 0  # the run itself says what is wrong with it


def read_tally(path: Path, settings: Mapping[str, Any], widths: tuple[int, ...]) -> Tally:
    """Resume from a file, or start from zero; refuse the file of a run with other settings."""
    if not path.exists():
        return Tally(settings, widths)
    known, tensors = _read_file(path)
    try:
        require_same(path.parent, known["settings"], settings)
        tally = Tally(settings, widths, int(known["done"]), dict(known["skipped"]))
        for index, (name, count, logit) in enumerate(known["groups"]):
            parts = [
                list(torch.split(tensors[f"{index}.{kind}"].clone(), list(widths)))
                for kind in ("update", "square", "activation")
            ]
            tally.groups[str(name)] = Group(int(count), float(logit), *parts)
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise _refuse_damaged(path, error) from None
    return tally


def _read_file(path: Path) -> tuple[Mapping[str, Any], dict[str, Tensor]]:
    try:
        with safe_open(path, "pt") as file:
            known = json.loads(file.metadata()["whyword"])
            return known, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise _refuse_damaged(path, error) from None


def _refuse_damaged(path: Path, error: Exception) -> InputError:
    return InputError(f"{path} is damaged: {error}.", "Remove it, or choose another folder.")
