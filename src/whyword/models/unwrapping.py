"""The network inside what people have: compiled, parallel, sharded, with adapters, in a pipeline."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from torch import nn

from ..errors import ModelError
from ..runs.foreign_code import find_foreign, is_foreign
from .sharded import gather, is_from

__all__ = ["Unwrapped", "require_plain_wrappers", "unwrap"]

_PARALLEL = (nn.DataParallel, nn.parallel.DistributedDataParallel)
_PLAIN_TUNERS = frozenset(
    {"peft.tuners.tuners_utils"}
    | {
        f"peft.tuners.{name}.model"
        for name in ("adalora", "glora", "lora", "mixed", "poly", "road", "shadow")
    }
)
"""Where a forward is written that gives the logits of the network inside: some also compute a loss, or
hand on arguments that nobody passes to a network that is given token ids alone."""


@dataclass(frozen=True)
class Unwrapped:
    """The network inside of something."""

    network: Any
    tokenizer: Any | None
    """The tokenizer that comes with it, None where none does."""
    wrappers: tuple[nn.Module, ...]
    """What was taken off, from the outside in."""


def unwrap(source: Any) -> Unwrapped:
    """Take all wrappers off; refuse those that do more than to run the network inside."""
    tokenizer, wrappers = None, list[nn.Module]()
    if is_from("transformers", "Pipeline", source):
        source, tokenizer = source.model, source.tokenizer
    while True:
        inner = _unwrap_once(source)
        if inner is source:
            require_plain_wrappers(wrappers)
            return Unwrapped(source, tokenizer, tuple(wrappers))
        wrappers += _list_wrappers(source, inner)
        source = inner


def require_plain_wrappers(wrappers: Iterable[nn.Module]) -> None:
    """Refuse hooks and a `forward` that a user has put on a wrapper: the network inside runs without."""
    for wrapper in wrappers:
        own = (getattr(type(wrapper), name) for name in ("forward", "__call__"))
        if find_foreign(wrapper) or any(map(is_foreign, own)):
            raise ModelError(
                f"The wrapper {type(wrapper).__name__} has a hook or a forward of your own: the network "
                "inside it is explained, which runs without that.",
                f"Take it off, and put it on the network inside (wrapper{_name_inside(wrapper)}).",
            )


def _name_inside(wrapper: nn.Module) -> str:
    """Say how one gets at what is inside a wrapper."""
    if hasattr(wrapper, "get_base_model"):
        return ".get_base_model()"
    names = ("_orig_mod", "module", "model", "base_model")
    return next((f".{name}" for name in names if name in wrapper._modules), "")


def _unwrap_once(source: Any) -> Any:
    """Take one wrapper off; return the same object where there is none."""
    if isinstance(source, nn.Module) and "_orig_mod" in source._modules:  # torch.compile(model)
        return source._orig_mod
    if isinstance(source, _PARALLEL):
        return source.module
    source = gather(source)
    if _has_adapters(source):
        _refuse_virtual_tokens(source)
        _refuse_other_runs(source.base_model)
        return source.get_base_model() if hasattr(source, "get_base_model") else source.base_model.model
    return source


def _list_wrappers(source: Any, inner: Any) -> list[nn.Module]:
    """List a wrapper, and of adapters also what lies between it and the network."""
    between = getattr(source, "base_model", None) if _has_adapters(source) else None
    return [each for each in (source, between) if isinstance(each, nn.Module) and each is not inner]


def _has_adapters(source: Any) -> bool:
    return is_from("peft", "PeftModel", source) or is_from("peft", "PeftMixedModel", source)


def _refuse_other_runs(tuner: nn.Module) -> None:
    """Refuse adapters that act only when they are run from outside of the network, as those of X-LoRA."""
    kind = type(tuner)
    if not is_from("peft.tuners.tuners_utils", "BaseTuner", tuner):
        return
    for name in ("forward", "_enable_peft_forward_hooks"):
        written = next((each.__module__ for each in kind.__mro__ if name in vars(each)), None)
        if written is not None and written.startswith("peft.") and written not in _PLAIN_TUNERS:
            raise ModelError(
                f"The adapters of {kind.__name__} act by what they do around the network ({name}), which is "
                "explained without it.",
                "Explain a model with adapters of its layers (LoRA, DoRA, IA3), or the base model: unload().",
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
