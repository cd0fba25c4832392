"""Explain in two lines why transformers could not load a model."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..errors import ModelError, WhywordError, first_line, is_failure
from .catalogue import catalogued

__all__ = ["explain_failure", "explaining_failure"]


_READERS = {
    "aqlm": "aqlm",
    "awq": "gptqmodel",
    "bitsandbytes": "bitsandbytes",
    "compressed-tensors": "compressed-tensors",
    "gptq": "gptqmodel optimum",
    "hqq": "hqq",
    "quanto": "optimum-quanto",
    "torchao": "torchao",
}
"""The packages that read quantised checkpoints, by the method that their config names."""


@contextmanager
def explaining_failure(source: str, config: Any | None = None) -> Iterator[None]:
    """Raise whatever a library raises inside in two lines; `config` says whether weights are quantised."""
    try:
        yield
    except BaseException as error:
        if isinstance(error, WhywordError) or not is_failure(error):
            raise
        method = _name_quantisation(config)
        if method is not None:
            raise _explain_quantised(source, method, error) from error
        raise explain_failure(source, error) from error


def _name_quantisation(config: Any | None) -> str | None:
    """Name the method by which a checkpoint is quantised, None where it is not."""
    said = getattr(config, "quantization_config", None)
    method = said.get("quant_method") if isinstance(said, dict) else getattr(said, "quant_method", None)
    return None if method is None else str(getattr(method, "value", method))


def _explain_quantised(source: str, method: str, error: BaseException) -> ModelError:
    package = _READERS.get(method)
    install = "Install the package that reads it" if package is None else f"Install {package}"
    return ModelError(
        f"{source} is quantised ({method}) and cannot be loaded: {first_line(error).rstrip('.')}.",
        f"{install}, with kernels for this device, or load the model unquantised.",
    )


def explain_failure(source: str, error: BaseException) -> ModelError:
    """Explain in two lines why transformers could not load a model."""
    from huggingface_hub.errors import (
        GatedRepoError,
        HFValidationError,
        LocalEntryNotFoundError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
    )

    causes = list(_causes(error))
    text = "\n".join(str(cause) for cause in causes)
    if any(isinstance(cause, GatedRepoError) for cause in causes):
        return ModelError(
            f"{source} is gated on the hub.", "Ask for access on its page and log in with `hf auth login`."
        )
    if any(isinstance(cause, RepositoryNotFoundError | HFValidationError) for cause in causes):
        return ModelError(
            f"The hub has no model {source!r}, and there is no such folder.",
            "Check the name, or pass a local folder.",
        )
    if "trust_remote_code" in text:
        return ModelError(
            f"{source} needs remote code.",
            "If you trust it, pass whyword.load(..., allow='remote-code').",
        )
    unreachable = (LocalEntryNotFoundError, OfflineModeIsEnabled, ConnectionError)
    if any(isinstance(cause, unreachable) for cause in causes) or "couldn't connect" in text:
        return ModelError(
            f"{source!r} is not in the local cache, and the hub cannot be reached.",
            "Go online (and unset HF_HUB_OFFLINE) to fetch it once, or pass a local folder.",
        )
    if "safetensors" in text:
        return ModelError(f"{source} has no weights (*.safetensors).", "Choose a model that has them.")
    if "does not recognize this architecture" in text or "Unrecognized configuration class" in text:
        return ModelError(
            f"{source} is not a language model that this version of transformers knows: {first_line(error)}.",
            f"Catalogued model types: {catalogued()}.",
        )
    return ModelError(
        f"{source} cannot be loaded: {first_line(error)}.",
        "Check that its files are complete and belong together.",
    )


def _causes(error: BaseException | None) -> Any:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
