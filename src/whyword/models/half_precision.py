"""Is half precision slow on this CPU? Some take 60 × as long, and most published checkpoints are bfloat16.

A quick probe multiplies small matrices in each type. Its result is kept in the cache, by processor and
version of torch.
"""

import json
import logging
import platform
import time
from pathlib import Path
from typing import Any

import psutil
import torch

from ..runs.whole_files import write_aside
from .bundled.cache import find_cache
from .weights import is_opaque

__all__ = ["advise", "compare_speed", "is_slow", "to_float32"]

_SLOW = 3.0
"""How many times as long as float32 a type takes that is not worth computing in."""
_ROWS, _WIDTH = 64, 512
"""The size of the matrices: a slow product of them takes some ten milliseconds."""
_LARGE = 10_000_000
"""How many parameters a model has that advice is worth reading for."""
_SCHEMA = "whyword.half-precision/1"
_log = logging.getLogger("whyword")


def is_slow(dtype: torch.dtype) -> bool:
    """Say whether this CPU computes a half-precision type far slower than float32."""
    return compare_speed(dtype) > _SLOW


def compare_speed(dtype: torch.dtype) -> float:
    """Return how many times as long as in float32 a product takes; measured once for each processor."""
    name = str(dtype).removeprefix("torch.")
    facts = {"processor": _name_processor(), "torch": torch.__version__, "dtype": name}
    path = find_cache().parent / "processor" / f"{name}.json"
    kept = _read(path, facts)
    if kept is not None:
        return kept
    ratio = _time(dtype) / _time(torch.float32)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with write_aside(path) as aside:
            aside.write_text(
                json.dumps({"schema": _SCHEMA, **facts, "ratio": ratio}) + "\n", encoding="utf-8"
            )
    except OSError as error:
        _log.info("The speed of %s is not kept: %s.", name, error)
    return ratio


def to_float32(network: Any) -> tuple[Any, torch.dtype | None]:
    """Convert a half-precision network on a CPU that is slow at it, if there is room.

    Also returns the type that it had, None where it stays as it is.
    """
    dtype = network.dtype
    if not _is_half_on_cpu(network) or any(is_opaque(module) for module in network.modules()):
        return network, None
    size = sum(parameter.nbytes for parameter in network.parameters())
    if 2 * size > psutil.virtual_memory().available or not is_slow(dtype):
        return network, None
    return network.float(), dtype


def advise(network: Any) -> str | None:
    """Return one line of advice for a model in memory that this CPU is slow at."""
    dtype = network.dtype
    large = sum(parameter.numel() for parameter in network.parameters()) >= _LARGE
    if not large or not _is_half_on_cpu(network) or not is_slow(dtype):
        return None
    name = str(dtype).removeprefix("torch.")
    return (
        f"The model is {name}, which takes this CPU {compare_speed(dtype):.0f} × as long as float32: "
        "model.float() before whyword.load is faster."
    )


def _is_half_on_cpu(network: Any) -> bool:
    return network.dtype in (torch.float16, torch.bfloat16) and network.device.type == "cpu"


@torch.no_grad()
def _time(dtype: torch.dtype) -> float:
    """Return the shortest of a few times that a product takes."""
    rows, matrix = (torch.ones(size, _WIDTH, dtype=dtype, device="cpu") for size in (_ROWS, _WIDTH))
    times = []
    for _ in range(4):
        start = time.perf_counter()
        torch.nn.functional.linear(rows, matrix)
        times.append(time.perf_counter() - start)
    return min(times)


def _name_processor() -> str:
    """Name the processor as exactly as the system does."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith(("model name", "Hardware")):
                return line.partition(":")[2].strip() + " " + torch.backends.cpu.get_cpu_capability()
    except OSError:
        pass
    return f"{platform.machine()} {platform.processor()} {torch.backends.cpu.get_cpu_capability()}"


def _read(path: Path, facts: dict[str, str]) -> float | None:
    """Read what was measured on this processor; None where nothing was, or a file is damaged."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        ratio = record.pop("ratio")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    same = record == {"schema": _SCHEMA, **facts} and type(ratio) is float and 0 < ratio < 1e6
    return ratio if same else None
