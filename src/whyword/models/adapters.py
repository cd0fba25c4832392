"""Adapters beside the layers of a network (PEFT): which are active, and folders that hold one."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..errors import ModelError, first_line
from .load_failure import explaining_failure

__all__ = [
    "Adapter",
    "AdapterFolder",
    "find_adapter_folder",
    "find_adapters",
    "is_hub_name",
    "load_adapter",
    "name_base",
    "name_with_adapters",
    "refuse_partial_adapters",
]

CONFIG = "adapter_config.json"
LOADED = "default"
"""What peft calls an adapter that is loaded from a folder."""
_WEIGHTS = "adapter_model.safetensors"
_FILES = ["*.json", "*.safetensors", "*.model", "*.txt", "*.jinja"]
"""What is fetched of an adapter: no pickles, no code."""


@dataclass(frozen=True)
class Adapter:
    """An adapter that acts in the network."""

    name: str
    kind: str
    """LoRA, DoRA, rsLoRA, IA3 …"""
    rank: int | None
    partial: bool = False
    """Whether it acts only after certain tokens, which are looked for outside of the network (aLoRA)."""

    def __str__(self) -> str:
        rank = "" if self.rank is None else f", rank {self.rank}"
        return f"{self.name} ({self.kind}{rank})"


@dataclass(frozen=True)
class AdapterFolder:
    """A folder that `save_pretrained` of an adapter wrote, here or in the cache of the hub."""

    folder: Path
    name: str
    """The name of the folder, or its name on the hub."""
    base: str
    """The base model: a path or a name."""
    revision: str | None


def find_adapters(network: Any, modules: Iterable[Any] | None = None) -> tuple[Adapter, ...]:
    """List the adapters that act in a network: active ones that are neither merged nor switched off."""
    configs = getattr(getattr(network, "classifier", network), "peft_config", None)
    if not isinstance(configs, dict):
        return ()
    active: dict[str, None] = {}
    modules = list(network.modules() if modules is None else modules)
    kinds = {kind for kind in {*map(type, modules)} if hasattr(kind, "active_adapters")}
    for module in (each for each in modules if type(each) in kinds):
        names = module.active_adapters
        if not isinstance(names, list) or getattr(module, "disable_adapters", False) is True:
            continue
        merged = getattr(module, "merged_adapters", [])
        active |= dict.fromkeys(name for name in names if name not in merged)
    return tuple(_describe(name, configs[name]) for name in active if name in configs)


def _describe(name: str, config: Any) -> Adapter:
    kind = str(getattr(config.peft_type, "value", config.peft_type))
    if kind == "LORA":
        kind = "DoRA" if config.use_dora else "rsLoRA" if config.use_rslora else "LoRA"
    rank = getattr(config, "r", None)
    partial = bool(getattr(config, "alora_invocation_tokens", None))
    return Adapter(name, "aLoRA" if partial else kind, rank if isinstance(rank, int) else None, partial)


def refuse_partial_adapters(network: Any, modules: Iterable[Any] | None = None) -> None:
    """Refuse adapters that act only after some tokens: the network alone runs without them."""
    for adapter in find_adapters(network, modules):
        if adapter.partial:
            raise ModelError(
                f"The adapter {adapter.name!r} (aLoRA) acts only after its invocation tokens, which the "
                "network inside does not look for: it would be explained without the adapter.",
                "Explain a model whose adapters act at every position (LoRA, DoRA, IA3), or the base model: "
                "disable_adapter_layers() or unload().",
            )


def name_base(name: str, folder: AdapterFolder | None) -> str:
    """Name a model without its adapters; that of an adapter in a folder by its base."""
    if folder is None:
        return name
    return Path(folder.base).name if Path(folder.base).exists() else folder.base


def name_with_adapters(name: str, adapters: Iterable[Adapter], folder: str | None) -> str:
    """Name a model with the adapters that act in it; one from a folder by the name of that."""
    said = (replace(each, name=folder) if folder and each.name == LOADED else each for each in adapters)
    return " + ".join([name, *map(str, said)])


def find_adapter_folder(source: str | Path) -> AdapterFolder | None:
    """Find an adapter in a folder or on the hub; None where there is none, or a whole model."""
    folder, name = Path(source), Path(source).name
    if not folder.exists() and isinstance(source, str) and is_hub_name(source):
        fetched = _fetch_adapter(source)
        if fetched is None:
            return None
        folder, name = fetched, source
    if not (folder / CONFIG).is_file() or (folder / "config.json").is_file():
        return None
    return _read_adapter_folder(folder, name)


def is_hub_name(source: str) -> bool:
    """Tell a name on the hub from a path."""
    return source.count("/") <= 1 and not source.startswith((".", "/", "~")) and "\\" not in source


def _fetch_adapter(name: str) -> Path | None:
    """Fetch an adapter from the hub, or find it in its cache; None where that is no adapter."""
    from huggingface_hub import hf_hub_download, snapshot_download, try_to_load_from_cache

    try:
        if isinstance(try_to_load_from_cache(name, "config.json"), str):
            return None
        hf_hub_download(name, CONFIG)
    except Exception:  # no adapter, or the hub cannot be reached: whatever loads the model says so
        return None
    with explaining_failure(name):
        return Path(snapshot_download(name, allow_patterns=_FILES))


def _read_adapter_folder(folder: Path, name: str) -> AdapterFolder:
    path = folder / CONFIG
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        base, revision = config["base_model_name_or_path"], config.get("revision")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(
            f"{path} cannot be read: {first_line(error)}.", "Use the file that save_pretrained wrote."
        ) from error
    if not isinstance(base, str) or not base:
        raise ModelError(
            f"{path} does not name the base model of the adapter (base_model_name_or_path is {base!r}).",
            "Load both yourself and pass them: peft.PeftModel.from_pretrained(base, folder).",
        )
    if not (folder / _WEIGHTS).is_file():
        raise ModelError(
            f"{name} has no weights of its adapter ({_WEIGHTS}).",
            "Pass a folder that save_pretrained wrote; adapters in a pickle are not loaded.",
        )
    if find_spec("peft") is None:
        raise ModelError(
            f"{name} is an adapter, which peft loads, and peft is not installed.",
            "Install it: pip install peft.",
        )
    base = _find_base(folder, name, base)
    return AdapterFolder(folder, name, base, revision if isinstance(revision, str) else None)


def _find_base(folder: Path, name: str, base: str) -> str:
    """Find the base model: as it is written, or beside the adapter."""
    for candidate in (Path(base), folder / base, folder.parent / Path(base).name):
        if (candidate / "config.json").is_file():
            return str(candidate)
    if not is_hub_name(base):
        raise ModelError(
            f"The base model of the adapter {name} is not there: {base}.",
            f"Put it there, write its path into {CONFIG} (base_model_name_or_path), or load both yourself "
            "and pass them: peft.PeftModel.from_pretrained(base, folder).",
        )
    return base


def load_adapter(network: Any, found: AdapterFolder) -> Any:
    """Put an adapter into its base model."""
    from peft import PeftModel

    return PeftModel.from_pretrained(network, str(found.folder)).eval()
