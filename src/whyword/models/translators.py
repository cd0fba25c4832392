"""Descriptions of encoder–decoder families; the catalogue enters them by model type."""

from collections.abc import Mapping
from dataclasses import replace

from .architecture import Architecture, Attention, Mlp, Norm, Stack, ValueLayout
from .further_decoders import POST_NORM_DECODER, PRE_NORM_DECODER

__all__ = ["TRANSLATORS"]

_LAYER_NORM = Norm(centred=True)
_RMS_NORM = Norm(centred=False, epsilon="variance_epsilon")

_SELF = Attention(module="self_attn", output="self_attn.out_proj")
_CROSS = Attention(module="encoder_attn", output="encoder_attn.out_proj", cross=True)
_MLP = Mlp(output="fc2")

_PRE_NORM = Stack(sublayers=(_SELF, _MLP), norm=_LAYER_NORM, final_norm="layer_norm")
_POST_NORM = Stack(
    sublayers=(replace(_SELF, norm_sum="self_attn_layer_norm"), replace(_MLP, norm_sum="final_layer_norm")),
    norm=_LAYER_NORM,
    final_norm=None,
)

_M2M_100 = Architecture(
    name="m2m-100",
    encoder=_PRE_NORM,
    decoder=replace(_PRE_NORM, sublayers=(_SELF, _CROSS, _MLP)),
)

_MBART = replace(_M2M_100, name="mbart", logit_bias="final_logits_bias", expects={"is_encoder_decoder": True})

_BART = Architecture(
    name="bart",
    encoder=_POST_NORM,
    decoder=replace(
        _POST_NORM,
        sublayers=(
            _POST_NORM.sublayers[0],
            replace(_CROSS, norm_sum="encoder_attn_layer_norm"),
            _POST_NORM.sublayers[1],
        ),
    ),
    logit_bias="final_logits_bias",
    expects={"is_encoder_decoder": True},
)

_NLLB_CROSS = Attention(module="cross_attention", output="cross_attention.out_proj", cross=True)
_NLLB_MOE = Architecture(
    name="nllb-moe",
    encoder=replace(_PRE_NORM, sublayers=(_SELF, Mlp(output="ffn"))),
    decoder=replace(_PRE_NORM, sublayers=(_SELF, _NLLB_CROSS, Mlp(output="ffn"))),
)

_T5_VALUES = ValueLayout("v", "(head dim)")
_T5_SELF = Attention(module="layer.0.SelfAttention", output="layer.0.SelfAttention.o", value=_T5_VALUES)
_T5_CROSS = Attention(
    module="layer.1.EncDecAttention", output="layer.1.EncDecAttention.o", value=_T5_VALUES, cross=True
)
_T5_ENCODER = Stack(
    blocks="block",
    sublayers=(_T5_SELF, Mlp(output="layer.1.DenseReluDense")),
    norm=_RMS_NORM,
    final_norm="final_layer_norm",
)
_MT5 = Architecture(
    name="mt5",
    encoder=_T5_ENCODER,
    decoder=replace(_T5_ENCODER, sublayers=(_T5_SELF, _T5_CROSS, Mlp(output="layer.2.DenseReluDense"))),
)
_T5 = replace(
    _MT5,
    name="t5",
    decoder=replace(_MT5.decoder, scaled_by_width="scale_decoder_outputs|tie_word_embeddings"),
)

TRANSLATORS: Mapping[str, tuple[Architecture, ...]] = {
    "bart": (_BART, POST_NORM_DECODER),
    "m2m_100": (_M2M_100,),
    "marian": (replace(_BART, name="marian"), POST_NORM_DECODER),
    "mbart": (_MBART, PRE_NORM_DECODER),
    "mt5": (_MT5,),
    "nllb-moe": (_NLLB_MOE,),
    "pegasus": (replace(_MBART, name="pegasus"), PRE_NORM_DECODER),
    "t5": (_T5,),
}
