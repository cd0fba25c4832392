"""The one place where a model type is named: one entry per family.

An entry is a tuple of descriptions; the first whose `expects` agree with the config applies. A model type
without an entry is tried with the most common description, and the proof decides.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..errors import ModelError
from .architecture import Architecture, Attention, Mlp, Norm, Stack, ValueLayout

__all__ = ["CATALOGUE", "GENERAL", "catalogued", "describe"]

_LAYER_NORM = Norm(centred=True)
_RMS_NORM = Norm(centred=False, epsilon="variance_epsilon")
_GEMMA_NORM = Norm(centred=False, epsilon="eps", offset=1.0)

_LLAMA = Architecture(
    name="llama",
    decoder=Stack(
        sublayers=(Attention(module="self_attn", output="self_attn.o_proj"), Mlp(output="mlp")),
        norm=_RMS_NORM,
    ),
)

_GEMMA3 = Architecture(
    name="gemma3",
    decoder=Stack(
        sublayers=(
            Attention(module="self_attn", output="self_attn.o_proj", norm_after="post_attention_layernorm"),
            Mlp(output="mlp", norm_after="post_feedforward_layernorm"),
        ),
        norm=_GEMMA_NORM,
    ),
    expects={"final_logit_softcapping": None},
)

_GPT2 = Architecture(
    name="gpt2",
    decoder=Stack(
        blocks="h",
        sublayers=(Attention(module="attn", output="attn.c_proj"), Mlp(output="mlp")),
        norm=_LAYER_NORM,
        final_norm="ln_f",
    ),
    expects={"add_cross_attention": False},
)

_GPT_NEOX = Architecture(
    name="gpt-neox",
    decoder=Stack(
        sublayers=(Attention(module="attention", output="attention.dense"), Mlp(output="mlp")),
        norm=_LAYER_NORM,
        final_norm="final_layer_norm",
    ),
)

_OPT = Architecture(
    name="opt",
    decoder=Stack(
        sublayers=(Attention(module="self_attn", output="self_attn.out_proj"), Mlp(output="fc2")),
        norm=_LAYER_NORM,
        final_norm="final_layer_norm",
    ),
    expects={"do_layer_norm_before": True, "_remove_final_layer_norm": False},
)

_OPT_POST_NORM = Architecture(
    name="opt-post-norm",
    decoder=Stack(
        sublayers=(
            Attention(module="self_attn", output="self_attn.out_proj", norm_sum="self_attn_layer_norm"),
            Mlp(output="fc2", norm_sum="final_layer_norm"),
        ),
        norm=_LAYER_NORM,
        final_norm=None,
        project_out="project_out",
    ),
    expects={"do_layer_norm_before": False},
)

_BLOOM = Architecture(
    name="bloom",
    decoder=Stack(
        blocks="h",
        sublayers=(
            Attention(
                module="self_attention",
                output="self_attention.dense",
                value=ValueLayout("query_key_value", "(head part dim)", part=2, parts=3),
            ),
            Mlp(output="mlp.dense_4h_to_h"),
        ),
        norm=_LAYER_NORM,
        final_norm="ln_f",
    ),
    expects={"apply_residual_connection_post_layernorm": False, "slow_but_exact": False},
)

CATALOGUE: Mapping[str, tuple[Architecture, ...]] = {
    "bloom": (_BLOOM,),
    "gemma3_text": (_GEMMA3,),
    "gpt2": (_GPT2,),
    "gpt_neox": (_GPT_NEOX,),
    "llama": (_LLAMA,),
    "mistral": (replace(_LLAMA, name="mistral"),),
    "opt": (_OPT, _OPT_POST_NORM),
    "qwen2": (replace(_LLAMA, name="qwen2"),),
}

GENERAL = replace(_LLAMA, name="general")


def catalogued() -> str:
    """Name the model types that have an entry, for messages."""
    return ", ".join(sorted(CATALOGUE))


def describe(config: Any) -> Architecture:
    """Find the description that applies to a config, or the general one for an unknown model type."""
    entries = CATALOGUE.get(config.model_type)
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


def _contradictions(entry: Architecture, config: Any) -> list[tuple[str, object]]:
    return [
        (attribute, expected)
        for attribute, expected in entry.expects.items()
        if getattr(config, attribute, expected) != expected
    ]
