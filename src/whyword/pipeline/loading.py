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
from ..trace.causality import probe, probe_sources
from ..trace.precision import keep_precision
from ..trace.recorder import record
from ..trace.running import evaluating, run
from ..trace.untouched_run import VERIFY

__all__ = ["find_source", "load", "prove"]

_logger = logging.getLogger("whyword")


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
    except Exception as refused:
        own = refused.__cause__ or refused
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
    if model.encoder_stack is not None:
        prompts, sources = [ids[::-1]] * 2, probe_sources(ids)
    places = Places((range(len(ids)),) * len(prompts))
    proving = replace(model, verify="always")
    trace = record(proving, prompts, places, Plan(len(model.blocks)), sources)
    model.lengths.state = proving.lengths.state
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
