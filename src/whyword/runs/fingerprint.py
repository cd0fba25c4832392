"""A fingerprint of a network: runs on other weights, or on a network that was changed, are never mixed."""

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import xxhash

from ..errors import InputError
from .code_digest import add_code, read_bytes

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = ["fingerprint_network", "fingerprint_weights"]


def fingerprint_weights(network: "nn.Module") -> str:
    """Return a fingerprint of every element of every parameter and buffer, and of which adapters are active.

    It is computed whenever it is needed, and not kept: `weight.data[0] = 1` leaves no trace by which a kept
    one could be found to be wrong. It reads memory at its full speed (`benchmarks/fingerprint.py`).
    """
    return str(_digest_weights(network).hexdigest())


def fingerprint_network(network: "nn.Module") -> str:
    """Return a fingerprint of the weights, and of what else makes a network compute what it does.

    These are its configs, the classes of its modules and what these hold (the epsilon of a norm, a list of
    strengths), and all code that no known library wrote: modules, hooks, functions in the place of others,
    with what these read: a strength, a vector. What they write is left out, since it may be what they have
    seen.
    """
    digest = _digest_weights(network)
    add_code(digest, network)
    return str(digest.hexdigest())


def _digest_weights(network: "nn.Module") -> Any:
    digest = xxhash.xxh3_128()
    for kind in ("_parameters", "_buffers"):
        seen: set[int] = set()  # what is shared is read once
        for path, module in network.named_modules():
            own = {name: each for name, each in getattr(module, kind).items() if each is not None}
            new = [name for name, each in own.items() if id(each) not in seen]
            seen |= {id(each) for each in own.values()}
            with _fetching(module, [own[name] for name in new]):
                for name in new:
                    _add(digest, f"{path}.{name}" if path else name, getattr(module, kind)[name], network)
    for path, module in network.named_modules():
        _add_unlisted(digest, path, module)
    return digest


def _fetching(module: "nn.Module", tensors: "list[Tensor]") -> AbstractContextManager[Any]:
    """Fetch the weights of a module for a while, where they are fetched when it runs."""
    if not any(tensor.is_meta for tensor in tensors) or not hasattr(module, "_hf_hook"):
        return nullcontext()
    from accelerate.utils import align_module_device

    found: AbstractContextManager[Any] = align_module_device(module)
    return found


def _add_unlisted(digest: Any, path: str, module: Any) -> None:
    """Add what a module has beside parameters and buffers: which adapters act, packed weights (torch.ao)."""
    adapters = getattr(module, "active_adapters", None)
    if isinstance(adapters, list):
        scaling = getattr(module, "scaling", None)
        digest.update(f"{path} {adapters} {getattr(module, 'disable_adapters', None)} {scaling}".encode())
    if hasattr(module, "_packed_params") and callable(getattr(module, "weight", None)):
        digest.update(read_bytes(module.weight().dequantize()))


def _add(digest: Any, name: str, tensor: "Tensor", network: "nn.Module") -> None:
    """Add a tensor to a fingerprint; one that is made of others, by these."""
    if tensor.is_meta:
        raise InputError(
            f"The weights of {type(network).__name__} are not in memory: {name} is on the device meta.",
            "Load its weights: what a run is compared by is read from every one of them.",
        )
    digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
    if hasattr(tensor, "__tensor_flatten__"):
        for part in tensor.__tensor_flatten__()[0]:
            _add(digest, f"{name}.{part}", getattr(tensor, part), network)
        return
    digest.update(read_bytes(tensor))
