"""What a network is besides its weights and which code it runs, as bytes that every process finds alike."""

from collections.abc import Iterable, Mapping
from functools import lru_cache, partial
from inspect import unwrap as unwrap_decorated
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

from .foreign_code import find_foreign, find_global_hooks, find_patched, is_foreign
from .known_libraries import is_user_written
from .read_values import find_changed, list_codes, list_methods, list_read, unwrap

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = ["add_code", "read_bytes"]

_ASIDE = frozenset(
    {
        *(
            "name_or_path",
            "training",
            "config",
            "generation_config",
            "hf_device_map",
            "gradient_checkpointing",
        ),
        *("forward", "is_quantized", "quantization_method", "hf_quantizer", "kernel_config"),
    }
)
"""Attributes of modules that change nothing, or are read on their own: the same files may be elsewhere on
another node."""
_CONFIG_ASIDE = frozenset(
    {
        *("name_or_path", "transformers_version", "architectures", "dtype", "torch_dtype", "auto_map"),
        *("quantization_config", "use_cache", "output_attentions", "output_hidden_states", "return_dict"),
        *("id2label", "label2id"),
    }
)
_CONFIG_PRIVATE = frozenset({"_attn_implementation_internal", "_experts_implementation_internal"})
"""What counts of the attributes of a config whose names begin with _."""
_PLAIN = bool | int | float | complex | str | bytes | None
_SETTINGS = SimpleNamespace, partial
"""Objects of the standard library whose attributes are somebody's settings."""


class _Digest:
    """Adds values to a digest; functions and objects once."""

    def __init__(self, digest: Any, network: "nn.Module") -> None:
        self.digest = digest
        self.seen = {id(module) for module in network.modules()}
        """What was added, or is on its own: modules of the network."""
        self.around = set[int]()
        """The containers that are being read."""
        self.called = set[tuple[int, int]]()
        """Functions that were added, each with its object."""
        self.held: list[Any] = []
        """Keeps what was seen, since an id may be given to another object otherwise."""

    def write(self, *said: object) -> None:
        self.digest.update(" ".join(map(str, said)).encode())

    def meet(self, value: Any) -> bool:
        """Say whether something is met for the first time."""
        if id(value) in self.seen:
            return False
        self.seen.add(id(value))
        self.held.append(value)
        return True

    def add(self, name: str, value: Any, reading: Iterable[FunctionType] = ()) -> None:
        """Add a number, a text, a tensor, a function, or what a container or an object holds."""
        if isinstance(value, _PLAIN):
            self.write(name, repr(value))
        elif hasattr(value, "dtype") and hasattr(value, "tolist"):  # of torch or of numpy
            self.write(name, value.dtype, tuple(value.shape))
            self.digest.update(read_bytes(value) if hasattr(value, "detach") else value.tobytes())
        elif hasattr(value, "_parameters"):
            self._add_module(name, value)
        elif isinstance(value, FunctionType | MethodType | BuiltinFunctionType | partial):
            self.add_function(name, value)
        elif isinstance(value, dict | list | tuple | set | frozenset | Mapping):
            if id(value) not in self.around:  # a container may hold itself
                self.around.add(id(value))
                for key, each in _name_held(value):
                    self.add(f"{name} {key}", each, reading)
                self.around.remove(id(value))
        elif isinstance(value, type | ModuleType):
            self.write(name, value.__name__)
        elif type(value).__module__ == "torch" and type(value).__name__ == "dtype":
            self.write(name, value)
        elif is_user_written(type(value).__module__) or isinstance(value, _SETTINGS):
            self._add_object(name, value, reading)

    def add_function(self, name: str, function: Any) -> None:
        """Add a function: by its name where a library wrote it, otherwise its code and what that reads."""
        plain = unwrap(function)
        self.write(name, getattr(plain, "__qualname__", type(plain).__qualname__))
        holder = getattr(getattr(function, "func", function), "__self__", None)
        key = id(plain), id(function if isinstance(function, partial) else holder)
        if key in self.called:
            return
        self.called.add(key)
        self.held += [function, plain]
        if is_foreign(function):
            functions = _list_called(plain, holder)
            for each in functions:
                self.add_steps(each.__code__)
            for read, value in list_read(function):
                self.add(f"{name} {read}", value, functions)
        elif isinstance(function, partial):
            self.add(f"{name} arguments", [*function.args, function.keywords])
        if (inner := getattr(plain, "__wrapped__", None)) is not None:
            self.add_function(f"{name} wrapped", inner)

    def add_steps(self, code: CodeType) -> None:
        """Add what a function does: its steps, the names that it uses, and its constants."""
        for each in list_codes(code):
            self.digest.update(each.co_code)
            self.write(each.co_names, each.co_freevars)
            for constant in each.co_consts:
                if not isinstance(constant, CodeType):
                    ordered = sorted(map(repr, constant)) if isinstance(constant, frozenset) else constant
                    self.write(repr(ordered))

    def _add_module(self, name: str, module: Any) -> None:
        """Add a module beside the network, that code reads: its weights and numbers."""
        for path, each in module.named_modules():
            if self.meet(each):
                self.write(name, path, type(each).__qualname__)
                tensors = {**each._parameters, **each._buffers}
                for key, tensor in tensors.items():
                    self.add(f"{name} {path} {key}", tensor)
                self.add_attributes(f"{name} {path}", each)

    def _add_object(self, name: str, value: Any, reading: Iterable[FunctionType]) -> None:
        """Add the attributes of an object, but for those that whoever reads it changes."""
        if not self.meet(value):
            return
        kind = type(value)
        self.write(name, kind.__qualname__)
        functions = [each for function in reading for each in list_methods(kind, function)]
        changed = find_changed(functions)
        for each in functions:
            if each.__qualname__.startswith(f"{kind.__qualname__}."):
                self.add_steps(each.__code__)
        slots = (each for base in kind.__mro__ for each in _list_slots(base))
        held = {each: getattr(value, each) for each in slots if hasattr(value, each)}
        for key, each in sorted((held | getattr(value, "__dict__", {})).items()):
            if key not in changed:
                self.add(f"{name}.{key}", each, functions)

    def add_attributes(self, path: str, module: "nn.Module") -> None:
        """Add the attributes of a module; not what it counts or keeps as it runs."""
        kind: Any = type(module)
        own, running = is_user_written(kind.__module__), _list_running(kind)
        changed = find_changed(running)
        for name, value in sorted(vars(module).items()):
            if name in _ASIDE or name in _list_common() or name in changed or name.endswith("_cached"):
                continue
            if name.startswith("_") and (not own or name == "_is_hf_initialized"):
                continue
            self.add(f"{path} {name}", value, running)

    def add_config(self, path: str, config: Any) -> None:
        """Add what a config says, and the configs inside it."""
        if not self.meet(config):
            return
        for name, value in sorted(vars(config).items()):
            if name in _CONFIG_ASIDE or (name.startswith("_") and name not in _CONFIG_PRIVATE):
                continue
            if hasattr(value, "model_type"):
                self.add_config(f"{path} {name}", value)
            else:
                self.add(f"{path} {name}", value)


def add_code(digest: Any, network: "nn.Module") -> None:
    """Add to a digest what a network is besides its weights, and all code in it that no library wrote."""
    found, modules = _Digest(digest, network), list(network.named_modules())
    for path, module in modules:
        found.write(path, type(module).__qualname__)
        if hasattr(config := vars(module).get("config"), "__dict__"):
            found.add_config(path, config)
            _add_attention(found, config)
        found.add_attributes(path, module)
        for place, function in enumerate(find_foreign(module)):
            found.add_function(f"{path} {place}", function)
    kinds: dict[Any, None] = {type(module): None for _, module in modules}
    for kind in kinds:
        if is_user_written(kind.__module__):
            for function in _list_running(kind):
                found.add_function(kind.__qualname__, function)
    for patched, function in find_patched(module for _, module in modules):
        found.add_function(patched, function)
    for hook in find_global_hooks():
        found.add_function("every module", hook)


def _add_attention(found: _Digest, config: Any) -> None:
    """Add an attention function that somebody has registered."""
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    name = getattr(config, "_attn_implementation", None)
    for functions in (ALL_ATTENTION_FUNCTIONS, ALL_MASK_ATTENTION_FUNCTIONS):
        function = functions.get(name) if isinstance(name, str) else None
        if function is not None and is_foreign(function):
            found.add_function(f"attention {name}", function)


def _list_called(plain: Any, holder: Any) -> list[FunctionType]:
    """List a function with the methods of its object that it calls; of an object, what calling it runs."""
    if not isinstance(plain, FunctionType):
        plain, holder = vars(type(plain)).get("__call__"), plain
    if not isinstance(plain, FunctionType):
        return []
    return [plain] if holder is None else list_methods(type(holder), plain)


def _name_held(value: Any) -> list[tuple[str, Any]]:
    """Name what a container holds, in an order that is the same in every process."""
    if isinstance(value, Mapping):
        return [(f"{key!r}", value[key]) for key in value if isinstance(key, _PLAIN | tuple)]
    if isinstance(value, set | frozenset):
        return [("", each) for each in sorted(each for each in map(repr, value) if " at 0x" not in each)]
    return [(str(place), each) for place, each in enumerate(value)]


@lru_cache(maxsize=1)
def _list_common() -> frozenset[str]:
    """Name the attributes that every module has."""
    from torch import nn

    return frozenset(vars(nn.Module()))


def _list_slots(kind: type) -> Iterable[str]:
    slots = vars(kind).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else slots


@lru_cache(maxsize=1024)
def _list_running(kind: Any) -> tuple[FunctionType, ...]:
    """List the methods of a class of modules that run when it is called."""
    forward = unwrap_decorated(kind.forward)
    return tuple(list_methods(kind, forward)) if isinstance(forward, FunctionType) else ()


def read_bytes(tensor: "Tensor") -> Any:
    """Return the bytes of a tensor, without a copy where it is contiguous on the CPU."""
    import torch

    plain = tensor.detach().cpu().contiguous().flatten()
    return plain.view(torch.uint8).numpy() if plain.numel() else b""
