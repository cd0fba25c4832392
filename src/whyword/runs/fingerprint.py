"""A fingerprint of a network's weights: runs on different weights are never mixed."""

from typing import TYPE_CHECKING, Any

import xxhash

from ..errors import InputError

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = ["fingerprint_weights"]


def fingerprint_weights(network: "nn.Module") -> str:
    """Return a fingerprint of every element of every parameter and buffer.

    It is computed whenever a run begins, and not kept: `weight.data[0] = 1` leaves no trace by which a kept
    one could be found to be wrong. It reads memory at its full speed (`benchmarks/fingerprint.py`).
    """
    digest = xxhash.xxh3_128()
    for name, tensor in [*network.named_parameters(), *network.named_buffers()]:
        if tensor.is_meta:
            raise InputError(
                f"The weights of {type(network).__name__} are not in memory: {name} is on the device meta.",
                "Load it without offloading: a run that can be resumed reads every weight once.",
            )
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(_read_bytes(tensor))
    return digest.hexdigest()


def _read_bytes(tensor: "Tensor") -> Any:
    """Return the bytes of a tensor, without a copy where it is contiguous on the CPU."""
    import torch

    plain = tensor.detach().cpu().contiguous().flatten()
    return plain.view(torch.uint8).numpy() if plain.numel() else b""
