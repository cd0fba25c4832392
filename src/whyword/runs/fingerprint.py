"""A fingerprint of a network: runs on other weights, or on a network that was changed, are never mixed."""

from contextlib import AbstractContextManager, nullcontext
from types import BuiltinFunctionType, CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import xxhash

from ..errors import InputError
from .foreign_code import find_foreign, list_read, unwrap

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = ["fingerprint_network", "fingerprint_weights"]

_ASIDE = ("name_or_path", "training")
"""Attributes of modules that change nothing: the same files may be elsewhere on another node."""


def fingerprint_weights(network: "nn.Module") -> str:
    """Return a fingerprint of every element of every parameter and buffer, and of which adapters are active.

    It is computed whenever it is needed, and not kept: `weight.data[0] = 1` leaves no trace by which a kept
    one could be found to be wrong. It reads memory at its full speed (`benchmarks/fingerprint.py`).
    """
    return str(_digest_weights(network).hexdigest())


def fingerprint_network(network: "nn.Module") -> str:
    """Return a fingerprint of the weights, and of what else makes a network compute what it does.

    These are the classes of its modules, their numbers (the epsilon of a norm, the scale of attention), and
    the code of hooks and of a `forward` that somebody has put into it, with what these read: a strength, a
    vector. What they write is left out, since it may be what they have seen.
    """
    digest = _digest_weights(network)
    for path, module in network.named_modules():
        digest.update(f"{path} {type(module).__qualname__} {_list_numbers(module)}".encode())
        _add_changes(digest, path, module)
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


def _list_numbers(module: "nn.Module") -> list[tuple[str, object]]:
    """List the plain attributes of a module, and the names of functions; not what it counts as it runs."""
    found: list[tuple[str, object]] = []
    for name, value in sorted(vars(module).items()):
        if name.startswith("_") or name in _ASIDE or name.endswith("_cached"):
            continue
        if isinstance(value, bool | int | float | str):
            found.append((name, value))
        elif isinstance(value, FunctionType | BuiltinFunctionType) and name != "forward":
            found.append((name, value.__qualname__))
    return found


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
        digest.update(_read_bytes(module.weight().dequantize()))


def _add_changes(digest: Any, path: str, module: Any) -> None:
    """Add the code of a user's own hooks and of a `forward` in its place, and what these read."""
    for place, function in enumerate(find_foreign(module)):
        plain = unwrap(function)
        name = getattr(plain, "__qualname__", type(plain).__qualname__)
        digest.update(f"{path} {place} {name}".encode())
        _add_code(digest, getattr(plain, "__code__", None))
        for read, value in list_read(function):
            _add_value(digest, read, value)


def _add_value(digest: Any, name: str, value: Any) -> None:
    """Add a number, a text, a tensor, or what a container holds; of others only that they are there."""
    if isinstance(value, dict):
        for key, each in value.items():
            _add_value(digest, f"{name} {key!r}", each)
    elif isinstance(value, list | tuple | set):
        for place, each in enumerate(sorted(value, key=repr) if isinstance(value, set) else value):
            _add_value(digest, f"{name} {place}", each)
    elif hasattr(value, "dtype") and hasattr(value, "tolist"):  # of torch or of numpy
        digest.update(f"{name} {value.dtype} {value.tolist()}".encode())
    elif value is None or isinstance(value, bool | int | float | str):
        digest.update(f"{name} {value!r}".encode())


def _add_code(digest: Any, code: CodeType | None) -> None:
    """Add what a function does: its steps, the names that it uses, and its constants."""
    if code is None:
        return
    digest.update(code.co_code)
    digest.update(f"{code.co_names} {code.co_freevars}".encode())
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            _add_code(digest, constant)
        else:
            ordered = sorted(map(repr, constant)) if isinstance(constant, frozenset) else constant
            digest.update(repr(ordered).encode())


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
    digest.update(_read_bytes(tensor))


def _read_bytes(tensor: "Tensor") -> Any:
    """Return the bytes of a tensor, without a copy where it is contiguous on the CPU."""
    import torch

    plain = tensor.detach().cpu().contiguous().flatten()
    return plain.view(torch.uint8).numpy() if plain.numel() else b""
