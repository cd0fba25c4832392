"""The one place where a model type is named: one entry per family.

An entry is a tuple of descriptions; the first whose `expects` agree with the config applies. A model type
without an entry is tried with the most common description, and the proof decides.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..errors import ModelError
from . import decoders
from .architecture import Architecture
from .entry_points import find_added
from .translators import TRANSLATORS

__all__ = ["CATALOGUE", "GENERAL", "catalogued", "describe", "find_entries", "refuse"]

CATALOGUE: Mapping[str, tuple[Architecture, ...]] = {
    "biogpt": (decoders.XGLM,),
    "bloom": (decoders.BLOOM,),
    "codegen": (decoders.CODEGEN,),
    "cohere": (decoders.COHERE,),
    "cohere2": (decoders.COHERE,),
    "deepseek_v2": (decoders.LLAMA,),
    "deepseek_v3": (decoders.LLAMA,),
    "falcon": (decoders.FALCON, decoders.FALCON_MULTI_QUERY, decoders.FALCON_MULTI_HEAD),
    "gemma": (decoders.GEMMA,),
    "gemma2": (decoders.GEMMA2,),
    "gemma3_text": (decoders.GEMMA3,),
    "glm": (decoders.LLAMA,),
    "glm4": (decoders.GLM4,),
    "gpt2": (decoders.GPT2,),
    "gpt_neo": (decoders.GPT_NEO,),
    "gpt_neox": (decoders.GPT_NEOX,),
    "gpt_oss": (decoders.GPT_OSS,),
    "gptj": (decoders.GPT_J,),
    "granite": (decoders.GRANITE,),
    "llama": (decoders.LLAMA,),
    "mistral": (decoders.LLAMA,),
    "mixtral": (decoders.MIXTRAL,),
    "mpt": (decoders.MPT,),
    "nemotron": (decoders.NEMOTRON,),
    "olmo": (decoders.OLMO,),
    "olmo2": (decoders.OLMO2,),
    "olmo3": (decoders.OLMO2,),
    "olmoe": (decoders.LLAMA,),
    "opt": (decoders.OPT, decoders.OPT_POST_NORM),
    "persimmon": (decoders.PHI,),
    "phi": (decoders.PHI,),
    "phi3": (decoders.LLAMA,),
    "qwen2": (decoders.LLAMA,),
    "qwen2_moe": (decoders.LLAMA,),
    "qwen3": (decoders.LLAMA,),
    "qwen3_moe": (decoders.LLAMA,),
    "smollm3": (decoders.LLAMA,),
    "stablelm": (decoders.STABLELM,),
    "xglm": (decoders.XGLM,),
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


def refuse(network: Any) -> None:
    """Refuse a model type that does not predict by attention to the preceding tokens."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

    config, name = network.config, f"{type(network).__name__} ({network.config.model_type})"
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
