"""Projections: modules that map linearly, plus a bias, whatever they are made of.

The weight of a plain projection is read, and low-rank adapters beside it. That of any other (other adapters,
quantised weights, weights that are fetched when the module runs) is asked of the module itself:

matrix:     its action on basis vectors, less what it gives for 0, which is the bias
transpose:  the vector–Jacobian product that torch computes, or the matrix where torch computes none

A matrix is kept only where it is no larger than what its module holds anyway, and is compared with the module
on one vector before it is used again: an adapter may have been switched, a weight trained.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from ..errors import ModelError, WhywordError, first_line
from .asked_matrices import AskedMatrices
from .low_rank import LowRank, is_changed, read_low_rank
from .paths import list_modules
from .run_modes import asking
from .weights import dequantise, device_of, is_opaque, is_plain, orient, output_bias, read_weight, read_width

__all__ = ["Projection"]

_CHUNK = 1024
"""How many basis vectors a module is given at once."""
_COLUMNS = 64
"""How many columns it is asked for at once: a vocabulary is wide."""
_SAME = {
    torch.float64: 1e-12,
    torch.float32: 1e-5,
    torch.float16: 1e-3,
    torch.bfloat16: 8e-3,
    torch.int8: 6e-2,
}
"""How far a matrix may be from what its module does to one vector, by how exactly modules compute."""


class Projection:
    """A module as a linear map plus a bias; `rows @ matrix + bias` is what it gives."""

    def __init__(
        self,
        module: nn.Module,
        given: torch.dtype,
        dtype: torch.dtype,
        exactness: Callable[[], torch.dtype],
        kept: AskedMatrices,
    ) -> None:
        self.module = module
        self.plain = is_plain(module)
        self.exactness = exactness
        """Gives the type whose rounding is allowed."""
        self.given = given
        """The type that the module is given."""
        self._dtype = dtype
        """The type that is computed in."""
        self._kept = kept
        read = orient(module, module.weight).shape[0] if self.plain else read_width(module)
        if read is None:
            raise ModelError(
                f"{type(module).__name__} has no weight that updates could be computed from.",
                "Name the module that holds the matrix in the description: "
                "whyword.load(..., architecture=...).",
            )
        self.read = read
        """How many components it reads."""
        self._known: tuple[Tensor, Tensor] | None = None
        """Matrix and bias, where they are kept: compared with the module once."""
        self.held: Tensor | None = None
        """Its dequantised matrix, while it is held."""

    @cached_property
    def low_rank(self) -> LowRank | None:
        """Its parts, where it is a plain weight with low-rank adapters: compared with the module once."""
        found = None if self.plain else read_low_rank(self.module)
        if found is None or self.module in self._kept.trusted:
            return found
        if not self.agrees(found.merge(self._dtype))[0]:
            return None
        self._kept.trusted.add(self.module)
        return found

    @cached_property
    def kept(self) -> bool:
        """Whether its matrix is kept: it is no larger than what the module holds."""
        if self.plain or self.low_rank is not None:
            return False
        parts = list_modules(self.module)
        own = (each for part in parts for each in (*part._parameters.values(), *part._buffers.values()))
        size = self.read * self.written * self._dtype.itemsize
        return size <= sum(tensor.nbytes for tensor in own if tensor is not None and not tensor.is_meta)

    @cached_property
    def written(self) -> int:
        """How many components it writes."""
        if self.plain:
            return int(orient(self.module, self.module.weight).shape[1])
        said = getattr(self.module, "out_features", None)
        return said if isinstance(said, int) else int(self.ask_bias().shape[0])

    @property
    def has_matrix(self) -> bool:
        """Whether its matrix is in memory."""
        return self.plain or self.kept or self.held is not None

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return device_of(self.module)

    def bias(self) -> Float[Tensor, " written"] | None:
        """Return what it gives for 0, None where that is nothing."""
        if self.plain:
            return output_bias(self.module, self._dtype)
        if self.low_rank is not None:
            return None if self.low_rank.bias is None else self.low_rank.bias.to(self._dtype)
        if self.without_bias:
            return None
        bias = self._find()[1] if self.kept else self.ask_bias()
        return bias if bias.any() else None

    def matrix(self) -> Float[Tensor, "read written"]:
        """Return the whole matrix."""
        if self.plain:
            return read_weight(self.module).to(self._dtype)
        if self.held is not None:
            return self.held
        return self._find()[0] if self.low_rank is None else self.low_rank.merge(self._dtype)

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Hold its matrix for a while, where it is dequantised: that takes longer than applying it."""
        opaque = self.is_leaf and not self.plain and not self.kept
        self.held = self._dequantise() if opaque else None
        try:
            yield
        finally:
            self.held = None

    def _find(self) -> tuple[Float[Tensor, "read written"], Float[Tensor, " written"]]:
        """Return matrix and bias, and keep them if they are worth it."""
        found = self._known or self._kept.find(self)
        if self.kept:
            self._known = found
        return found

    def ask_matrix(self) -> Float[Tensor, "read written"]:
        """Return the matrix, asked anew: dequantised if the module acts by that, or its action on a basis."""
        found = self._dequantise()
        if found is not None:
            return found
        pieces = [self._apply(unit) for unit in self._units()]
        return pieces[0] if len(pieces) == 1 else torch.cat(pieces)

    def _dequantise(self) -> Float[Tensor, "read written"] | None:
        """Return its weight dequantised, None where it offers none or does not act by it."""
        found = dequantise(self.module)
        if found is None or found.shape[0] != self.read:
            return None
        found = found.to(self.device, self._dtype)
        if self.module in self._kept.trusted and not is_changed(self.module):
            return found
        if not self.agrees(found)[0]:
            return None
        if self.is_leaf:
            self._kept.trusted.add(self.module)
        return found

    def stored(self) -> Float[Tensor, "read written"]:
        """Return the whole matrix, in the type of the weights where it is a view of them."""
        return read_weight(self.module) if self.plain else self.matrix()

    def columns(self, which: Int[Tensor, " column"]) -> Float[Tensor, "column read"]:
        """Return some columns of the matrix: the weights by which single outputs are read."""
        if self.plain:
            view = read_weight(self.module)
            return view.T[which.to(view.device)].to(self._dtype)
        single, places = torch.unique(which.to(self.device), return_inverse=True)
        return torch.cat([self._ask_columns(some) for some in single.split(_COLUMNS)])[places]

    def _ask_columns(self, which: Int[Tensor, " column"]) -> Float[Tensor, "column read"]:
        units = torch.zeros(len(which), self.written, dtype=self.given, device=self.device)
        units.scatter_(1, which[:, None], 1)
        pulled = self._pull(units)
        if pulled is not None:
            return pulled
        return torch.cat([self._apply(unit)[:, which] for unit in self._units()]).T

    def apply(self, rows: Float[Tensor, "row read"]) -> Float[Tensor, "row written"]:
        """Apply the linear part."""
        if self.plain:
            matrix = self.matrix()
            return rows.to(matrix) @ matrix
        if self.low_rank is not None:
            return self.low_rank.apply(rows.to(self._dtype))
        return self._apply(rows) if self.held is None else rows.to(self.held) @ self.held

    def pull_back(self, directions: Float[Tensor, "row written"]) -> Float[Tensor, "row read"]:
        """Apply the transpose of the linear part."""
        if self.low_rank is not None:
            return self.low_rank.pull_back(directions.to(self._dtype))
        matrix = self.held
        if matrix is None and not self.plain and not self.kept and len(directions) < self.read:
            matrix = self._dequantise() if self.is_leaf else None  # torch does so twice, forward and backward
            pulled = self._pull(directions) if matrix is None else None
            if pulled is not None:
                return pulled
        matrix = self.matrix() if matrix is None else matrix
        return directions.to(matrix) @ matrix.T

    @torch.no_grad()
    def _apply(self, rows: Float[Tensor, "row read"]) -> Float[Tensor, "row written"]:
        if self.without_bias:
            return self._run(rows).to(self._dtype)
        nothing = rows.new_zeros(1, self.read)
        found = self._run(torch.cat([rows, nothing])).to(self._dtype)  # what it gives for 0 comes last
        return found[:-1] - found[-1]

    @cached_property
    def _mixed(self) -> bool:
        """Whether quantised weights are a part of it: their gradient may be lost, unnoticed beside others."""
        parts = list_modules(self.module)
        return len(parts) > 1 and any(is_opaque(part) for part in parts)

    @property
    def without_bias(self) -> bool:
        """Whether it says itself that it has no bias."""
        return self.is_leaf and getattr(self.module, "bias", self) is None

    @property
    def is_leaf(self) -> bool:
        """Whether it has no modules inside."""
        return not self.module._modules

    @torch.no_grad()
    def ask_bias(self) -> Float[Tensor, " written"]:
        """Return what the module gives for 0."""
        return self._run(torch.zeros(1, self.read, dtype=self._dtype, device=self.device))[0].to(self._dtype)

    def _pull(self, directions: Float[Tensor, "row written"]) -> Float[Tensor, "row read"] | None:
        """Let torch apply the transpose; None where it has no gradient through the module."""
        if self.module in self._kept.without_gradient or self._mixed:
            return None
        with torch.inference_mode(False), torch.enable_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of operations without a gradient, which is found out here
            zero = torch.zeros(len(directions), self.read, dtype=self.given, device=self.device)
            given = zero.requires_grad_() + 0  # not a leaf: some modules write into what they are given
            try:
                output = self._run(given)
                (pulled,) = torch.autograd.grad(output, zero, directions.detach().clone().to(output))
            except (RuntimeError, NotImplementedError, TypeError, ValueError):
                self._kept.without_gradient.add(self.module)
                return None
        return pulled.to(self._dtype)

    def _run(self, rows: Float[Tensor, "row read"]) -> Float[Tensor, "row written"]:
        try:
            with asking(self.module):
                return cast(Tensor, self.module(rows.to(self.device, self.given)))
        except (WhywordError, MemoryError, torch.OutOfMemoryError):
            raise
        except Exception as error:
            if torch.is_grad_enabled() and rows.requires_grad:
                raise
            raise ModelError(
                f"{type(self.module).__name__} cannot be asked for its matrix: {type(error).__name__}: "
                f"{first_line(error)}",
                "Merge adapters (merge_and_unload()) or load the model unquantised.",
            ) from error

    def agrees(self, matrix: Float[Tensor, "read written"]) -> tuple[bool, Float[Tensor, " written"]]:
        """Say whether the module acts by a matrix on one vector; also return what it gives for 0."""
        steps = torch.arange(1, self.read + 1, dtype=matrix.dtype, device=matrix.device)
        vector = (steps * steps).sin_()[None]
        with torch.no_grad():
            image, bias = self._run(torch.cat([vector, torch.zeros_like(vector)])).to(self._dtype)
        apart = torch.linalg.vector_norm(vector[0] @ matrix - (image - bias))
        return bool(apart <= _SAME[self.exactness()] * torch.linalg.vector_norm(image - bias)), bias

    def _units(self) -> Iterator[Float[Tensor, "unit read"]]:
        """Give the basis vectors, some at a time."""
        for start in range(0, self.read, _CHUNK):
            stop = min(start + _CHUNK, self.read)
            units = torch.zeros(stop - start, self.read, dtype=self.given, device=self.device)
            units.diagonal(start).fill_(1)
            yield units
