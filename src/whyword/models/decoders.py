"""Descriptions of decoders; which model type has which is in catalogue.py."""

from dataclasses import replace

from .architecture import Architecture, Attention, Experts, Mlp, Norm, Stack, ValueLayout

__all__ = [
    "BLOOM",
    "CODEGEN",
    "COHERE",
    "FALCON",
    "FALCON_MULTI_HEAD",
    "FALCON_MULTI_QUERY",
    "GEMMA",
    "GEMMA2",
    "GEMMA3",
    "GLM4",
    "GPT2",
    "GPT_J",
    "GPT_NEO",
    "GPT_NEOX",
    "GPT_OSS",
    "GRANITE",
    "LLAMA",
    "MIXTRAL",
    "MPT",
    "NEMOTRON",
    "OLMO",
    "OLMO2",
    "OPT",
    "OPT_POST_NORM",
    "PHI",
    "STABLELM",
    "XGLM",
]

_LAYER_NORM = Norm(centred=True)
_RMS_NORM = Norm(centred=False, epsilon="variance_epsilon")
_GEMMA_NORM = Norm(centred=False, epsilon="eps", offset=1.0)
_NEMOTRON_NORM = Norm(centred=True, offset=1.0)

_VALUES = ValueLayout("v_proj", "(head dim)")
_FUSED_VALUES = ValueLayout("query_key_value", "(head part dim)", part=2, sizes={"part": 3})

_ATTENTION = Attention(module="self_attn", output="self_attn.o_proj", value=_VALUES)
_MLP = Mlp(output="mlp")

LLAMA = Architecture(name="llama", decoder=Stack(sublayers=(_ATTENTION, _MLP), norm=_RMS_NORM))

MIXTRAL = Architecture(
    name="mixtral",
    decoder=replace(LLAMA.decoder, sublayers=(_ATTENTION, Mlp(output="mlp|block_sparse_moe"))),
)

_FUSED_EXPERTS = replace(_MLP, experts=Experts(transposed=True))
GPT_OSS = Architecture(name="gpt-oss", decoder=replace(LLAMA.decoder, sublayers=(_ATTENTION, _FUSED_EXPERTS)))

GRANITE = Architecture(
    name="granite",
    decoder=replace(
        LLAMA.decoder,
        sublayers=(
            replace(_ATTENTION, multiplier="residual_multiplier"),
            replace(_MLP, multiplier="residual_multiplier"),
        ),
    ),
    logit_divisor="logits_scaling",
)

COHERE = Architecture(
    name="cohere",
    decoder=replace(LLAMA.decoder, norm=Norm(centred=True, epsilon="variance_epsilon")),
    logit_multiplier="logit_scale",
)

OLMO = Architecture(name="olmo", decoder=replace(LLAMA.decoder, norm=Norm(centred=True, epsilon=1e-5)))

OLMO2 = Architecture(
    name="olmo2",
    decoder=replace(
        LLAMA.decoder,
        sublayers=(
            replace(_ATTENTION, norm_after="post_attention_layernorm"),
            replace(_MLP, norm_after="post_feedforward_layernorm"),
        ),
    ),
)

GLM4 = Architecture(
    name="glm4",
    decoder=replace(
        LLAMA.decoder,
        sublayers=(
            replace(_ATTENTION, norm_after="post_self_attn_layernorm"),
            replace(_MLP, norm_after="post_mlp_layernorm"),
        ),
    ),
)

GEMMA = Architecture(name="gemma", decoder=replace(LLAMA.decoder, norm=_GEMMA_NORM))

GEMMA2 = Architecture(
    name="gemma2",
    decoder=replace(OLMO2.decoder, norm=_GEMMA_NORM),
    logit_cap="final_logit_softcapping",
)

GEMMA3 = replace(GEMMA2, name="gemma3")

STABLELM = Architecture(name="stablelm", decoder=replace(LLAMA.decoder, norm=_LAYER_NORM))

NEMOTRON = Architecture(name="nemotron", decoder=replace(LLAMA.decoder, norm=_NEMOTRON_NORM))

PHI = Architecture(
    name="phi",
    decoder=Stack(
        sublayers=(Attention(module="self_attn", output="self_attn.dense"), _MLP),
        norm=_LAYER_NORM,
        final_norm="final_layernorm",
    ),
)

GPT2 = Architecture(
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
GPT_J = Architecture(name="gpt-j", decoder=replace(GPT2.decoder, sublayers=(_GPT_J_ATTENTION, _MLP)))

_CODEGEN_VALUES = ValueLayout("qkv_proj", "(core part head dim)", part=1, sizes={"core": 4, "part": 3})
CODEGEN = Architecture(
    name="codegen",
    decoder=replace(GPT2.decoder, sublayers=(replace(_GPT_J_ATTENTION, value=_CODEGEN_VALUES), _MLP)),
)

_GPT_NEO_ATTENTION = Attention(module="attn.attention", output="attn.attention.out_proj", value=_VALUES)
GPT_NEO = Architecture(name="gpt-neo", decoder=replace(GPT2.decoder, sublayers=(_GPT_NEO_ATTENTION, _MLP)))

_MPT_VALUES = ValueLayout("Wqkv", "(part head dim)", part=2, sizes={"part": 3})
MPT = Architecture(
    name="mpt",
    decoder=Stack(
        blocks="blocks",
        sublayers=(replace(_GPT_J_ATTENTION, value=_MPT_VALUES), Mlp(output="ffn.down_proj")),
        norm=_LAYER_NORM,
        final_norm="norm_f",
    ),
)

GPT_NEOX = Architecture(
    name="gpt-neox",
    decoder=Stack(
        sublayers=(Attention(module="attention", output="attention.dense"), _MLP),
        norm=_LAYER_NORM,
        final_norm="final_layer_norm",
    ),
)

_OPT_ATTENTION = Attention(module="self_attn", output="self_attn.out_proj", value=_VALUES)
OPT = Architecture(
    name="opt",
    decoder=Stack(
        sublayers=(_OPT_ATTENTION, Mlp(output="fc2")), norm=_LAYER_NORM, final_norm="final_layer_norm"
    ),
    expects={"do_layer_norm_before": True, "_remove_final_layer_norm": False},
)

OPT_POST_NORM = Architecture(
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

XGLM = Architecture(
    name="xglm",
    decoder=replace(OPT.decoder, final_norm="layer_norm"),
    expects={"add_cross_attention": False},
)

_BLOOM_ATTENTION = Attention(module="self_attention", output="self_attention.dense", value=_FUSED_VALUES)
BLOOM = Architecture(
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
FALCON = Architecture(
    name="falcon",
    decoder=replace(BLOOM.decoder, sublayers=(replace(_BLOOM_ATTENTION, value=_FALCON_VALUES), _MLP)),
    expects={"new_decoder_architecture": True},
)

_ONE_VALUE = ValueLayout("query_key_value", "(part dim)", part=-1)
FALCON_MULTI_QUERY = Architecture(
    name="falcon-multi-query",
    decoder=replace(BLOOM.decoder, sublayers=(replace(_BLOOM_ATTENTION, value=_ONE_VALUE), _MLP)),
    expects={"new_decoder_architecture": False, "multi_query": True},
)

FALCON_MULTI_HEAD = Architecture(
    name="falcon-multi-head",
    decoder=replace(BLOOM.decoder, sublayers=(_BLOOM_ATTENTION, _MLP)),
    expects={"new_decoder_architecture": False, "multi_query": False},
)
