"""The header of a GGUF file, read through once: a damaged file is refused before memory is reserved for it.

Header: magic, version, number of tensors, number of fields; then every field (a name, a type, a value), and
every tensor (a name, its sizes, a type, an offset). The weights follow.
"""

import mmap
import struct
from math import prod
from pathlib import Path

from ..errors import ModelError

__all__ = ["require_whole_gguf"]

_REMEDY = "Fetch it again, or convert it again."
_STRING, _ARRAY = 8, 9
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
"""Bytes of every type of field that has a fixed size."""
_MOST_AXES = 4
_MOST_NUMBER = 1 << 31
"""No size in a header is larger: tokens, widths, positions."""
_NEEDED = ("block_count", "embedding_length")
"""Fields of every architecture. A reader that does not find them would take the sizes of another model."""
_COUNTS = (".block_count", ".expert_count")
"""Fields that count what has tensors of its own."""


class _DamagedError(Exception):
    """Says what is wrong with a header."""


class _Header:
    """Reads a header from its start to its end."""

    def __init__(self, content: mmap.mmap) -> None:
        self.content, self.place, self.tensors, self.architecture = content, 0, 0, ""

    def skip(self, size: int) -> None:
        if size > len(self.content) - self.place:
            raise _DamagedError(f"it ends within its header, at byte {len(self.content):,}")
        self.place += size

    def number(self, form: str) -> int:
        size = struct.calcsize(form)
        self.skip(size)
        return int(struct.unpack(f"<{form}", self.content[self.place - size : self.place])[0])

    def string(self) -> str:
        size = self.number("Q")
        self.skip(size)
        text = self.content[self.place - size : self.place]
        try:
            return text.decode("utf-8")
        except UnicodeDecodeError:
            raise _DamagedError(f"the text at byte {self.place - size:,} is not UTF-8") from None

    def value(self, name: str, kind: int) -> None:
        if kind == _STRING:
            text = self.string()
            self.architecture = text if name == "general.architecture" else self.architecture
        elif kind == _ARRAY:
            inner, count = self.number("I"), self.number("Q")
            if inner == _STRING:
                for _ in range(count):
                    self.string()
            elif inner in _SIZES:
                self.skip(count * _SIZES[inner])
            else:
                raise _DamagedError(f"the field {name!r} is a list of the unknown type {inner}")
        elif kind in _SIZES:
            before = self.place
            self.skip(_SIZES[kind])
            form = {4: "I", 5: "i", 10: "Q", 11: "q"}.get(kind)
            most = self.tensors if name.endswith(_COUNTS) else _MOST_NUMBER
            if form and not 0 <= (number := struct.unpack_from(f"<{form}", self.content, before)[0]) <= most:
                raise _DamagedError(f"its field {name!r} is {number}")
        else:
            raise _DamagedError(f"the field {name!r} has the unknown type {kind}")


def require_whole_gguf(path: Path) -> None:
    """Refuse a GGUF file whose header is damaged, or that ends before its weights do."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            _read(_Header(content))
    except _DamagedError as error:
        raise ModelError(f"{path} is damaged: {error}.", _REMEDY) from None
    except (OSError, ValueError) as error:  # an empty file cannot be mapped
        raise ModelError(f"{path} cannot be read: {error}.", "Give a .gguf file that you may read.") from None


def _read(header: _Header) -> None:
    header.skip(4)
    if header.content[:4] != b"GGUF":
        raise _DamagedError("it does not start with GGUF")
    version = header.number("I")
    if version not in (2, 3):
        raise _DamagedError(f"its version is {version}, not 2 or 3")
    header.tensors, fields = header.number("Q"), header.number("Q")
    names = set()
    for _ in range(fields):
        names.add(name := header.string())
        header.value(name, header.number("I"))
    for name in ("general.architecture", *(f"{header.architecture}.{each}" for each in _NEEDED)):
        if name not in names:
            raise _DamagedError(f"it has no field {name!r}")
    ends = [_read_tensor(header) for _ in range(header.tensors)]
    if header.place + max(ends, default=0) > len(header.content):
        raise _DamagedError(f"it ends within its weights, at byte {len(header.content):,}")


def _read_tensor(header: _Header) -> int:
    """Return where the weights of a tensor end, counted from where weights begin."""
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

    name, axes = header.string(), header.number("I")
    if not 1 <= axes <= _MOST_AXES:
        raise _DamagedError(f"the tensor {name!r} has {axes} axes")
    elements = prod(header.number("Q") for _ in range(axes))
    kind, offset = header.number("I"), header.number("Q")
    if kind not in {each.value for each in GGMLQuantizationType}:
        raise _DamagedError(f"the tensor {name!r} has the unknown type {kind}")
    block, size = GGML_QUANT_SIZES[GGMLQuantizationType(kind)]
    return offset + elements // int(block) * int(size)
