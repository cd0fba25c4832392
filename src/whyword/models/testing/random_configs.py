"""Small configs of any causal model type that transformers has, with other choices for every seed.

Seed 0 keeps the choices that the config class makes; others flip switches and draw the numbers that lie
between a sub-layer and a logit, so that a description cannot fit by chance.
"""

import random
import re
from collections.abc import Mapping
from typing import Any

from .shrink import randomise, uninitialised
from .small_sizes import OF_TYPES, SIZES

__all__ = ["build_type", "list_types", "make_config"]

_TOKENS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "eod_token_id": 2, "sep_token_id": 2}
_TEXT = ("text_config", "decoder")
"""Where a config of several networks has that of its text decoder."""
_KEPT = frozenset(
    {
        "add_cross_attention",
        "gradient_checkpointing",
        "is_decoder",
        "is_encoder_decoder",
        "output_attentions",
        "output_hidden_states",
        "output_router_logits",
        "return_dict",
        "tie_encoder_decoder",
        "torchscript",
        "use_associative_scan",
        "use_cache",
        "use_mamba_kernels",
        "use_mambapy",
        "use_mem_eff_path",
    }
)
"""Switches that say how a network is called, not what it computes."""
_FACTOR = re.compile(r".*(multiplier|scaling|scale)(_factor)?|scale_emb|scale_depth|.*softcapping")
"""Names of numbers that multiply what is written, or cap it."""
_ROPE_TYPES: tuple[Mapping[str, Any], ...] = (
    {"rope_type": "default"},
    {"rope_type": "linear", "factor": 2.0},
    {"rope_type": "dynamic", "factor": 2.0},
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16},
    {
        "rope_type": "longrope",
        "short_factor": [1.0, 1.2, 1.4, 1.6],
        "long_factor": [2.0, 3.0, 4.0, 5.0],
        "original_max_position_embeddings": 16,
    },
)


def list_types() -> list[str]:
    """List the model types of which transformers has a causal language model."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    return sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)


def build_type(model_type: str, seed: int = 0) -> Any:
    """Make a small causal network of a model type, all parameters randomised, in float64.

    Experts are computed one by one: torch multiplies the rows of several in float32 only.
    """
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    config = make_config(model_type, seed)
    with uninitialised():
        if isinstance(config, CONFIG_MAPPING[model_type]):
            network = transformers.AutoModelForCausalLM.from_config(config)
        else:  # the config of the text decoder alone
            network = getattr(transformers, MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[model_type])(config)
    if getattr(network, "_can_set_experts_implementation", bool)():
        network.set_experts_implementation("eager")
    return randomise(network, seed).double().eval()


def make_config(model_type: str, seed: int = 0) -> Any:
    """Make a small config of a model type; seeds other than 0 draw its switches and factors."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    kind, own = CONFIG_MAPPING[model_type], OF_TYPES.get(model_type, {})
    default = kind(**own)
    inner = next((name for name in _TEXT if hasattr(getattr(default, name, None), "to_dict")), None)
    if inner is not None:
        text = getattr(default, inner)
        chosen = {**_choose(text, seed), **own.get(inner, {})}
        if inner == "decoder":
            return type(text)(**chosen)
        return kind(**{**_choose(default, seed), **own, inner: chosen})
    return kind(**{**_choose(default, seed), **own})


def _choose(default: Any, seed: int) -> dict[str, Any]:
    """Choose the sizes of a config, and for seeds other than 0 its switches and factors."""
    known = vars(default)
    chosen = {name: size for name, size in {**SIZES, **_TOKENS}.items() if name in known}
    for shared, heads in (
        ("num_key_value_heads", "num_attention_heads"),
        ("num_kv_heads", "num_attention_heads"),
    ):
        if shared in chosen and known[shared] == known.get(heads):
            chosen[shared] = SIZES[heads]
    if "is_decoder" in known or default.is_encoder_decoder:
        chosen |= {"is_decoder": True, "is_encoder_decoder": False}
    return chosen if seed == 0 else {**chosen, **_draw(known, random.Random(seed))}


def _draw(known: Mapping[str, Any], chance: random.Random) -> dict[str, Any]:
    """Draw switches, factors and the way positions are encoded."""
    drawn: dict[str, Any] = {}
    for name in sorted(known):
        value, factor = known[name], _FACTOR.fullmatch(name)
        if name in _KEPT or name.startswith("_"):
            continue
        if isinstance(value, bool):
            drawn[name] = value != (chance.random() < 0.25)
        elif factor and (isinstance(value, float) or value is None):
            drawn[name] = round(chance.uniform(0.5, 2.0), 3)
        elif name == "tie_word_embeddings":
            drawn[name] = chance.random() < 0.5
        elif name == "rope_parameters" and isinstance(value, Mapping) and "rope_type" in value:
            drawn[name] = {**value, **chance.choice(_ROPE_TYPES)}
    if isinstance(known.get("num_key_value_heads"), int) and "kv_lora_rank" not in known:
        drawn["num_key_value_heads"] = chance.choice((1, 2, 4))
    if isinstance(known.get("head_dim"), int) and "rope_parameters" not in drawn:
        drawn["head_dim"] = chance.choice((8, 12))
    return drawn
