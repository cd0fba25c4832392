"""Python modules of libraries that are known: what they put into a network is not a user's own code."""

import os
import sys
from functools import lru_cache
from pathlib import Path

__all__ = ["CALLED", "is_known", "is_user_written"]

_LIBRARIES = frozenset(
    {
        *("accelerate", "bitsandbytes", "deepspeed", "functools", "gptqmodel", "hqq", "liger_kernel"),
        *("optimum", "peft", "torch", "torchao", "transformers", "transformers_modules", "whyword"),
    }
)
"""Their hooks fetch weights, or note what is asked for, and their layers are written for batches."""
CALLED = sys.stdlib_module_names | {
    *("causal_conv1d", "einops", "flash_attn", "huggingface_hub", "mamba_ssm", "numpy", "safetensors")
}
"""What modelling files call besides, and what classes of libraries are made of."""


def is_known(name: str, besides: frozenset[str] = frozenset()) -> bool:
    """Say whether a Python module belongs to a known library."""
    library = name.partition(".")[0]
    return library in _LIBRARIES or (library in besides and not _is_hidden(library))


def _is_hidden(library: str) -> bool:
    """Say whether somebody's own file stands in the place of a module of Python itself."""
    if library not in sys.stdlib_module_names:
        return False
    file = getattr(sys.modules.get(library), "__file__", None)
    return file is not None and not _is_in_standard_library(file)


@lru_cache(maxsize=1024)
def _is_in_standard_library(file: str) -> bool:
    folder, own = Path(os.__file__).resolve().parent, Path(file).resolve()
    return own.is_relative_to(folder) and "site-packages" not in own.parts


def is_user_written(name: str) -> bool:
    """Say whether a Python module belongs to no library that is known."""
    return not is_known(name, CALLED)
