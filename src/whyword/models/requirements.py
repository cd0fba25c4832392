"""Checks that a network fits its description."""

import re
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import nn

from ..errors import ModelError, first_line
from .architecture import Architecture, Attention
from .model import optional_module, stack_module
from .translators import TRANSLATORS
from .weights import is_plain, read_width

__all__ = ["require_attention", "require_parts", "require_possible_sizes", "require_same_stacks"]

_COUNT = re.compile(r"(num_|n_)\w*(layers?|experts?)|(encoder|decoder)_layers")
"""Names of config attributes that count modules."""
_WIDTH = re.compile(r"(\w+_)?(intermediate|hidden|vocab)_size|\w+_dim|n_embd|n_inner|d_(model|ff|kv)")
"""Names of config attributes that are sizes of weights."""
_MOST_WIDTH, _PACKED = 1 << 16, 16
"""Sizes that cost little; and how many times the largest of a checkpoint one may be: some are packed."""
_MOST_MODULES = 1000
"""How many modules a config may ask for, whatever its checkpoint has: making that many takes a second."""
_MOST_BYTES = 1 << 20
"""How large a table of positions may be, whatever its checkpoint has: some are computed number by number."""


def require_possible_sizes(config: Any, folder: Path) -> None:
    """Refuse a config of far more blocks or far larger weights than its checkpoint, before they are made."""
    if not folder.is_dir():
        return
    sizes = [size for path in folder.glob("*.safetensors") for size in _list_sizes(path)]
    tensors, largest = len(sizes), max(sizes, default=0)
    for part in (config, config.get_text_config()):
        for name, value in vars(part).items():
            if not isinstance(value, int):
                continue
            if _COUNT.fullmatch(name) and value > max(_MOST_MODULES, 10 * tensors):
                raise _misfit(folder, name, value, f"are {tensors} tensors")
            if _WIDTH.fullmatch(name) and value > max(_MOST_WIDTH, _PACKED * largest):
                raise _misfit(folder, name, value, f"are at most {largest} wide")
    if config.is_encoder_decoder:
        _require_possible_positions(config, folder)


def _require_possible_positions(config: Any, folder: Path) -> None:
    """Refuse a table of positions that is larger than all weights of its checkpoint, before it is computed.

    Marian's takes a minute for a million positions. Decoders compute positions as they need them.
    """
    positions, width = (getattr(config, name, None) for name in ("max_position_embeddings", "hidden_size"))
    if not isinstance(positions, int) or not isinstance(width, int):
        return
    held = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    if 4 * positions * width > max(_MOST_BYTES, held):
        raise _misfit(folder, "max_position_embeddings", positions, f"are {held} bytes")


def _misfit(folder: Path, name: str, value: int, weights: str) -> ModelError:
    return ModelError(
        f"{folder}: in config.json {name} is {value}, but its weights {weights}.",
        "Use the config.json that belongs to the weights.",
    )


def _list_sizes(path: Path) -> list[int]:
    """List the largest size of every tensor of a file; nothing where it cannot be read: loading tells."""
    try:
        with safe_open(path, "pt") as file:
            return [max(file.get_slice(name).get_shape(), default=0) for name in file.keys()]  # noqa: SIM118
    except (SafetensorError, OSError):
        return []


def require_parts(network: Any) -> Any:
    """Refuse a network without one text decoder and one unembedding; give the decoder's config."""
    try:
        config, unembedding = network.config.get_text_config(), network.get_output_embeddings()
    except Exception as error:  # what these do is written in modelling files
        raise ModelError(
            f"{type(network).__name__} does not name its text decoder and its unembedding: "
            f"{first_line(error)}",
            "Pass the decoder-only language model inside it.",
        ) from error
    if unembedding is None:
        raise ModelError(
            f"{type(network).__name__} has no unembedding.", "Choose a model that predicts tokens."
        )
    if not is_plain(unembedding) and read_width(unembedding) is None:
        raise ModelError(
            f"The unembedding of {type(network).__name__} ({type(unembedding).__name__}) is not one matrix.",
            "Choose a model that predicts one token at a time.",
        )
    return config


def require_same_stacks(network: Any, architecture: Architecture) -> None:
    """Refuse a network with an encoder that its description lacks, or the other way round."""
    name, described = type(network).__name__, architecture.encoder is not None
    if network.config.is_encoder_decoder and not described:
        raise ModelError(
            f"{name} is an encoder–decoder model, but its description ({architecture.name}) has no encoder.",
            f"Catalogued with an encoder: {', '.join(sorted(TRANSLATORS))}; for others pass "
            "whyword.load(..., architecture=...).",
        )
    if described and not network.config.is_encoder_decoder:
        raise ModelError(
            f"{name} has no encoder, but its description ({architecture.name}) has one.",
            "Load it together with its encoder, or pass whyword.load(..., architecture=...).",
        )


def require_attention(network: Any, architecture: Architecture) -> None:
    """Refuse a hybrid model, in which some blocks have no attention."""
    stack = architecture.decoder
    try:
        blocks = optional_module(stack_module(network), stack.blocks)
    except Exception as error:
        raise ModelError(
            f"{type(network).__name__} does not name its decoder: {first_line(error)}",
            "Pass the decoder-only language model inside it.",
        ) from error
    paths = [each.module for each in stack.sublayers if isinstance(each, Attention)]
    has = (
        [all(optional_module(block, path) for path in paths) for block in blocks.children()] if blocks else []
    )
    if any(has) and not all(has):
        without = ", ".join(str(index + 1) for index, attends in enumerate(has) if not attends)
        raise ModelError(
            f"Of {len(has)} blocks of {type(network).__name__}, these have no attention: {without}.",
            "Load a model with attention in every block.",
        )
    if blocks is not None:
        _require_own_modules(type(network).__name__, blocks, architecture)


def _require_own_modules(name: str, blocks: nn.Module, architecture: Architecture) -> None:
    """Refuse a network in which two blocks share a module: what it gave in each could not be told apart."""
    for sublayer in architecture.decoder.sublayers:
        path, seen = sublayer.module if isinstance(sublayer, Attention) else sublayer.output, dict[Any, int]()
        for index, block in enumerate(blocks._modules.values()):
            module = None if block is None else optional_module(block, path)
            if module is not None and (first := seen.setdefault(module, index)) != index:
                raise ModelError(
                    f"Blocks {first + 1} and {index + 1} of {name} share {path}.",
                    "Give every block a module of its own (copy.deepcopy), then load the network.",
                )
