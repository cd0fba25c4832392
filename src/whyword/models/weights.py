"""The weights of a module where they are: plain, fetched when the module runs, or quantised."""

from functools import lru_cache
from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from ..runs.foreign_code import is_compiled

__all__ = [
    "dequantise",
    "device_of",
    "is_opaque",
    "is_plain",
    "orient",
    "output_bias",
    "read_tensor",
    "read_weight",
    "read_width",
]


def is_plain(module: nn.Module) -> bool:
    """Say whether a module is its weight and bias, both in memory as ordinary floating-point tensors."""
    if module._modules or is_compiled(module):
        return False
    weight: Any = getattr(module, "weight", None)
    if not _is_plain_tensor(weight):
        return False
    return not weight.is_meta or hasattr(module, "_hf_hook")


def is_opaque(module: nn.Module) -> bool:
    """Say whether a module is one projection whose weights are quantised, or fetched when it runs."""
    own = (*module._parameters.values(), *module._buffers.values())
    hidden = any(tensor is not None and (tensor.is_meta or not _is_plain_tensor(tensor)) for tensor in own)
    packed = "_packed_params" in module._modules or "_packed_params" in vars(module)  # torch.ao
    return (hidden or packed) and read_width(module) is not None


def _is_plain_tensor(tensor: Any) -> bool:
    plain = type(tensor) in (Tensor, nn.Parameter)
    return plain and tensor.is_floating_point() and tensor.dtype.itemsize > 1


def read_width(module: nn.Module) -> int | None:
    """Return how many components a projection reads, None where a module does not say."""
    widths = (getattr(module, name, None) for name in ("in_features", "nx"))
    return next((width for width in widths if isinstance(width, int)), None)


def device_of(module: nn.Module) -> torch.device:
    """Return the device that a module computes on, also where its weights are fetched when it runs."""
    hook = getattr(module, "_hf_hook", None)
    for each in (hook, *getattr(hook, "hooks", ())):
        if (device := getattr(each, "execution_device", None)) is not None:
            return torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
    tensors = [*module.parameters(), *module.buffers()]
    return next((tensor.device for tensor in tensors if not tensor.is_meta), torch.device("cpu"))


def read_tensor(module: nn.Module, name: str) -> Tensor | None:
    """Read a parameter where it is; that of a module whose weights are fetched when it runs is fetched."""
    tensor = cast(Tensor | None, getattr(module, name, None))
    if tensor is None or not tensor.is_meta or not hasattr(module, "_hf_hook"):
        return None if tensor is None else tensor.detach()
    from accelerate.utils import align_module_device

    with align_module_device(module):
        return cast(Tensor, getattr(module, name)).detach()  # what was fetched stays as long as it is held


def read_weight(module: nn.Module) -> Float[Tensor, "read written"]:
    """Return the weight of a plain projection as a matrix that is applied from the right."""
    return orient(module, cast(Tensor, read_tensor(module, "weight")))


def orient(module: nn.Module, weight: Any) -> Float[Tensor, "read written"]:
    """Turn a weight so that it is applied from the right."""
    matrix: Tensor = weight.T if isinstance(module, nn.Linear) else weight
    return matrix


def output_bias(module: nn.Module, dtype: torch.dtype) -> Float[Tensor, " model"] | None:
    """Read the bias of a plain projection or of a norm, None where it has none."""
    bias = read_tensor(module, "bias")
    return None if bias is None else bias.to(dtype)


@torch.no_grad()
def dequantise(module: nn.Module) -> Float[Tensor, "read written"] | None:
    """Let a projection dequantise its own weight, None where it offers no way that is known here.

    Whether the module acts by this matrix is for the caller to check.
    """
    weight = getattr(module, "weight", None)
    state = getattr(weight, "quant_state", None)
    if isinstance(weight, Tensor) and state is not None:  # bitsandbytes, 4 bits
        return _dequantise_four_bits(weight.data, state)
    for holder in (weight, module):
        method = getattr(holder, "dequantize", None)
        if callable(method) and type(holder) not in (Tensor, nn.Parameter):  # torchao, quanto; HQQ
            found = method()
            return found.T if isinstance(found, Tensor) and found.ndim == 2 else None
    return None


def _dequantise_four_bits(packed: Tensor, state: Any) -> Float[Tensor, "read written"]:
    """Dequantise 4-bit weights of bitsandbytes, also where they are packed for its kernel for CPUs."""
    if getattr(state, "packing_format_for_cpu", False):
        return _unpack_for_cpu(packed, state)
    from bitsandbytes.functional import dequantize_4bit

    return cast(Tensor, dequantize_4bit(packed, state)).T


def _unpack_for_cpu(packed: Tensor, state: Any) -> Float[Tensor, "read written"]:
    """Unpack 4-bit weights as bitsandbytes packs them for CPUs that multiply bfloat16.

    Of 32 outputs and two inputs, 32 bytes hold the first 16 outputs in their low halves, the others in their
    high ones. The kernel rounds each weight to bfloat16.
    """
    (written, pairs), groups = packed.shape, len(state.absmax)  # of inputs, each with a scale
    by_output = packed.view(-1).view(torch.int16).view(written // 32, pairs, 16).transpose(1, 2)
    which = by_output.contiguous().view(torch.uint16).view(-1).int()
    both = _tabulate_two_bytes(tuple(state.code.tolist())).index_select(0, which)
    both = both.view(torch.int32).view(written // 32, 16, 2 * pairs)
    found = torch.empty(written // 32, 2, 16, 2 * pairs, dtype=torch.float32, device=packed.device)
    bits = found.view(torch.int32)  # of float32, of which bfloat16 is the upper half
    torch.bitwise_left_shift(both, 16, out=bits[:, 0])
    torch.bitwise_and(both, -(2**16), out=bits[:, 1])
    scales = state.absmax.float().T.reshape(written, groups, 1)
    found.view(written, groups, -1).mul_(scales)
    return found.view(written, 2 * pairs).to(torch.bfloat16).float().T


@lru_cache(maxsize=2)
def _tabulate_two_bytes(code: tuple[float, ...]) -> Int[Tensor, " number"]:
    """Tabulate what two bytes stand for: four values of 4 bits in bfloat16, those of a byte side by side.

    They are looked up together, as a number of 64 bits: one by one takes twice as long. Half a megabyte.
    """
    values, bytes_ = torch.tensor(code, dtype=torch.bfloat16, device="cpu"), torch.arange(256, device="cpu")
    by_byte = torch.stack([values[bytes_ & 15], values[bytes_ >> 4]], dim=1).view(torch.int32)
    numbers = torch.arange(2**16, device="cpu")
    return torch.cat([by_byte[numbers & 255], by_byte[numbers >> 8]], dim=1).view(torch.int64).flatten()
