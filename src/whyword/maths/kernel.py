"""‖y − part‖₁ of the residual stream, for all pairs of positions: most of the time is spent here.

`kernel.cpp` computes it in registers; torch in tiles where that was not built, for float64 and on a GPU.
"""

import os
from contextlib import suppress
from importlib import import_module
from itertools import product
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import InputError
from ..models.workspace import Workspace
from .shares import find_closeness, normalise

__all__ = ["implementation", "measure_rest", "measure_shares"]

_native: Any = None
with suppress(ImportError):  # missing where whyword was installed without a compiler
    _native = import_module("whyword.maths._kernel")
    if not hasattr(_native, "turn_into_shares"):  # built before the last change of kernel.cpp
        _native = None
_WORTH_A_THREAD = 2_000_000  # multiplications that take about as long as waking a thread
_LANES = 16  # floats in the longest vectors that the CPU may have
_PADDED = 64  # rows are padded to a multiple of this: no tile of the native kernel is wider
_TILE = 8 * 2**20  # bytes of a tile in torch; tiles of up to 128 rows × 16 sources are about equally fast


def implementation() -> str:
    """Name the kernel for float32 on a CPU, native or torch; the variable WHYWORD_KERNEL forces one."""
    name = os.environ.get("WHYWORD_KERNEL") or ("native" if _native else "torch")
    if name not in ("native", "torch"):
        raise InputError(f"WHYWORD_KERNEL is {name!r}.", "Set it to native or torch, or leave it unset.")
    if name == "native" and not _native:
        raise InputError("The native kernel was not built.", "Build it, or leave WHYWORD_KERNEL unset.")
    return name


def measure_rest(
    weights: Float[Tensor, "example head row source"],
    projected: Float[Tensor, "example head source model"],
    whole: Float[Tensor, "example row model"],
    residual: Float[Tensor, "example row model"] | None,
    first: int | None,
    workspace: Workspace,
) -> Float[Tensor, "example row source"]:
    """Return ‖y_i − Σ_h A[h,i,j] P[h,j] − [j = first + i] x_i‖₁ for all visible pairs, 0 elsewhere.

    `first`: index of the first row among the sources, which are visible up to the row itself (causal
    self-attention); None: every source is visible and there is no residual (cross-attention). Half-precision
    inputs give float32.
    """
    return _measure(weights, projected, whole, residual, first, workspace, shares=False)


def measure_shares(
    weights: Float[Tensor, "example head row source"],
    projected: Float[Tensor, "example head source model"],
    whole: Float[Tensor, "example row model"],
    residual: Float[Tensor, "example row model"],
    first: int,
    workspace: Workspace,
) -> Float[Tensor, "example row source"]:
    """Return max(0, ‖y_i‖₁ − what `measure_rest` returns) for all visible pairs, as shares: rows sum to 1."""
    return _measure(weights, projected, whole, residual, first, workspace, shares=True)


def _measure(
    weights: Tensor,
    projected: Tensor,
    whole: Tensor,
    residual: Tensor | None,
    first: int | None,
    workspace: Workspace,
    shares: bool,
) -> Tensor:
    dtype = torch.float64 if whole.dtype == torch.float64 else torch.float32
    weights, projected, whole = weights.to(dtype), projected.to(dtype), whole.to(dtype)
    own = whole if residual is None else whole - residual.to(dtype)
    first = weights.shape[3] if first is None else first  # every source comes before the first row
    if implementation() == "native" and dtype == torch.float32 and whole.device.type == "cpu":
        return _measure_natively(weights, projected, whole, own, first, workspace, shares)
    rest = _measure_in_tiles(weights, projected, whole, own, first, workspace)
    return normalise(find_closeness(rest, whole).tril_(first), first) if shares else rest


def _measure_natively(
    weights: Tensor,
    projected: Tensor,
    whole: Tensor,
    own: Tensor,
    first: int,
    workspace: Workspace,
    shares: bool,
) -> Tensor:
    (examples, _, rows, sources), width = weights.shape, whole.shape[2]
    starts = workspace.take("starts", [2, examples, rows, -(-width // _PADDED) * _PADDED], whole)
    torch.stack([whole, own], out=starts[..., :width])
    if width < starts.shape[3]:
        starts[..., width:] = 0
    rest = whole.new_zeros(examples, rows, sources)
    projected = projected if projected.stride(3) == 1 else projected.contiguous()
    inputs = weights.data_ptr(), weights.stride(), projected.data_ptr(), projected.stride()[:3]
    sizes = (*weights.shape, width), starts.shape[3], first
    threads = min(torch.get_num_threads(), weights.numel() * width // _WORTH_A_THREAD)
    _native.measure_rest(*inputs, starts.data_ptr(), rest.data_ptr(), *sizes, threads, _LANES)
    if shares:
        shape = examples, rows, sources, starts.shape[3], first
        _native.turn_into_shares(starts.data_ptr(), rest.data_ptr(), *shape)
    return rest


def _measure_in_tiles(
    weights: Tensor, projected: Tensor, whole: Tensor, own: Tensor, first: int, workspace: Workspace
) -> Tensor:
    (examples, _, rows, sources), width = weights.shape, whole.shape[2]
    height, rest = max(1, min(rows, 128)), whole.new_zeros(examples, rows, sources)
    breadth = max(1, min(sources, 16, _TILE // (height * width * whole.itemsize or 1)))
    depth = max(1, _TILE // (height * breadth * width * whole.itemsize or 1))
    corners = range(0, examples, depth), range(0, rows, height), range(0, sources, breadth)
    for example, row, source in product(*corners):
        some, columns = slice(example, example + depth), slice(source, source + breadth)
        lines = slice(max(row, source - first), min(row + height, rows))  # no earlier row sees these sources
        pairs = weights[some, :, lines, columns].permute(0, 3, 1, 2).contiguous()
        parts = projected[some, :, columns].transpose(1, 2).flatten(0, 1)
        tile = workspace.take("tile", [*pairs.shape[:2], pairs.shape[3], width], whole)
        tile.copy_(whole[some, None, lines])
        diagonal = tile.diagonal(first + lines.start - source, 2, 1)
        diagonal.copy_(own[some, lines.start : lines.start + diagonal.shape[2]].transpose(1, 2))
        tile.flatten(0, 1).baddbmm_(pairs.flatten(0, 1).transpose(1, 2), parts, alpha=-1)
        rest[some, lines, columns] = tile.abs_().sum(3).transpose(1, 2)
    return rest.tril_(first)
