"""The network inside what people have: compiled, parallel, with adapters, in a pipeline."""

import sys
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import nn

from ..errors import ModelError

__all__ = ["running_eagerly", "unwrap"]

_PARALLEL = (nn.DataParallel, nn.parallel.DistributedDataParallel)


def unwrap(source: Any) -> tuple[Any, Any | None]:
    """Return the network inside of something, and the tokenizer that comes with it, None where none does."""
    tokenizer = None
    if _is_from("transformers", "Pipeline", source):
        source, tokenizer = source.model, source.tokenizer
    while True:
        inner = _unwrap_once(source)
        if inner is source:
            return source, tokenizer
        source = inner


def _unwrap_once(source: Any) -> Any:
    """Take one wrapper off; return the same object where there is none."""
    if isinstance(source, nn.Module) and "_orig_mod" in source._modules:  # torch.compile(model)
        return source._orig_mod
    if isinstance(source, _PARALLEL):
        return source.module
    _refuse_shards(source)
    if _is_from("peft", "PeftModel", source) or _is_from("peft", "PeftMixedModel", source):
        _refuse_virtual_tokens(source)
        return source.get_base_model() if hasattr(source, "get_base_model") else source.base_model.model
    return source


def _refuse_shards(source: Any) -> None:
    """Refuse a network whose weights are spread over processes."""
    if not isinstance(source, nn.Module):
        return
    sharded = _is_from("torch.distributed.fsdp", "FullyShardedDataParallel", source)
    kinds = {type(parameter).__name__ for parameter in source.parameters()}
    if sharded or "DTensor" in kinds:
        raise ModelError(
            f"The weights of {type(getattr(source, 'module', source)).__name__} are sharded over processes "
            "(FSDP): no process has a whole layer.",
            "Save it whole (full_state_dict) and load the folder, or pass the model before it was sharded.",
        )


def _refuse_virtual_tokens(source: Any) -> None:
    """Refuse adapters that put something into the prompt which is no token."""
    for name in _listed(source.active_adapter):
        config = source.peft_config[name]
        if getattr(config, "is_prompt_learning", False):
            kind = str(getattr(config.peft_type, "value", config.peft_type))
            raise ModelError(
                f"The adapter {name!r} ({kind}) puts {config.num_virtual_tokens} virtual tokens before every "
                "prompt, which have no text.",
                "Explain a model with adapters of its layers (LoRA, DoRA, IA3), or the base model: "
                "get_base_model().",
            )


def _listed(names: Any) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _is_from(package: str, name: str, source: Any) -> bool:
    """Say whether an object is of a class of a package, without importing it."""
    module = sys.modules.get(package)
    kind = None if module is None else getattr(module, name, None)
    return isinstance(kind, type) and isinstance(source, kind)


def running_eagerly(modules: Iterable[nn.Module]) -> AbstractContextManager[Any]:
    """Let compiled modules run as they are written, for a while: compiled ones call no hooks."""
    compiled = any(
        getattr(module, "_compiled_call_impl", None) is not None or "_orig_mod" in module._modules
        for module in modules
    )
    return torch.compiler.set_stance("force_eager") if compiled else nullcontext()
