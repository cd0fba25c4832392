"""Tiny models of every catalogued family, made from their config classes, all parameters randomised."""

from typing import Any

import torch
import transformers

from .shrink import randomise, uninitialised

__all__ = ["ABSENT", "FAMILIES", "TRANSLATORS", "build", "find_present"]

_SIZES = {"num_hidden_layers": 3, "hidden_size": 32, "num_attention_heads": 4, "vocab_size": 97}
_LLAMA = {**_SIZES, "intermediate_size": 48, "num_key_value_heads": 2, "max_position_embeddings": 64}
_GPT2 = {"n_layer": 3, "n_embd": 32, "n_head": 4, "vocab_size": 97, "n_positions": 64}
_OPT = {**_SIZES, "ffn_dim": 48, "word_embed_proj_dim": 32, "max_position_embeddings": 64}
_NEOX = {**_SIZES, "intermediate_size": 48, "max_position_embeddings": 64}
_POST_NORM = {**_OPT, "do_layer_norm_before": False}

_FALCON = {**_SIZES, "max_position_embeddings": 64}
_EXPERTS = {**_LLAMA, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
_LATENT = {
    **_LLAMA,
    "num_key_value_heads": 4,
    "q_lora_rank": 12,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 4,
    "v_head_dim": 10,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_shared_experts": 1,
    "moe_intermediate_size": 24,
    "first_k_dense_replace": 1,
}
_VISION = {
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": 28,
    "patch_size": 14,
}
_GEMMA = {**_LLAMA, "head_dim": 12}
_WINDOW = {"sliding_window": 5, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}

FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "biogpt": ("BioGpt", {**_NEOX, "max_position_embeddings": 64}),
    "bloom": ("Bloom", {"n_layer": 3, "hidden_size": 32, "n_head": 4, "vocab_size": 97}),
    "codegen": ("CodeGen", {**_GPT2, "n_head": 8, "rotary_dim": 2}),
    "cohere": ("Cohere", {**_LLAMA, "logit_scale": 0.25, "use_qk_norm": True, "attention_bias": True}),
    "cohere2": ("Cohere2", {**_LLAMA, **_WINDOW, "logit_scale": 0.25}),
    "deepseek-v2": ("DeepseekV2", {**_LATENT, "topk_method": "greedy", "attention_bias": True}),
    "deepseek-v3": ("DeepseekV3", {**_LATENT, "n_group": 2, "topk_group": 1}),
    "falcon": ("Falcon", {**_FALCON, "new_decoder_architecture": True, "num_kv_heads": 2}),
    "falcon-multi-head": (
        "Falcon",
        {**_FALCON, "multi_query": False, "alibi": True, "bias": True, "parallel_attn": False},
    ),
    "falcon-multi-query": ("Falcon", {**_FALCON, "multi_query": True, "parallel_attn": True}),
    "gemma": ("Gemma", _GEMMA),
    "gemma2": (
        "Gemma2",
        {**_GEMMA, **_WINDOW, "final_logit_softcapping": 2.0, "attn_logit_softcapping": 3.0},
    ),
    "gemma3": ("Gemma3Text", {**_LLAMA, "head_dim": 8, "sliding_window": 5}),
    "gemma3-multimodal": (
        "Gemma3",
        {
            "text_config": {**_GEMMA, **_WINDOW},
            "vision_config": _VISION,
            "mm_tokens_per_image": 1,
        },
    ),
    "glm": ("Glm", {**_LLAMA, "head_dim": 12, "attention_bias": True}),
    "glm4": ("Glm4", {**_LLAMA, "head_dim": 12, "attention_bias": True}),
    "gpt2": ("GPT2", _GPT2),
    "gpt-j": ("GPTJ", {**_GPT2, "rotary_dim": 4}),
    "gpt-neo": (
        "GPTNeo",
        {
            "num_layers": 3,
            "attention_types": [[["global", "local", "global"], 1]],
            "window_size": 5,
            "hidden_size": 32,
            "num_heads": 4,
            "vocab_size": 97,
            "max_position_embeddings": 64,
        },
    ),
    "gpt-neox-parallel": ("GPTNeoX", {**_NEOX, "use_parallel_residual": True}),
    "gpt-neox-sequential": ("GPTNeoX", {**_NEOX, "use_parallel_residual": False}),
    "gpt-oss": (
        "GptOss",
        {**_LLAMA, **_WINDOW, "head_dim": 8, "num_local_experts": 4, "num_experts_per_tok": 2},
    ),
    "granite": (
        "Granite",
        {**_LLAMA, "residual_multiplier": 0.4, "logits_scaling": 3.0, "embedding_multiplier": 5.0},
    ),
    "llama": ("Llama", {**_LLAMA, "attention_bias": True, "mlp_bias": True}),
    "llama-untied": ("Llama", {**_LLAMA, "tie_word_embeddings": False, "head_dim": 12}),
    "mistral": ("Mistral", {**_LLAMA, "sliding_window": 5}),
    "mixtral": ("Mixtral", {**_LLAMA, "num_local_experts": 4}),
    "mpt": ("Mpt", {"d_model": 32, "n_heads": 4, "n_layers": 3, "vocab_size": 97, "max_seq_len": 64}),
    "nemotron": ("Nemotron", {**_LLAMA, "head_dim": 12, "attention_bias": True, "mlp_bias": True}),
    "olmo": ("Olmo", {**_LLAMA, "clip_qkv": 1.0}),
    "olmo2": ("Olmo2", _LLAMA),
    "olmo3": ("Olmo3", {**_LLAMA, **_WINDOW}),
    "olmoe": ("Olmoe", {**_LLAMA, "num_experts": 4, "num_experts_per_tok": 2}),
    "opt": ("OPT", _OPT),
    "opt-post-norm": ("OPT", _POST_NORM),
    "opt-post-norm-projected": ("OPT", {**_POST_NORM, "word_embed_proj_dim": 20}),
    "persimmon": ("Persimmon", _NEOX),
    "phi": ("Phi", _LLAMA),
    "phi3": ("Phi3", {**_LLAMA, "sliding_window": 5}),
    "qwen2": ("Qwen2", _LLAMA),
    "qwen2-moe": ("Qwen2Moe", {**_EXPERTS, "shared_expert_intermediate_size": 24, "mlp_only_layers": [1]}),
    "qwen3": ("Qwen3", {**_LLAMA, "head_dim": 12}),
    "qwen3-moe": ("Qwen3Moe", {**_EXPERTS, "head_dim": 12, "mlp_only_layers": [1]}),
    "smollm3": ("SmolLM3", {**_LLAMA, "no_rope_layers": [1, 0, 1]}),
    "stablelm": ("StableLm", {**_LLAMA, "use_qkv_bias": True}),
    "stablelm-parallel": ("StableLm", {**_LLAMA, "use_parallel_residual": True, "qk_layernorm": True}),
    "xglm": (
        "XGLM",
        {
            "num_layers": 3,
            "d_model": 32,
            "attention_heads": 4,
            "ffn_dim": 48,
            "vocab_size": 97,
            "max_position_embeddings": 64,
        },
    ),
}

_BART = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 40,
    "decoder_ffn_dim": 48,
    "vocab_size": 97,
    "max_position_embeddings": 64,
    "decoder_start_token_id": 2,
    "scale_embedding": True,
}
_T5 = {
    "d_model": 32,
    "d_kv": 6,
    "d_ff": 48,
    "num_layers": 2,
    "num_decoder_layers": 3,
    "num_heads": 4,
    "vocab_size": 97,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 12,
    "decoder_start_token_id": 0,
}
_GATED = {**_T5, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}

TRANSLATORS: dict[str, tuple[str, dict[str, Any]]] = {
    "bart": ("Bart", _BART),
    "m2m-100": ("M2M100", _BART),
    "marian": ("Marian", {**_BART, "decoder_start_token_id": 0}),
    "mbart": ("MBart", _BART),
    "mt5": ("MT5", _GATED),
    "nllb-moe": (
        "NllbMoe",
        {
            **_BART,
            "num_experts": 4,
            "expert_capacity": 64,
            "encoder_sparse_step": 2,
            "decoder_sparse_step": 2,
        },
    ),
    "pegasus": ("Pegasus", {**_BART, "decoder_start_token_id": 0}),
    "t5": ("T5", _T5),
    "t5-v1.1": ("T5", _GATED),
}
"""Families with an encoder."""

ABSENT: dict[int, frozenset[str]] = {4: frozenset(), 5: frozenset()}
"""Families that a major version of transformers does not have; a test compares it with the installed one."""

_NETWORKS = {
    "GPT2": "GPT2LMHeadModel",
    "Gemma3": "Gemma3ForConditionalGeneration",
    "Gemma3Text": "Gemma3ForCausalLM",
    "Marian": "MarianMTModel",
}


def find_present() -> list[str]:
    """List the families that the installed transformers has."""
    return [name for name, (kind, _) in FAMILIES.items() if hasattr(transformers, f"{kind}Config")]


def build(family: str, dtype: torch.dtype, seed: int = 0, **changes: Any) -> Any:
    """Make a tiny model of a family."""
    name, sizes = {**FAMILIES, **TRANSLATORS}[family]
    config = getattr(transformers, f"{name}Config")(
        **{**sizes, **changes}, bos_token_id=1, eos_token_id=2, pad_token_id=0
    )
    kind = "ForConditionalGeneration" if family in TRANSLATORS else "ForCausalLM"
    with uninitialised():
        network = getattr(transformers, _NETWORKS.get(name, f"{name}{kind}"))(config)
    return randomise(network, seed).to(dtype).eval()
