"""Tiny models of every catalogued family, made from their config classes, all parameters randomised."""

from typing import Any

import torch
import transformers

from .shrink import randomise

__all__ = ["FAMILIES", "build"]

_SIZES = {"num_hidden_layers": 3, "hidden_size": 32, "num_attention_heads": 4, "vocab_size": 97}
_LLAMA = {**_SIZES, "intermediate_size": 48, "num_key_value_heads": 2, "max_position_embeddings": 64}
_GPT2 = {"n_layer": 3, "n_embd": 32, "n_head": 4, "vocab_size": 97, "n_positions": 64}
_OPT = {**_SIZES, "ffn_dim": 48, "word_embed_proj_dim": 32, "max_position_embeddings": 64}
_NEOX = {**_SIZES, "intermediate_size": 48, "max_position_embeddings": 64}
_POST_NORM = {**_OPT, "do_layer_norm_before": False}

FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "bloom": ("Bloom", {"n_layer": 3, "hidden_size": 32, "n_head": 4, "vocab_size": 97}),
    "gemma3": ("Gemma3Text", {**_LLAMA, "head_dim": 8, "sliding_window": 5}),
    "gpt2": ("GPT2", _GPT2),
    "gpt-neox-parallel": ("GPTNeoX", {**_NEOX, "use_parallel_residual": True}),
    "gpt-neox-sequential": ("GPTNeoX", {**_NEOX, "use_parallel_residual": False}),
    "llama": ("Llama", {**_LLAMA, "attention_bias": True, "mlp_bias": True}),
    "llama-untied": ("Llama", {**_LLAMA, "tie_word_embeddings": False, "head_dim": 12}),
    "mistral": ("Mistral", {**_LLAMA, "sliding_window": 5}),
    "opt": ("OPT", _OPT),
    "opt-post-norm": ("OPT", _POST_NORM),
    "opt-post-norm-projected": ("OPT", {**_POST_NORM, "word_embed_proj_dim": 20}),
    "qwen2": ("Qwen2", _LLAMA),
}

_NETWORKS = {"GPT2": "GPT2LMHeadModel", "Gemma3Text": "Gemma3ForCausalLM"}


def build(family: str, dtype: torch.dtype, seed: int = 0, **changes: Any) -> Any:
    """Make a tiny model of a family."""
    name, sizes = FAMILIES[family]
    config = getattr(transformers, f"{name}Config")(
        **{**sizes, **changes}, bos_token_id=1, eos_token_id=2, pad_token_id=0
    )
    network = getattr(transformers, _NETWORKS.get(name, f"{name}ForCausalLM"))(config)
    return randomise(network, seed).to(dtype).eval()
