"""A small network with random weights, made from a config alone, with every part of the large one.

Whether a family can be explained does not depend on its sizes, so a model that is too large for a laptop is
checked on a small one.
"""

import copy
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

import torch
import transformers
import transformers.modeling_utils
from torch import Tensor

from ...errors import ModelError, first_line

__all__ = ["make_small", "randomise", "shrink", "uninitialised"]

_BLOCKS = 3
_SMALLER = {
    "vocab_size": 97,
    "vocab_size_per_layer_input": 97,
    "intermediate_size": 48,
    "ffn_dim": 48,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "d_ff": 48,
    "decoder_vocab_size": 97,
    "encoder_layers": 3,
    "decoder_layers": 3,
    "num_decoder_layers": 3,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "d_kv": 8,
    "n_inner": 48,
    "ffn_hidden_size": 48,
    "moe_intermediate_size": 24,
    "shared_expert_intermediate_size": 24,
    "num_experts": 4,
    "num_local_experts": 4,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 8,
    "v_head_dim": 8,
    "sliding_window": 5,
}
"""Independent sizes, and the most that each is shrunk to."""
_HEADS, _HEAD_DIM = 4, 8
_TOKENS = ("bos_token_id", "eos_token_id", "pad_token_id")
_TRANSLATOR_TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 0}


def make_small(config: Any, seed: int = 0) -> Any:
    """Make a small network of a config's type with random parameters."""
    try:
        small = shrink(config)
        with uninitialised():
            kind = "AutoModelForSeq2SeqLM" if config.is_encoder_decoder else "AutoModelForCausalLM"
            network = getattr(transformers, kind).from_config(small)
    except Exception as error:  # modelling files refuse sizes in many ways
        raise ModelError(
            f"No small {config.model_type} can be made from this config: {first_line(error)}",
            "Fill in the attributes that are None, or check the model with its own weights.",
        ) from error
    return randomise(network, seed).eval()


def shrink(config: Any) -> Any:
    """Return a copy of a config with smaller sizes and everything else unchanged."""
    config = copy.deepcopy(config)
    text = config.get_text_config()
    heads, width = text.num_attention_heads, text.hidden_size
    for name, most in _SMALLER.items():
        size = getattr(text, name, None)
        if isinstance(size, int) and size > most:
            setattr(text, name, most)
    _shrink_heads(text, heads, width)
    _shrink_blocks(text)
    tokens = _TRANSLATOR_TOKENS if config.is_encoder_decoder else dict.fromkeys(_TOKENS)
    for number, (name, id_) in enumerate(tokens.items()):  # they may lie outside the small vocabulary
        try:
            setattr(text, name, id_)
        except Exception:  # a config that must have one says so in its own way
            setattr(text, name, number)
    return config


def _shrink_heads(text: Any, heads: int, width: int) -> None:
    """Keep how many heads share values, and whether all heads together are as wide as the residual stream."""
    dim = getattr(text, "head_dim", None) or width // heads
    for name in ("num_key_value_heads", "num_kv_heads"):
        shared = getattr(text, name, None)
        if isinstance(shared, int):
            setattr(text, name, max(1, _HEADS * shared // heads))
    for name in ("rotary_dim", "head_dim"):
        if isinstance(vars(text).get(name), int):  # Falcon computes the width of its heads
            setattr(text, name, min(getattr(text, name), _HEAD_DIM))
    text.num_attention_heads = _HEADS
    text.hidden_size = _HEADS * _HEAD_DIM + (0 if heads * dim == width else _HEAD_DIM)
    projected = getattr(text, "word_embed_proj_dim", None)
    if isinstance(projected, int):
        text.word_embed_proj_dim = text.hidden_size if projected == width else text.hidden_size // 2


def _shrink_blocks(text: Any) -> None:
    """Keep a few blocks, including one of every kind."""
    kinds = getattr(text, "layer_types", None)
    blocks = min(_BLOCKS, text.num_hidden_layers)
    if kinds:
        blocks = max(blocks, 1 + max(kinds.index(kind) for kind in set(kinds)))
        with suppress(AttributeError):  # some configs compute it
            text.layer_types = kinds[:blocks]
    text.num_hidden_layers = blocks


def uninitialised() -> AbstractContextManager[None]:
    """Return a context that skips initialisation, which fails for StableLM in transformers 4."""
    none: AbstractContextManager[None] = getattr(
        transformers.modeling_utils, "no_init_weights", nullcontext
    )()
    return none


@torch.no_grad()
def randomise(network: Any, seed: int = 0) -> Any:
    """Randomise every parameter: matrices scaled by their width, biases around 0, norms around 1.

    Fresh models have zero biases and unit norms, which would hide gaps in a description.
    """
    network.tie_weights()
    generator = torch.Generator("cpu").manual_seed(seed)
    for name, parameter in network.named_parameters():
        noise = _draw(parameter.shape, generator)
        if parameter.ndim > 1:
            parameter.copy_(noise * (1.5 / parameter.shape[-1] ** 0.5))
        else:
            parameter.copy_(noise * 0.5 + (0 if name.endswith("bias") else 1))
    for name, buffer in network.named_buffers():
        if name.endswith("logits_bias"):  # formally a buffer, but checkpoints hold it
            buffer.copy_(_draw(buffer.shape, generator) * 0.5)
    return network


def _draw(shape: torch.Size, generator: torch.Generator) -> Tensor:
    """Draw float32 numbers on the CPU, whatever torch's defaults are: they depend on the seed alone."""
    return torch.randn(shape, generator=generator, dtype=torch.float32, device="cpu")
