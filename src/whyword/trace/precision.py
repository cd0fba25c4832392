"""Keep a float64 model in float64.

Modelling files take norms and softmax in float32 whatever the weights are. That rounding is no linear map,
so the sum of updates would miss the logit by 1e-8 where float64 promises 1e-15. Some do not run in float64 at
all: they make a tensor of the smallest number of a type that is not its own (XGLM), or multiply the rows of
several experts at once, which torch does in float32 only.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, no_type_check

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.overrides import TorchFunctionMode

__all__ = ["keep_precision"]

_BY_EXPERT = {getattr(torch.nn.functional, "grouped_mm", None), getattr(torch, "_grouped_mm", None)} - {None}


def keep_precision(dtype: torch.dtype) -> AbstractContextManager[Any]:
    """Return a context in which a float64 model does not round to float32."""
    return _KeepDouble() if dtype == torch.float64 else nullcontext()


class _KeepDouble(TorchFunctionMode):
    """Return float64 wherever float32 is asked for."""

    @no_type_check  # tests check types at run time, but not in every operation of torch
    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Any,
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if function is Tensor.float:
            function = Tensor.double
        if function in _BY_EXPERT:
            return _multiply_by_expert(*args, **(kwargs or {}))
        if function is torch.full and any(isinstance(each, float) for each in args[1:]):
            kwargs = {"dtype": torch.float64, **(kwargs or {})}
        args = tuple(torch.float64 if argument is torch.float32 else argument for argument in args)
        if kwargs and kwargs.get("dtype") is torch.float32:
            kwargs = {**kwargs, "dtype": torch.float64}
        return function(*args, **(kwargs or {}))


def _multiply_by_expert(
    rows: Float[Tensor, "row model"],
    weights: Float[Tensor, "expert model neuron"],
    *,
    offs: Int[Tensor, " expert"],
    bias: None = None,
    out_dtype: None = None,
) -> Float[Tensor, "row neuron"]:
    """Multiply rows by the weights of their experts; those of an expert end before `offs`."""
    del bias, out_dtype  # which torch does not support yet
    product, start = rows.new_zeros(rows.shape[0], weights.shape[2]), 0
    for weight, stop in zip(weights, offs.tolist(), strict=True):
        product[start:stop] = rows[start:stop] @ weight
        start = stop
    return product
