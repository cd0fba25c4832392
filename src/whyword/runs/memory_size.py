"""Sizes of memory as they are given: bytes, or a text such as "2GB"."""

import re

from ..errors import InputError

__all__ = ["read_size"]

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}


def read_size(size: int | str) -> int:
    """Read a number of bytes: 2000000000, "2GB", "500 MB", "1.5GiB"."""
    if isinstance(size, int) and size > 0:
        return size
    found = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([kmg]i?)?b?\s*", str(size).lower())
    if found is None or isinstance(size, int):
        raise InputError(f"max_memory is {size!r}.", 'Give bytes, or a text such as "2GB" or "500MB".')
    return int(float(found[1]) * _UNITS[found[2] or ""])
