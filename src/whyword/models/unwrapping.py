"""The network inside what people have: compiled, parallel, sharded, with adapters, in a pipeline."""

from typing import Any

from torch import nn

from ..errors import ModelError
from .sharded import gather, is_from

__all__ = ["unwrap"]

_PARALLEL = (nn.DataParallel, nn.parallel.DistributedDataParallel)


def unwrap(source: Any) -> tuple[Any, Any | None]:
    """Return the network inside of something, and the tokenizer that comes with it, None where none does."""
    tokenizer = None
    if is_from("transformers", "Pipeline", source):
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
    source = gather(source)
    if is_from("peft", "PeftModel", source) or is_from("peft", "PeftMixedModel", source):
        _refuse_virtual_tokens(source)
        return source.get_base_model() if hasattr(source, "get_base_model") else source.base_model.model
    return source


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
