"""Open a model wherever it is: hub id, local folder, GGUF file, or an object already in memory."""

import logging
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from ..errors import ModelError
from .adapters import (
    AdapterFolder,
    find_adapter_folder,
    is_hub_name,
    load_adapter,
    name_base,
    refuse_partial_adapters,
)
from .architecture import Architecture
from .bundled.fetch import FETCHABLE, fetch
from .catalogue import describe, refuse
from .classifier import DecoderClassifier, as_language_model
from .gguf_header import require_whole_gguf
from .half_precision import advise, to_float32
from .load_failure import explaining_failure
from .model import Model
from .open_tokenizer import adapt_tokenizer, find_special_ids, load_tokenizer
from .requirements import require_attention, require_parts, require_possible_sizes, require_same_stacks
from .unwrapping import unwrap

__all__ = ["name_source", "open_model", "read_config", "read_dtype"]

_log = logging.getLogger("whyword")
ALLOWABLE = ("pickle", "remote-code")


def open_model(
    source: Any,
    *,
    tokenizer: Any | None = None,
    dtype: str | torch.dtype | None = None,
    device: str | torch.device | None = None,
    allow: str | Collection[str] = (),
    architecture: Architecture | None = None,
) -> Model:
    """Open a model and find its description; nothing is proven yet."""
    allowed, folder, stored = _allowed(allow), None, None
    if isinstance(source, str | Path):
        folder = find_adapter_folder(source)
        opened, found = _open_source(str(source), folder, dtype, allowed)
        unwrapped = unwrap(opened)
        network = unwrapped.network
        if dtype is None and device in (None, "cpu", torch.device("cpu")):
            network, stored = to_float32(network)
        name = name_source(source)
    else:
        unwrapped = unwrap(source)
        network, found = _require_network(unwrapped.network), unwrapped.tokenizer
        name = str(getattr(network.config, "_name_or_path", "") or type(network).__name__)
        if (dtype is not None and network.dtype != read_dtype(dtype)) or device is not None:
            raise ModelError(
                f"dtype is {dtype} and device {device}, but the model in memory is {network.dtype} on "
                f"{network.device}.",
                "Convert and move it before you pass it: whyword does not change a model of yours.",
            )
        if advice := advise(network):
            _log.warning(advice)
    with explaining_failure(name):
        if device is not None:
            network = network.to(device)
        network = as_language_model(network)
        refuse_partial_adapters(network)
        tokenizer = found if tokenizer is None else adapt_tokenizer(tokenizer)
        model = _fit(network, tokenizer, architecture, name_base(name, folder))
        folder_name = None if folder is None else folder.name
        wrappers = (*unwrapped.wrappers, *_list_classifier(network))
        return replace(model, stored=stored, wrappers=wrappers, adapter_name=folder_name)


def _list_classifier(network: Any) -> list[Any]:
    """List what is run without its own forward: a classifier, of which the decoder and the head run."""
    return [network.classifier] if isinstance(network, DecoderClassifier) else []


def _fit(network: Any, tokenizer: Any, architecture: Architecture | None, name: str) -> Model:
    """Find the description of a network, and check that it can be one."""
    if not network.config.is_encoder_decoder:
        refuse(network.config, type(network).__name__)
    config = require_parts(network)
    if architecture is None:
        architecture = describe(config)
    require_same_stacks(network, architecture)
    require_attention(network, architecture)
    return Model(
        network=network,
        tokenizer=tokenizer,
        architecture=architecture,
        base_name=name,
        special_ids=find_special_ids(tokenizer),
    )


def _open_source(
    source: str, adapter: AdapterFolder | None, dtype: str | torch.dtype | None, allowed: frozenset[str]
) -> tuple[Any, Any | None]:
    """Load network and tokenizer from a folder, a GGUF file or the hub."""
    if adapter is not None:
        return _open_adapter(adapter, dtype, allowed)
    path, options = Path(source), dict[str, Any]()
    if path.suffix == ".gguf":
        if not path.is_file():
            raise ModelError(f"There is no file {source}.", "Pass the path of a .gguf file.")
        require_whole_gguf(path)
        options["gguf_file"] = path.name
        source = str(path.parent)
    elif path.is_dir():
        _require_weights(path, allowed)
    elif path.exists():
        raise ModelError(
            f"{source} is neither a folder nor a .gguf file.", "Pass a folder with config.json and weights."
        )
    else:
        _require_hub_name(source)
    network = _load_network(source, dtype, allowed, options)
    return network, load_tokenizer(source, allowed, options)


def _open_adapter(
    adapter: AdapterFolder, dtype: str | torch.dtype | None, allowed: frozenset[str]
) -> tuple[Any, Any | None]:
    """Load the base model of an adapter, and the adapter into it."""
    try:
        base = _find_base(adapter.base)
        network, tokenizer = _open_source(base, find_adapter_folder(base), dtype, allowed)
    except ModelError as error:
        raise ModelError(
            f"The base model of the adapter {adapter.name} cannot be loaded. {error.wrong}",
            error.remedy,
        ) from error
    with explaining_failure(adapter.name):
        adapted = load_adapter(network, adapter)
        return adapted, load_tokenizer(str(adapter.folder), allowed, {}) or tokenizer


def _find_base(base: str) -> str:
    """Return the folder of a base model that can be fetched; others as they are named."""
    return str(fetch(base)) if base in FETCHABLE and not Path(base).exists() else base


def name_source(source: str | Path) -> str:
    """Name a model by its folder or file, or as the hub does."""
    return Path(source).name if Path(source).exists() else str(source)


def read_config(source: str | Path, allow: str | Collection[str] = ()) -> Any:
    """Read the config of a model, without its weights."""
    from transformers import AutoConfig

    path, options = Path(source), dict[str, Any]()
    if path.suffix == ".gguf" and path.is_file():
        require_whole_gguf(path)
        options["gguf_file"] = path.name
        source = path.parent
    elif not path.exists():
        _require_hub_name(str(source))
    with explaining_failure(str(source)):
        return AutoConfig.from_pretrained(
            source, trust_remote_code="remote-code" in _allowed(allow), **options
        )


def _load_network(
    source: str, dtype: str | torch.dtype | None, allowed: frozenset[str], options: dict[str, Any]
) -> Any:
    from transformers import AutoConfig

    with explaining_failure(source):
        if not Path(source).is_dir() and "pickle" not in allowed:
            _refuse_pickle(source)
        config = None
        if "gguf_file" not in options:  # which takes as long to read as the model
            config = AutoConfig.from_pretrained(source, trust_remote_code="remote-code" in allowed)
            require_possible_sizes(config, Path(source))
        kind = _choose_class(config)
    with explaining_failure(source, config):
        network, info = kind.from_pretrained(
            source,
            dtype="auto" if dtype is None else read_dtype(dtype),
            trust_remote_code="remote-code" in allowed,
            use_safetensors=None if "pickle" in allowed or "gguf_file" in options else True,
            output_loading_info=True,
            **options,
        )
    if missing := sorted(info["missing_keys"]):
        raise ModelError(
            f"{source} lacks {len(missing)} weights of {type(network).__name__}, among them {missing[0]}.",
            "Use a complete checkpoint: missing weights would be random.",
        )
    return network.eval()


def _choose_class(config: Any | None) -> Any:
    """Choose how transformers is to load a model, by its config."""
    from transformers import (
        AutoModelForCausalLM,
        AutoModelForSeq2SeqLM,
        AutoModelForSequenceClassification,
    )

    if config is not None and config.is_encoder_decoder:
        return AutoModelForSeq2SeqLM
    saved = getattr(config, "architectures", None) or [""]
    classifies = str(saved[0]).endswith("ForSequenceClassification")
    return AutoModelForSequenceClassification if classifies else AutoModelForCausalLM


def _refuse_pickle(name: str) -> None:
    """Refuse a model on the hub that has its weights in a pickle only (transformers would convert it)."""
    from transformers.utils import has_file

    if any(has_file(name, file) for file in ("model.safetensors", "model.safetensors.index.json")):
        return
    if any(has_file(name, file) for file in ("pytorch_model.bin", "pytorch_model.bin.index.json")):
        raise ModelError(
            f"{name} has its weights in a pickle, which can run any code when it is loaded.",
            "If you trust it, pass whyword.load(..., allow='pickle').",
        )


def _require_weights(folder: Path, allowed: frozenset[str]) -> None:
    """Refuse a folder that holds no model, or one that only a pickle loads."""
    if not (folder / "config.json").is_file():
        raise ModelError(f"{folder} has no config.json.", "Pass a folder that save_pretrained wrote.")
    if any(folder.glob("*.safetensors")):
        return
    pickles = sorted(path.name for path in folder.glob("*.bin"))
    if not pickles:
        raise ModelError(
            f"{folder} has no weights (*.safetensors).", "Pass a folder that save_pretrained wrote."
        )
    if "pickle" not in allowed:
        raise ModelError(
            f"{folder} has its weights in a pickle ({pickles[0]}), which can run any code when it is loaded.",
            "If you trust it, pass whyword.load(..., allow='pickle'); better, save it as safetensors.",
        )


def _require_hub_name(source: str) -> None:
    """Tell a path that does not exist from a name on the hub."""
    if not is_hub_name(source):
        raise ModelError(
            f"There is no folder {source}.",
            "Pass a folder with config.json and weights, or a name on the hub.",
        )


def _require_network(source: Any) -> Any:
    from transformers import PreTrainedModel

    if not isinstance(source, PreTrainedModel):
        raise ModelError(
            f"A model cannot be loaded from a {type(source).__name__}.",
            "Pass a hub name, a folder, a .gguf file or a transformers model.",
        )
    return source


def _allowed(allow: str | Collection[str]) -> frozenset[str]:
    allowed = frozenset([allow] if isinstance(allow, str) else allow)
    if unknown := sorted(allowed - set(ALLOWABLE)):
        raise ModelError(f"allow names {unknown[0]!r}.", f"What can be allowed: {', '.join(ALLOWABLE)}.")
    return allowed


def read_dtype(dtype: str | torch.dtype) -> torch.dtype:
    """Read the name of a type that weights can be in."""
    found = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if found not in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        raise ModelError(f"dtype is {dtype!r}.", "Types: float64, float32, float16, bfloat16.")
    return found
