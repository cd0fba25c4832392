"""The one place where a model type is named: one entry per family.

An entry is a tuple of descriptions; the first whose `expects` agree with the config applies. A model type
without an entry is tried with the most common description, and the proof decides.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..errors import ModelError
from .additions import find_added
from .architecture import Architecture, Attention, Experts, Mlp, Norm, Stack, ValueLayout

__all__ = ["CATALOGUE", "GENERAL", "catalogued", "describe", "find_entries", "refuse"]

_LAYER_NORM = Norm(centred=True)
_RMS_NORM = Norm(centred=False, epsilon="variance_epsilon")
_GEMMA_NORM = Norm(centred=False, epsilon="eps", offset=1.0)
_NEMOTRON_NORM = Norm(centred=True, offset=1.0)

_VALUES = ValueLayout("v_proj", "(head dim)")
_FUSED_VALUES = ValueLayout("query_key_value", "(head part dim)", part=2, sizes={"part": 3})

_ATTENTION = Attention(module="self_attn", output="self_attn.o_proj", value=_VALUES)
_MLP = Mlp(output="mlp")

_LLAMA = Architecture(name="llama", decoder=Stack(sublayers=(_ATTENTION, _MLP), norm=_RMS_NORM))

_MIXTRAL = Architecture(
    name="mixtral",
    decoder=replace(_LLAMA.decoder, sublayers=(_ATTENTION, Mlp(output="mlp|block_sparse_moe"))),
)

_FUSED_EXPERTS = replace(_MLP, experts=Experts(transposed=True))
_GPT_OSS = Architecture(
    name="gpt-oss", decoder=replace(_LLAMA.decoder, sublayers=(_ATTENTION, _FUSED_EXPERTS))
)

_GRANITE = Architecture(
    name="granite",
    decoder=replace(
        _LLAMA.decoder,
        sublayers=(
            replace(_ATTENTION, multiplier="residual_multiplier"),
            replace(_MLP, multiplier="residual_multiplier"),
        ),
    ),
    logit_divisor="logits_scaling",
)

_COHERE = Architecture(
    name="cohere",
    decoder=replace(_LLAMA.decoder, norm=Norm(centred=True, epsilon="variance_epsilon")),
    logit_multiplier="logit_scale",
)

_OLMO = Architecture(name="olmo", decoder=replace(_LLAMA.decoder, norm=Norm(centred=True, epsilon=1e-5)))

_OLMO2 = Architecture(
    name="olmo2",
    decoder=replace(
        _LLAMA.decoder,
        sublayers=(
            replace(_ATTENTION, norm_after="post_attention_layernorm"),
            replace(_MLP, norm_after="post_feedforward_layernorm"),
        ),
    ),
)

_GLM4 = Architecture(
    name="glm4",
    decoder=replace(
        _LLAMA.decoder,
        sublayers=(
            replace(_ATTENTION, norm_after="post_self_attn_layernorm"),
            replace(_MLP, norm_after="post_mlp_layernorm"),
        ),
    ),
)

_GEMMA = Architecture(name="gemma", decoder=replace(_LLAMA.decoder, norm=_GEMMA_NORM))

_GEMMA2 = Architecture(
    name="gemma2",
    decoder=replace(_OLMO2.decoder, norm=_GEMMA_NORM),
    logit_cap="final_logit_softcapping",
)

_GEMMA3 = replace(_GEMMA2, name="gemma3")

_STABLELM = Architecture(name="stablelm", decoder=replace(_LLAMA.decoder, norm=_LAYER_NORM))

_NEMOTRON = Architecture(name="nemotron", decoder=replace(_LLAMA.decoder, norm=_NEMOTRON_NORM))

_PHI = Architecture(
    name="phi",
    decoder=Stack(
        sublayers=(Attention(module="self_attn", output="self_attn.dense"), _MLP),
        norm=_LAYER_NORM,
        final_norm="final_layernorm",
    ),
)

_GPT2 = Architecture(
    name="gpt2",
    decoder=Stack(
        blocks="h",
        sublayers=(Attention(module="attn", output="attn.c_proj"), _MLP),
        norm=_LAYER_NORM,
        final_norm="ln_f",
    ),
    expects={"add_cross_attention": False},
)

_GPT_J_ATTENTION = Attention(module="attn", output="attn.out_proj", value=_VALUES)
_GPT_J = Architecture(name="gpt-j", decoder=replace(_GPT2.decoder, sublayers=(_GPT_J_ATTENTION, _MLP)))

_CODEGEN_VALUES = ValueLayout("qkv_proj", "(core part head dim)", part=1, sizes={"core": 4, "part": 3})
_CODEGEN = Architecture(
    name="codegen",
    decoder=replace(_GPT2.decoder, sublayers=(replace(_GPT_J_ATTENTION, value=_CODEGEN_VALUES), _MLP)),
)

_GPT_NEO_ATTENTION = Attention(module="attn.attention", output="attn.attention.out_proj", value=_VALUES)
_GPT_NEO = Architecture(name="gpt-neo", decoder=replace(_GPT2.decoder, sublayers=(_GPT_NEO_ATTENTION, _MLP)))

_MPT_VALUES = ValueLayout("Wqkv", "(part head dim)", part=2, sizes={"part": 3})
_MPT = Architecture(
    name="mpt",
    decoder=Stack(
        blocks="blocks",
        sublayers=(replace(_GPT_J_ATTENTION, value=_MPT_VALUES), Mlp(output="ffn.down_proj")),
        norm=_LAYER_NORM,
        final_norm="norm_f",
    ),
)

_GPT_NEOX = Architecture(
    name="gpt-neox",
    decoder=Stack(
        sublayers=(Attention(module="attention", output="attention.dense"), _MLP),
        norm=_LAYER_NORM,
        final_norm="final_layer_norm",
    ),
)

_OPT_ATTENTION = Attention(module="self_attn", output="self_attn.out_proj", value=_VALUES)
_OPT = Architecture(
    name="opt",
    decoder=Stack(
        sublayers=(_OPT_ATTENTION, Mlp(output="fc2")), norm=_LAYER_NORM, final_norm="final_layer_norm"
    ),
    expects={"do_layer_norm_before": True, "_remove_final_layer_norm": False},
)

_OPT_POST_NORM = Architecture(
    name="opt-post-norm",
    decoder=Stack(
        sublayers=(
            replace(_OPT_ATTENTION, norm_sum="self_attn_layer_norm"),
            Mlp(output="fc2", norm_sum="final_layer_norm"),
        ),
        norm=_LAYER_NORM,
        final_norm=None,
        project_out="project_out",
    ),
    expects={"do_layer_norm_before": False},
)

_XGLM = Architecture(
    name="xglm",
    decoder=replace(_OPT.decoder, final_norm="layer_norm"),
    expects={"add_cross_attention": False},
)

_BLOOM_ATTENTION = Attention(module="self_attention", output="self_attention.dense", value=_FUSED_VALUES)
_BLOOM = Architecture(
    name="bloom",
    decoder=Stack(
        blocks="h",
        sublayers=(_BLOOM_ATTENTION, Mlp(output="mlp.dense_4h_to_h")),
        norm=_LAYER_NORM,
        final_norm="ln_f",
    ),
    expects={"apply_residual_connection_post_layernorm": False, "slow_but_exact": False},
)

_FALCON_VALUES = ValueLayout("query_key_value", "(head part dim)", part=-1, sizes={"head": "num_kv_heads"})
_FALCON = Architecture(
    name="falcon",
    decoder=replace(_BLOOM.decoder, sublayers=(replace(_BLOOM_ATTENTION, value=_FALCON_VALUES), _MLP)),
    expects={"new_decoder_architecture": True},
)

_ONE_VALUE = ValueLayout("query_key_value", "(part dim)", part=-1)
_FALCON_MULTI_QUERY = Architecture(
    name="falcon-multi-query",
    decoder=replace(_BLOOM.decoder, sublayers=(replace(_BLOOM_ATTENTION, value=_ONE_VALUE), _MLP)),
    expects={"new_decoder_architecture": False, "multi_query": True},
)

_FALCON_MULTI_HEAD = Architecture(
    name="falcon-multi-head",
    decoder=replace(_BLOOM.decoder, sublayers=(_BLOOM_ATTENTION, _MLP)),
    expects={"new_decoder_architecture": False, "multi_query": False},
)

CATALOGUE: Mapping[str, tuple[Architecture, ...]] = {
    "biogpt": (_XGLM,),
    "bloom": (_BLOOM,),
    "codegen": (_CODEGEN,),
    "cohere": (_COHERE,),
    "cohere2": (_COHERE,),
    "deepseek_v2": (_LLAMA,),
    "deepseek_v3": (_LLAMA,),
    "falcon": (_FALCON, _FALCON_MULTI_QUERY, _FALCON_MULTI_HEAD),
    "gemma": (_GEMMA,),
    "gemma2": (_GEMMA2,),
    "gemma3_text": (_GEMMA3,),
    "glm": (_LLAMA,),
    "glm4": (_GLM4,),
    "gpt2": (_GPT2,),
    "gpt_neo": (_GPT_NEO,),
    "gpt_neox": (_GPT_NEOX,),
    "gpt_oss": (_GPT_OSS,),
    "gptj": (_GPT_J,),
    "granite": (_GRANITE,),
    "llama": (_LLAMA,),
    "mistral": (_LLAMA,),
    "mixtral": (_MIXTRAL,),
    "mpt": (_MPT,),
    "nemotron": (_NEMOTRON,),
    "olmo": (_OLMO,),
    "olmo2": (_OLMO2,),
    "olmo3": (_OLMO2,),
    "olmoe": (_LLAMA,),
    "opt": (_OPT, _OPT_POST_NORM),
    "persimmon": (_PHI,),
    "phi": (_PHI,),
    "phi3": (_LLAMA,),
    "qwen2": (_LLAMA,),
    "qwen2_moe": (_LLAMA,),
    "qwen3": (_LLAMA,),
    "qwen3_moe": (_LLAMA,),
    "smollm3": (_LLAMA,),
    "stablelm": (_STABLELM,),
    "xglm": (_XGLM,),
}

GENERAL = replace(_LLAMA, name="general")


_DIFFUSION = frozenset({"diffusion_gemma", "Dream", "llada"})
_WITHOUT_ATTENTION = frozenset({"falcon_mamba", "mamba", "mamba2", "rwkv", "xlstm"})


def catalogued() -> str:
    """Name the model types that have an entry, for messages."""
    return ", ".join(sorted(CATALOGUE))


def find_entries(model_type: str) -> tuple[Architecture, ...] | None:
    """Find the descriptions of a model type: ours, or those that an installed package adds for it."""
    return CATALOGUE.get(model_type) or find_added(model_type)


def describe(config: Any) -> Architecture:
    """Find the description that applies to a config, or the general one for an unknown model type."""
    entries = find_entries(config.model_type)
    if entries is None:
        return GENERAL
    for entry in entries:
        if not _contradictions(entry, config):
            return entry
    closest = min(entries, key=lambda entry: len(_contradictions(entry, config)))
    attribute, expected = _contradictions(closest, config)[0]
    raise ModelError(
        f"config.{attribute} is {getattr(config, attribute)!r}, but the {closest.name} description was "
        f"written for {expected!r}.",
        "Pass your own description with whyword.load(..., architecture=...).",
    )


def refuse(network: Any) -> None:
    """Refuse, by its type, a model that predicts otherwise than by attention to the tokens before."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

    config, name = network.config, f"{type(network).__name__} ({network.config.model_type})"
    remedy = "Give a decoder-only language model with attention in every block."
    if config.model_type in _WITHOUT_ATTENTION:
        raise ModelError(f"{name} has no attention: its blocks keep a state instead.", remedy)
    if config.model_type in _DIFFUSION:
        raise ModelError(f"{name} is a diffusion model: it fills in many tokens at once.", remedy)
    if config.model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES and not getattr(config, "is_decoder", False):
        raise ModelError(f"{name} is an encoder: it sees the tokens that come after.", remedy)


def _contradictions(entry: Architecture, config: Any) -> list[tuple[str, object]]:
    return [
        (attribute, expected)
        for attribute, expected in entry.expects.items()
        if getattr(config, attribute, expected) != expected
    ]
