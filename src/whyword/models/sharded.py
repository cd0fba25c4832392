"""Networks whose weights are spread over processes: FSDP, tensor parallelism, or both.

No process has a whole layer, so every process gathers the weights into a network of its own, a snapshot.
It must give what the sharded network gives, within rounding, or it is refused.
"""

import copy
import sys
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..errors import ModelError, first_line
from .paths import list_modules
from .run_modes import without_training

__all__ = ["gather", "is_from"]

_APART = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}
"""How far the logits of both may be apart, relative to their length, by the coarser type of the two."""


def is_from(package: str, name: str, source: Any) -> bool:
    """Say whether an object is of a class of a package, without importing it."""
    module = sys.modules.get(package)
    kind = None if module is None else getattr(module, name, None)
    return isinstance(kind, type) and isinstance(source, kind)


def gather(source: Any) -> Any:
    """Return a whole network with the weights of a sharded one; anything else as it is."""
    if not isinstance(source, nn.Module):
        return source
    wrapped = is_from("torch.distributed.fsdp", "FullyShardedDataParallel", source)
    network: Any = source.module if wrapped else source
    if not _is_sharded(source):
        _refuse_local_shards(network)
        return source
    kind = next(kind for kind in type(network).__mro__ if not _is_added_by_sharding(kind))
    if is_from("peft", "PeftModel", network) or is_from("peft", "PeftMixedModel", network):
        raise ModelError(
            f"{kind.__name__} is sharded over processes: adapters cannot be gathered without their network.",
            "Save the adapter (save_pretrained) and load its folder, or merge it before sharding: "
            "merge_and_unload().",
        )
    try:
        whole = _rebuild(kind, network, _collect(source))
        ours, theirs = (_read_logits(each, network.config) for each in (whole, source))
    except Exception as error:
        raise _refuse(kind, f"cannot be gathered: {type(error).__name__}: {first_line(error)}") from error
    apart = torch.linalg.vector_norm((ours - theirs).double()) / torch.linalg.vector_norm(theirs.double())
    coarser = max(ours.dtype, theirs.dtype, key=lambda each: torch.finfo(each).eps)
    if not apart <= _APART[coarser]:
        raise _refuse(kind, f"gives other logits than its gathered weights: they differ by {apart:.1%}.")
    return whole


def _is_sharded(source: nn.Module) -> bool:
    """Say whether parameters are shards, or flattened and put together again when a layer runs."""
    wrapped = (
        is_from("torch.distributed.fsdp", "FullyShardedDataParallel", each) for each in list_modules(source)
    )
    spread = (is_from("torch.distributed.tensor", "DTensor", each) for each in source.parameters())
    return any(wrapped) or any(spread)


def _is_added_by_sharding(kind: type) -> bool:
    """Say whether a class was made by `fully_shard` of the network's own."""
    added = getattr(sys.modules.get("torch.distributed.fsdp"), "FSDPModule", None)
    return isinstance(added, type) and issubclass(kind, added)


def _refuse_local_shards(network: Any) -> None:
    """Refuse tensor parallelism in which the parameters are pieces that do not know of each other."""
    pieces = getattr(network, "_tp_size", None)
    if isinstance(pieces, int) and pieces > 1:
        raise _refuse(type(network), f"is split over {pieces} processes (tensor parallelism).")


def _collect(source: nn.Module) -> dict[str, Tensor]:
    """Gather all weights; every process must take part."""
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict

    state: dict[str, Any] = get_model_state_dict(source, options=StateDictOptions(full_state_dict=True))
    if any(is_from("torch.distributed.tensor", "DTensor", each) for each in state.values()):
        raise RuntimeError("some weights stay spread over processes")
    return {name: each.detach().clone() for name, each in state.items() if isinstance(each, Tensor)}


def _rebuild(kind: Any, network: Any, state: dict[str, Tensor]) -> Any:
    """Make a network of the same class with these weights."""
    dtype = next(each.dtype for each in state.values() if each.is_floating_point())
    whole, said = kind.from_pretrained(
        None, config=copy.deepcopy(network.config), state_dict=state, dtype=dtype, output_loading_info=True
    )
    whole.config.name_or_path = network.config.name_or_path
    if missing := sorted(said["missing_keys"]):
        raise RuntimeError(f"{missing[0]} is missing")
    place = next(iter(state.values())).device
    return whole.to(place).eval()


@torch.no_grad()
def _read_logits(network: Any, config: Any) -> Float[Tensor, "*any"]:
    """Return the logits of a few tokens, without dropout."""
    place = next(network.parameters()).device
    ids = torch.arange(3, 11, device=place)[None] % config.get_text_config().vocab_size
    given = {"decoder_input_ids": ids} if config.is_encoder_decoder else {}
    with without_training(list_modules(network)):
        logits: Tensor = network(input_ids=ids, use_cache=False, **given).logits
        return logits.full_tensor() if hasattr(logits, "full_tensor") else logits


def _refuse(kind: type, what: str) -> ModelError:
    return ModelError(
        f"{kind.__name__}, sharded over processes, {what}",
        "Save it whole (full_state_dict) and load the folder, or pass the model before it was sharded.",
    )
