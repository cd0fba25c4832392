"""Load a model, and prove once that it can be explained."""

import logging
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ..ask.start_of_text import require_start
from ..attribute.alti_logit import mix
from ..errors import InputError, ModelError, ProofError, WhywordError, first_line
from ..ledger import Target, settle
from ..maths.proof import Identity, require_close, tolerance_of
from ..models.architecture import Architecture
from ..models.bundled.fetch import FETCHABLE, fetch
from ..models.catalogue import GENERAL, catalogued
from ..models.classifier import DecoderClassifier
from ..models.model import Model
from ..models.open import open_model
from ..trace import Places, Plan
from ..trace.precision import keep_precision
from ..trace.recorder import record
from ..trace.running import evaluating, run
from ..trace.untouched_run import VERIFY

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
    verify: str = "auto",
    start: str = "auto",
) -> Model:
    """Load a model, and prove that recording it does not change what it computes.

    `source`: a hub name, a folder (safetensors), a .gguf file, or a transformers model you already have;
    None is the small default model (4-bit weights, dequantised), fetched the first time, as are others that
    `whyword models` lists. `tokenizer`: replaces the one found there; without any, prompts are token ids.
    `dtype`, `device`: of the weights; None keeps those of the checkpoint. `allow`: "pickle" or "remote-code",
    both refused unless named. `architecture`: your description of a model whose type is not catalogued.
    `verify`: when the recorded run is compared with an untouched run: "auto" when the model is loaded and the
    first time that a prompt has another length class (powers of two, and every length in the config),
    "always" on every call, "load" when it is loaded only. `start`: what stands before a text: "auto" is what
    the tokenizer adds itself, otherwise the special token after which the model itself finds plain sentences
    likeliest (found when a text is first read, and kept in the cache); "none", "bos", "tokenizer" (what it
    adds, and no more), or one token of the vocabulary. Token ids and chat turns are read as they are.
    """
    if verify not in VERIFY:
        raise InputError(f"verify is {verify!r}.", f"When to compare: {', '.join(VERIFY)}.")
    model = open_model(
        find_source(source),
        tokenizer=tokenizer,
        dtype=dtype,
        device=device,
        allow=allow,
        architecture=architecture,
    )
    model = replace(model, verify=verify, start=start)
    require_start(model, start)
    try:
        prove(model)
    except Exception as error:
        failed = error if isinstance(error, WhywordError) else _explain_run(model, error)
        if model.architecture is not GENERAL or not isinstance(failed, ProofError | ModelError):
            raise failed from error.__cause__ if failed is error else error
        raise type(failed)(
            f"The model type {model.config.model_type!r} is not catalogued, and the general description does "
            f"not fit it: {failed.wrong}",
            f"Catalogued: {catalogued()}. For others pass whyword.load(..., architecture=...).",
        ) from error
    if model.architecture is GENERAL:
        _logger.warning(
            f"The model type {model.config.model_type!r} has no entry: "
            "the general description was used, and proven."
        )
    return model


def _explain_run(model: Model, error: Exception) -> ModelError:
    """Explain why a network that was opened cannot be run."""
    return ModelError(
        f"{model.name} cannot be run: {first_line(error)}.",
        "Check that its config belongs to its weights, and that transformers itself runs it.",
    )


def find_source(source: Any) -> Any:
    """Return the folder of a fetchable model; a local folder of the same name takes precedence."""
    if source is None:
        return fetch()
    fetchable = isinstance(source, str) and source in FETCHABLE and not Path(source).exists()
    return fetch(source) if fetchable else source


def prove(model: Model, ids: Sequence[int] | None = None) -> float:
    """Prove all identities on a prompt, by default a short one; return the largest error of a ledger.

    The recorded run must give the logits of an untouched run: this catches wrong positions, and hooks that
    change something. No position may see those after it. A network that fails in any other way is refused
    too: it is not what its description says.
    """
    try:
        return _prove(model, ids)
    except (WhywordError, MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        raise _explain_misfit(model, error) from error


def _explain_misfit(model: Model, error: Exception) -> ModelError:
    """Say whether a network cannot be run at all, or cannot be recorded by its description."""
    name = type(model.network).__name__
    try:
        with keep_precision(model.dtype):
            run(model, [probe(model)])
    except Exception as own:
        return ModelError(
            f"{name} cannot be run on token ids alone: {type(own).__name__}: {first_line(own)}",
            "Load a model that predicts the next token from token ids.",
        )
    return ModelError(
        f"{name} does not work as its description ({model.architecture.name}) says: "
        f"{type(error).__name__}: {first_line(error)}",
        "Pass your own description with whyword.load(..., architecture=...).",
    )


def _prove(model: Model, ids: Sequence[int] | None) -> float:
    ids = probe(model) if ids is None else list(ids)
    prompts, sources = [ids], None
    if model.encoder_stack is not None:  # two sources of different length: padding and its mask
        prompts, sources = [ids[::-1]] * 2, [ids, ids[: len(ids) // 2 + 1]]
    _require_causal(model, prompts[0], sources)
    places = Places((range(len(ids)),) * len(prompts))
    trace = record(replace(model, verify="always"), prompts, places, Plan(len(model.blocks)), sources)
    if sources is None:
        mix(trace)
    if isinstance(model.network, DecoderClassifier):
        _prove_classes(model, model.network, ids, trace.logits[-1])
    ledgers = settle(model, trace, [Target(int(row.argmax())) for row in trace.logits])
    return max(ledger.error for ledger in ledgers)


def _prove_classes(
    model: Model, network: DecoderClassifier, ids: list[int], logits: Float[Tensor, " label"]
) -> None:
    """Prove that what a classifier gives for a text is what its head reads at the last position."""
    with torch.no_grad(), keep_precision(model.dtype), evaluating(model):
        own = network.classifier(input_ids=torch.tensor([ids], device=model.device)).logits[0].to(logits)
    require_close(
        Identity.RECORDED_RUN,
        "the classifier's own output",
        found=logits,
        expected=own,
        scale=own.abs().amax(),
        tolerance=tolerance_of(model.exactness),
    )


def _require_causal(model: Model, ids: list[int], sources: Sequence[Sequence[int]] | None) -> None:
    """Refuse a model in which a position sees what comes after it: other tokens there change its logits."""
    most = model.most_tokens
    first = ids if most is None else ids[: most - 1]
    if not first:
        return
    after = [ids[::-1], [*ids[1:], ids[0]]]
    prompts = [[*first, *tokens][:most] for tokens in after]
    read = None if sources is None else [sources[0]] * 2
    with keep_precision(model.dtype):
        one, other = run(model, prompts, read)[:, : len(first)].to(model.compute_dtype)
    apart = (one - other).abs()
    if not float(apart.amax()) > tolerance_of(model.exactness) * float(one.abs().amax()):
        return  # NaN is refused with where it comes from, when the run is recorded
    position, token = divmod(int(apart.argmax()), apart.shape[1])
    raise ModelError(
        f"{model.name} is not causal: with other tokens after position {position + 1} the logit of token "
        f"{token} there is {float(other[position, token]):.6g} instead of {float(one[position, token]):.6g}.",
        "Give a model in which no position sees those after it (is_causal, use_bidirectional_attention).",
    )


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
