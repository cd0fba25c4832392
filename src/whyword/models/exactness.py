"""How exactly a projection maps linearly: its own kernels may round more than its type does.

Some kernels compute in bfloat16 whatever they are given, others round what they read to 8 bits. Both show as
a difference between f(a) + f(b) and f(a + b) + f(0).
"""

from collections.abc import Callable, Iterator, Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..errors import ModelError
from .projection import Projection
from .weights import is_opaque

__all__ = ["find_opaque", "measure_exactness"]

_ALLOWED = {
    torch.float64: 1e-6,
    torch.float32: 1e-5,
    torch.float16: 1.5e-3,
    torch.bfloat16: 8e-3,
    torch.int8: 6e-2,
}
"""By how much a sum of two may differ, relative to its length, by the type that a module rounds to."""


def find_opaque(module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """List the projections in a module whose weights are not plain, by path."""
    return ((name, each) for name, each in module.named_modules() if is_opaque(each))


def measure_exactness(
    blocks: Sequence[nn.Module], dtype: torch.dtype, project: Callable[[nn.Module], Projection]
) -> torch.dtype:
    """Return the coarsest type that a projection of the first or last block rounds to, at least `dtype`."""
    coarsest = dtype
    for index in sorted({0, len(blocks) - 1}):
        for path, module in find_opaque(blocks[index]):
            error = _measure(project(module))
            if not error <= _ALLOWED[torch.int8]:
                raise ModelError(
                    f"Block {index + 1}: {path} ({type(module).__name__}) does not map linearly: "
                    f"f(a) + f(b) and f(a + b) differ by {error:.0%}.",
                    "It quantises what it reads, too coarsely to be explained: quantise weights only, or "
                    "load the model unquantised.",
                )
            if error > _ALLOWED[coarsest]:
                coarsest = next(kind for kind, allowed in _ALLOWED.items() if error <= allowed)
    return coarsest


def _measure(projection: Projection) -> float:
    """Return the length of f(a) + f(b) − f(a + b), relative to that of f(a + b), without the bias."""
    one, other = _vectors(projection.read)
    found = projection.apply(torch.stack([one, other, one + other]))
    apart = torch.linalg.vector_norm(found[0] + found[1] - found[2])
    return float(apart / torch.linalg.vector_norm(found[2]).clamp(min=torch.finfo(found.dtype).tiny))


def _vectors(width: int) -> tuple[Float[Tensor, " width"], Float[Tensor, " width"]]:
    """Return two vectors of components of all signs and sizes, one of them large: 8 bits are coarse then.

    They and their sum are the same in every type: multiples of 1/32.
    """
    steps = torch.arange(1, width + 1, dtype=torch.float64, device="cpu")
    one, other = (steps * steps).sin_(), (steps * steps + steps).cos_()
    one, other = ((each * 16).round_() / 32 for each in (one, other))
    one[0] = 4.0
    return one, other
