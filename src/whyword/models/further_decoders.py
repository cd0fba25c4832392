"""Further decoders: variations of those in decoders.py, and decoders of translators without an encoder."""

from dataclasses import replace

from .architecture import Architecture, Attention, Experts, Mlp, Norm, Stack, ValueLayout
from .decoders import GEMMA, GPT_OSS, GRANITE, LLAMA, OPT_POST_NORM, XGLM

__all__ = [
    "ARIA",
    "CTRL",
    "DBRX",
    "GRANITE_MOE",
    "GRANITE_MOE_SHARED",
    "HYPERCLOVAX",
    "LLAMA4",
    "MOSHI",
    "NANOCHAT",
    "POST_NORM_DECODER",
    "PRE_NORM_DECODER",
    "VAULTGEMMA",
]

_LAYER_NORM = Norm(centred=True)
_RMS_NORM = Norm(centred=False)
_ATTENTION, _MLP = LLAMA.decoder.sublayers

ARIA = replace(GPT_OSS, name="aria")

_SPARSE_MLP = Mlp(output="block_sparse_moe", multiplier="residual_multiplier")
_SHARED_MLP = Mlp(output="shared_mlp", multiplier="residual_multiplier")
GRANITE_MOE = Architecture(
    name="granite-moe",
    decoder=replace(GRANITE.decoder, sublayers=(GRANITE.decoder.sublayers[0], _SPARSE_MLP)),
    logit_divisor="logits_scaling",
    expects={"shared_intermediate_size": 0},
)
GRANITE_MOE_SHARED = Architecture(
    name="granite-moe-shared",
    decoder=replace(GRANITE.decoder, sublayers=(GRANITE.decoder.sublayers[0], _SPARSE_MLP, _SHARED_MLP)),
    logit_divisor="logits_scaling",
)

HYPERCLOVAX = Architecture(
    name="hyperclovax",
    decoder=replace(
        LLAMA.decoder,
        sublayers=(
            replace(_ATTENTION, norm_after="post_norm1", multiplier="residual_multiplier"),
            replace(_MLP, norm_after="post_norm2", multiplier="residual_multiplier"),
        ),
    ),
    logit_multiplier="logits_scaling",
    expects={"use_post_norm": True},
)

VAULTGEMMA = replace(GEMMA, name="vaultgemma", logit_cap="final_logit_softcapping")

NANOCHAT = Architecture(
    name="nanochat",
    decoder=replace(LLAMA.decoder, norm=_RMS_NORM),
    logit_cap="final_logit_softcapping",
)

LLAMA4 = Architecture(
    name="llama4",
    decoder=Stack(
        blocks="model.layers",
        sublayers=(_ATTENTION, Mlp(output="feed_forward", experts=Experts(transposed=True))),
        norm=_RMS_NORM,
        final_norm="model.norm",
    ),
)

MOSHI = Architecture(
    name="moshi",
    decoder=Stack(
        sublayers=(Attention(module="self_attn", output="self_attn.o_proj.linear"), _MLP),
        norm=_RMS_NORM,
    ),
)

DBRX = Architecture(
    name="dbrx",
    decoder=Stack(
        blocks="blocks",
        sublayers=(
            Attention(module="norm_attn_norm.attn", output="norm_attn_norm.attn.out_proj"),
            Mlp(output="ffn"),
        ),
        norm=_LAYER_NORM,
        final_norm="norm_f",
    ),
)

_CTRL_ATTENTION = Attention(
    module="multi_head_attention",
    output="multi_head_attention.dense",
    value=ValueLayout("Wv", "(head dim)"),
)
CTRL = Architecture(
    name="ctrl",
    decoder=Stack(
        blocks="h",
        sublayers=(_CTRL_ATTENTION, Mlp(output="ffn", down="2")),
        norm=_LAYER_NORM,
        final_norm="layernorm",
    ),
)

PRE_NORM_DECODER = Architecture(
    name="pre-norm decoder",
    decoder=replace(XGLM.decoder, final_norm="layer_norm|layernorm_embedding"),
    expects={"is_encoder_decoder": False},
)
POST_NORM_DECODER = Architecture(
    name="post-norm decoder",
    decoder=replace(OPT_POST_NORM.decoder, project_out=None),
    expects={"is_encoder_decoder": False},
)
