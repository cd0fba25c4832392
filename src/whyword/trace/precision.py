"""Keep a float64 model in float64.

Modelling files take norms and softmax in float32 whatever the weights are. That rounding is no linear map,
so the sum of updates would miss the logit by 1e-8 where float64 promises 1e-15.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

__all__ = ["keep_precision"]


def keep_precision(dtype: torch.dtype) -> AbstractContextManager[Any]:
    """Give a context in which a float64 model does not round to float32."""
    return _KeepDouble() if dtype == torch.float64 else nullcontext()


class _KeepDouble(TorchFunctionMode):
    """Give float64 wherever float32 is asked for."""

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Any,
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if function is Tensor.float:
            function = Tensor.double
        args = tuple(torch.float64 if argument is torch.float32 else argument for argument in args)
        if kwargs and kwargs.get("dtype") is torch.float32:
            kwargs = {**kwargs, "dtype": torch.float64}
        return function(*args, **(kwargs or {}))
