"""Load a model, and prove once that it can be explained."""

import logging
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ..attribute.alti_logit import mix
from ..errors import ModelError, ProofError
from ..ledger import Target, settle
from ..maths.proof import Identity, require_close, tolerance_of
from ..models.architecture import Architecture
from ..models.bundled.fetch import FETCHABLE, fetch
from ..models.catalogue import GENERAL, catalogued
from ..models.model import Model
from ..models.open import open_model
from ..trace import Places, Plan
from ..trace.precision import keep_precision
from ..trace.recorder import record
from ..trace.running import run

__all__ = ["find_source", "load", "probe", "prove"]

_logger = logging.getLogger("whyword")
_PROBE = 12
"""Length in tokens of the prompt that a model is proven on."""


def load(
    source: Any = None,
    tokenizer: Any | None = None,
    *,
    dtype: str | torch.dtype | None = None,
    device: str | torch.device | None = None,
    allow: str | Collection[str] = (),
    architecture: Architecture | None = None,
) -> Model:
    """Load a model, and prove that recording it does not change what it computes.

    `source`: a hub name, a folder (safetensors), a .gguf file, or a transformers model you already have;
    None is the small default model (4-bit weights, dequantised), fetched the first time, as are others that
    `whyword models` lists. `tokenizer`: replaces the one found there; without any, prompts are token ids.
    `dtype`, `device`: of the weights; None keeps those of the checkpoint. `allow`: "pickle" or "remote-code",
    both refused unless named. `architecture`: your description of a model whose type is not catalogued.
    """
    model = open_model(
        find_source(source),
        tokenizer=tokenizer,
        dtype=dtype,
        device=device,
        allow=allow,
        architecture=architecture,
    )
    try:
        prove(model)
    except (ProofError, ModelError) as error:
        if model.architecture is not GENERAL:
            raise
        raise type(error)(
            f"The model type {model.config.model_type!r} is not catalogued, and the general description does "
            f"not fit it: {error.wrong}",
            f"Catalogued: {catalogued()}. For others pass whyword.load(..., architecture=...).",
        ) from error
    if model.architecture is GENERAL:
        _logger.warning(
            f"The model type {model.config.model_type!r} has no entry: "
            "the general description was used, and proven."
        )
    return model


def find_source(source: Any) -> Any:
    """Return the folder of a fetchable model; a local folder of the same name takes precedence."""
    if source is None:
        return fetch()
    fetchable = isinstance(source, str) and source in FETCHABLE and not Path(source).exists()
    return fetch(source) if fetchable else source


def prove(model: Model, ids: Sequence[int] | None = None) -> float:
    """Prove all identities on a prompt, by default a short one; return the largest error of a ledger.

    The recorded run must give the logits of an untouched run with the model's own attention. This catches a
    wrong mask, wrong positions, and hooks that change something.
    """
    ids = probe(model) if ids is None else list(ids)
    prompts, sources = [ids], None
    if model.encoder_stack is not None:  # two sources of different length: padding and its mask
        prompts, sources = [ids[::-1]] * 2, [ids, ids[: len(ids) // 2 + 1]]
    with keep_precision(model.dtype):  # both runs in the model's own precision
        expected = run(model, prompts, sources).flatten(0, 1).to(model.compute_dtype)
    places = Places((range(len(ids)),) * len(prompts))
    trace = record(model, prompts, places, Plan(len(model.blocks)), sources)
    require_close(
        Identity.RECORDED_RUN,
        "whole model",
        found=trace.logits,
        expected=expected,
        scale=_scale(model, expected),
        tolerance=tolerance_of(model.dtype),
    )
    if sources is None:
        mix(trace)
    ledgers = settle(model, trace, [Target(int(row.argmax())) for row in trace.logits])
    return max(ledger.error for ledger in ledgers)


def _scale(model: Model, logits: Float[Tensor, "position vocab"]) -> Tensor:
    """Return the scale of errors: the largest logit before biases are added, or a logit's own size.

    Some models add −10,000 to the logit of padding; relative to that, no error of another logit would show.
    """
    if model.logit_bias is None:
        return logits.abs().amax()
    return torch.maximum((logits - model.logit_bias.to(logits)).abs().amax(), logits.abs())


def probe(model: Model, length: int = _PROBE) -> list[int]:
    """Choose token ids spread over the vocabulary, without special ones."""
    if model.vocabulary <= len(model.special_ids):
        raise ModelError(
            f"{model.name} has no tokens besides special ones.", "Load a model with a vocabulary."
        )
    length = min(length, model.most_tokens or length)
    stride = max(1, model.vocabulary // (3 * length))
    plain = [id_ for id_ in range(stride - 1, model.vocabulary, stride) if id_ not in model.special_ids]
    return [plain[index % len(plain)] for index in range(length)]
