"""Matrices that were asked of the projections of a model, where they are worth keeping."""

from typing import TYPE_CHECKING

from jaxtyping import Float
from torch import Tensor, nn

if TYPE_CHECKING:
    from .projection import Projection

__all__ = ["AskedMatrices"]


class AskedMatrices:
    """The matrices of a model that were asked for, and what was found out about its modules."""

    def __init__(self) -> None:
        self._matrices: dict[nn.Module, Tensor] = {}
        self.without_gradient: set[nn.Module] = set()
        """Modules through which torch was found to have no gradient."""
        self.trusted: set[nn.Module] = set()
        """Modules that were found to act by what is read of them: their parts, or a dequantised weight."""
        self._last: tuple[nn.Module, Tensor] | None = None
        """The one that was asked last, whatever its size."""

    def find(
        self, projection: "Projection"
    ) -> tuple[Float[Tensor, "read written"], Float[Tensor, " written"]]:
        """Return matrix and bias of a projection: a kept matrix if the module still acts by it."""
        module, kept = projection.module, self._matrices.get(projection.module)
        if kept is None and self._last is not None and self._last[0] is module:
            kept = self._last[1]
        if kept is not None:
            same, bias = projection.agrees(kept)
            if same:
                return kept, bias
        self._last = None
        matrix = projection.ask_matrix()
        if projection.kept:
            self._matrices[module] = matrix
        else:
            self._last = module, matrix
        none = matrix.new_zeros(matrix.shape[1])
        return matrix, none if projection.without_bias else projection.ask_bias()
