"""Tensors as lists of numbers in a document, and back."""

from collections.abc import Iterator, Sequence, Sized
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from .schemas import REMEDY

__all__ = ["inside", "misfit", "read_tensor", "require_index", "require_length", "to_numbers"]


def to_numbers(tensor: Tensor) -> list[Any]:
    """Write float32 numbers with the few digits that give them back exactly."""
    if tensor.ndim > 1:
        return [to_numbers(row) for row in tensor]
    return [float(f"{number:.9g}") for number in tensor.tolist()]


def read_tensor(
    place: str, numbers: Sequence[Any], sizes: Sequence[int | None], dtype: torch.dtype = torch.float32
) -> Tensor:
    """Make a tensor of the numbers at a place; refuse other sizes, and what the type cannot hold.

    None of `sizes`: as many as the first has.
    """
    found: list[int] = []
    _require_sizes(place, numbers, sizes, found)
    tensor = torch.tensor(numbers, dtype=dtype, device="cpu").reshape(found)
    if not bool(tensor.isfinite().all()):
        raise misfit(place, f"some numbers are too large for {str(dtype).removeprefix('torch.')}")
    return tensor


def _require_sizes(
    place: str, numbers: Sequence[Any], sizes: Sequence[int | None], found: list[int], depth: int = 0
) -> None:
    """Compare the lengths of nested lists with sizes; those that are not known are found in the first."""
    if depth == len(found):
        first = sizes[depth]
        found.append(len(numbers) if first is None else first)
    require_length(place, numbers, found[depth])
    if depth + 1 == len(sizes):
        return
    for index, row in enumerate(numbers):
        _require_sizes(f"{place}[{index}]", row, sizes, found, depth + 1)
    found += [size or 0 for size in sizes[len(found) :]]


def require_length(place: str, values: Sized, expected: int) -> None:
    """Refuse a list that is not as long as it should be."""
    if len(values) != expected:
        raise misfit(place, f"there are {len(values)} where {expected} belong")


def require_index(place: str, index: int, size: int) -> None:
    """Refuse an index outside the given range."""
    if not 0 <= index < size:
        raise misfit(place, f"it is {index}, and there are {size}, counted from 0")


def misfit(place: str, problem: str) -> InputError:
    """Say what does not fit at a place of a document."""
    return InputError(f"{place}: {problem}.", REMEDY)


@contextmanager
def inside(place: str) -> Iterator[None]:
    """Name the part of a document that another place is in."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{place}.{error.wrong}", error.remedy) from None
