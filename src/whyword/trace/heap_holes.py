"""Memory that the heap holds but nothing uses, given back to the operating system.

Blocks keep activations for a pull-back among others that they need for a moment only. In glibc, a hole that
such a tensor leaves is a few bytes too small for the next of the same size as soon as anything small lies
beside it, so the heap grows: at 1,024 tokens of GPT-2 small to 580 MB for 347 MB of tensors.
"""

import ctypes
import sys
from collections.abc import Callable
from functools import cache

__all__ = ["LARGE", "give_back_holes"]

LARGE = 2 * 2**20
"""Bytes of a residual stream from which on holes are large enough to matter."""


def give_back_holes() -> None:
    """Give back what the heap does not use, where the C library can do so."""
    release = _find_release()
    if release is not None:
        release(0)


@cache
def _find_release() -> Callable[[int], int] | None:
    """Find the function of glibc; other systems and libraries have none."""
    return getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
