"""The weights of a module where they are: plain, fetched when the module runs, or quantised."""

from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

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
    weight: Any = getattr(module, "weight", None)
    if not _is_plain_tensor(weight) or module._modules:
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
    """Read a parameter where it is; of a module whose weights are fetched when it runs, a copy."""
    tensor = cast(Tensor | None, getattr(module, name, None))
    if tensor is None or not tensor.is_meta or not hasattr(module, "_hf_hook"):
        return None if tensor is None else tensor.detach()
    from accelerate.utils import align_module_device

    with align_module_device(module):
        return cast(Tensor, getattr(module, name)).detach().clone()


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
    written, pairs = packed.shape
    numbers = torch.arange(256, device=packed.device)
    values = state.code.to(torch.bfloat16).float()
    ordered = packed.view(written // 32, pairs, 16, 2).permute(1, 3, 0, 2).contiguous()
    which = ordered.view(-1).int()
    found = values.new_empty(pairs, 2, written // 32, 2, 16)
    for half, of_byte in enumerate((numbers & 15, numbers >> 4)):
        found[:, :, :, half] = values[of_byte].index_select(0, which).view(ordered.shape)
    scales = state.absmax.float()  # of groups of inputs
    found.view(len(scales), -1, written).mul_(scales[:, None])
    return cast(Tensor, found.view(2 * pairs, written).to(torch.bfloat16).float())
