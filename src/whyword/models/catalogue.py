"""The one place where a model type is named: one entry per family.

An entry is a tuple of descriptions; the first whose `expects` agree with the config applies. A model type
without an entry is tried with the most common description, and the proof decides.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..errors import ModelError
from . import decoders, further_decoders
from .architecture import Architecture
from .entry_points import find_added
from .translators import TRANSLATORS

__all__ = ["CATALOGUE", "GENERAL", "catalogued", "describe", "find_entries", "refuse"]

CATALOGUE: Mapping[str, tuple[Architecture, ...]] = {
    "apertus": (decoders.LLAMA,),
    "arcee": (decoders.LLAMA,),
    "aria_text": (further_decoders.ARIA,),
    "axk1": (decoders.LLAMA,),
    "bigbird_pegasus": (further_decoders.PRE_NORM_DECODER,),
    "biogpt": (decoders.XGLM,),
    "blenderbot": (further_decoders.PRE_NORM_DECODER,),
    "blenderbot-small": (further_decoders.POST_NORM_DECODER,),
    "bloom": (decoders.BLOOM,),
    "codegen": (decoders.CODEGEN,),
    "cohere": (decoders.COHERE,),
    "cohere2": (decoders.COHERE,),
    "cohere2_moe": (decoders.COHERE,),
    "cohere_compass_text": (decoders.COHERE,),
    "ctrl": (further_decoders.CTRL,),
    "cwm": (decoders.LLAMA,),
    "dbrx": (further_decoders.DBRX,),
    "deepseek_v2": (decoders.LLAMA,),
    "deepseek_v3": (decoders.LLAMA,),
    "deepseek_v32": (decoders.LLAMA,),
    "dots1": (decoders.LLAMA,),
    "emu3_text_model": (decoders.LLAMA,),
    "ernie4_5": (decoders.LLAMA,),
    "ernie4_5_moe": (decoders.LLAMA,),
    "exaone4": (decoders.OLMO2,),
    "exaone_moe": (decoders.LLAMA,),
    "falcon": (decoders.FALCON, decoders.FALCON_MULTI_QUERY, decoders.FALCON_MULTI_HEAD),
    "flex_olmo": (decoders.OLMO2,),
    "flint": (decoders.LLAMA,),
    "gemma": (decoders.GEMMA,),
    "gemma2": (decoders.GEMMA2,),
    "gemma3_text": (decoders.GEMMA3,),
    "glm": (decoders.LLAMA,),
    "glm4": (decoders.GLM4,),
    "glm4_moe": (decoders.LLAMA,),
    "glm4_moe_lite": (decoders.LLAMA,),
    "glm_moe_dsa": (decoders.LLAMA,),
    "gpt2": (decoders.GPT2,),
    "gpt_bigcode": (decoders.GPT2,),
    "gpt_neo": (decoders.GPT_NEO,),
    "gpt_neox": (decoders.GPT_NEOX,),
    "gpt_oss": (decoders.GPT_OSS,),
    "gptj": (decoders.GPT_J,),
    "granite": (decoders.GRANITE,),
    "granitemoe": (further_decoders.GRANITE_MOE,),
    "granitemoeshared": (further_decoders.GRANITE_MOE, further_decoders.GRANITE_MOE_SHARED),
    "helium": (decoders.LLAMA,),
    "hunyuan_v1_dense": (decoders.LLAMA,),
    "hunyuan_v1_moe": (decoders.LLAMA,),
    "hy_v3": (decoders.LLAMA,),
    "hyperclovax": (further_decoders.HYPERCLOVAX,),
    "jais2": (decoders.STABLELM,),
    "kolibri1": (decoders.GLM4,),
    "llama": (decoders.LLAMA,),
    "llama4_text": (further_decoders.LLAMA4,),
    "mellum": (decoders.LLAMA,),
    "mimo_v2_flash": (decoders.LLAMA,),
    "minimax_m2": (decoders.LLAMA,),
    "minimax_m3_vl_text": (decoders.GEMMA,),
    "ministral": (decoders.LLAMA,),
    "ministral3": (decoders.LLAMA,),
    "mistral": (decoders.LLAMA,),
    "mixtral": (decoders.MIXTRAL,),
    "moshi": (further_decoders.MOSHI,),
    "mpt": (decoders.MPT,),
    "mvp": (further_decoders.POST_NORM_DECODER,),
    "nanochat": (further_decoders.NANOCHAT,),
    "nemotron": (decoders.NEMOTRON,),
    "olmo": (decoders.OLMO,),
    "olmo2": (decoders.OLMO2,),
    "olmo3": (decoders.OLMO2,),
    "olmoe": (decoders.LLAMA,),
    "opt": (decoders.OPT, decoders.OPT_POST_NORM),
    "persimmon": (decoders.PHI,),
    "phi": (decoders.PHI,),
    "phi3": (decoders.LLAMA,),
    "phi4_multimodal": (decoders.LLAMA,),
    "phimoe": (decoders.STABLELM,),
    "plbart": (further_decoders.POST_NORM_DECODER,),
    "qwen2": (decoders.LLAMA,),
    "qwen2_moe": (decoders.LLAMA,),
    "qwen3": (decoders.LLAMA,),
    "qwen3_moe": (decoders.LLAMA,),
    "seed_oss": (decoders.LLAMA,),
    "smollm3": (decoders.LLAMA,),
    "solar_open": (decoders.LLAMA,),
    "stablelm": (decoders.STABLELM,),
    "starcoder2": (decoders.STABLELM,),
    "trocr": (further_decoders.POST_NORM_DECODER,),
    "vaultgemma": (further_decoders.VAULTGEMMA,),
    "whisper": (further_decoders.PRE_NORM_DECODER,),
    "xglm": (decoders.XGLM,),
    "youtu": (decoders.LLAMA,),
    **TRANSLATORS,
}

GENERAL = replace(decoders.LLAMA, name="general")

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


def refuse(config: Any, network: str) -> None:
    """Refuse a model type that does not attend to the preceding tokens; `network`: the name of its class."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

    name = f"{network} ({config.model_type})"
    remedy = "Load a decoder-only language model with attention in every block."
    if config.model_type in _WITHOUT_ATTENTION:
        raise ModelError(f"{name} has no attention: its blocks keep a state instead.", remedy)
    if config.model_type in _DIFFUSION:
        raise ModelError(f"{name} is a diffusion model: it fills in many tokens at once.", remedy)
    if config.model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES and not getattr(config, "is_decoder", False):
        raise ModelError(f"{name} is an encoder: it sees the tokens that follow.", remedy)


def _contradictions(entry: Architecture, config: Any) -> list[tuple[str, object]]:
    return [
        (attribute, expected)
        for attribute, expected in entry.expects.items()
        if getattr(config, attribute, expected) != expected
    ]
