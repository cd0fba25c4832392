"""Python modules of libraries that are known: what they put into a network is not a user's own code."""

import sys

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
    return library in _LIBRARIES or library in besides


def is_user_written(name: str) -> bool:
    """Say whether a Python module belongs to no library that is known."""
    return not is_known(name, CALLED)
