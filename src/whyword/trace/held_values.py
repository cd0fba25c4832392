"""Values that a run computed from its prompt and flow holds fixed: gates, weights, statistics.

They may scale what is pulled back. They may not be added to it: what is added counts as a bias, and a bias is
the same for every prompt. A network that loses the dependence of a whole branch (a gradient that is cut, an
operation that torch does not see) would otherwise have its branch counted as one, and all sums would hold.
"""

from collections.abc import Iterable
from typing import Any, no_type_check

from torch import Tensor

__all__ = ["hold", "is_held"]


def hold(result: Any) -> Any:
    """Mark the numbers in a result as held fixed; where a result is a part of a tensor, the whole of it."""
    if isinstance(result, Tensor):
        if result.is_floating_point():  # an index chooses, it does not scale
            result.held = True  # type: ignore[attr-defined]
            if result._base is not None:
                result._base.held = True  # type: ignore[attr-defined]
    elif isinstance(result, (list, tuple)):
        for each in result:
            hold(each)
    return result


@no_type_check  # tests check types at run time, but not in every operation of torch
def is_held(arguments: Iterable[Any]) -> bool:
    """Say whether something among the arguments of an operation is held fixed, also in lists."""
    for argument in arguments:
        if isinstance(argument, Tensor):
            if getattr(argument, "held", False):
                return True
        elif isinstance(argument, (list, tuple)) and is_held(argument):
            return True
    return False
