"""Adapters beside the layers of a network (PEFT): which are active, and folders that hold one."""

import json
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..errors import ModelError, first_line

__all__ = [
    "Adapter",
    "AdapterFolder",
    "find_adapters",
    "load_adapter",
    "name_with_adapters",
    "read_adapter_folder",
]

CONFIG = "adapter_config.json"
_WEIGHTS = "adapter_model.safetensors"


@dataclass(frozen=True)
class Adapter:
    """An adapter that acts in the network."""

    name: str
    kind: str
    """LoRA, DoRA, rsLoRA, IA3 …"""
    rank: int | None

    def __str__(self) -> str:
        rank = "" if self.rank is None else f", rank {self.rank}"
        return f"{self.name} ({self.kind}{rank})"


@dataclass(frozen=True)
class AdapterFolder:
    """A folder that `save_pretrained` of an adapter wrote."""

    folder: Path
    base: str
    """The base model: a path or a name."""
    revision: str | None


def find_adapters(network: Any) -> tuple[Adapter, ...]:
    """List the adapters that act in a network: active ones that are neither merged nor switched off."""
    configs = getattr(getattr(network, "classifier", network), "peft_config", None)
    if not isinstance(configs, dict):
        return ()
    active: dict[str, None] = {}
    for module in network.modules():
        names = getattr(module, "active_adapters", None)
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
    return Adapter(name, kind, rank if isinstance(rank, int) else None)


def name_with_adapters(name: str, network: Any, folder: AdapterFolder | None = None) -> str:
    """Name a model with the adapters that act in it; one from a folder is named by that, and by its base."""
    adapters = find_adapters(network)
    if folder is not None:
        name = Path(folder.base).name if Path(folder.base).exists() else folder.base
        adapters = tuple(replace(each, name=folder.folder.name) for each in adapters)
    return " + ".join([name, *map(str, adapters)])


def read_adapter_folder(folder: Path) -> AdapterFolder | None:
    """Read what a folder says of its adapter; None where it holds none, or a whole model."""
    path = folder / CONFIG
    if not path.is_file() or (folder / "config.json").is_file():
        return None
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
            f"{folder} has no weights of its adapter ({_WEIGHTS}).",
            "Pass a folder that save_pretrained wrote; adapters in a pickle are not loaded.",
        )
    if find_spec("peft") is None:
        raise ModelError(
            f"{folder} holds an adapter, which peft loads, and peft is not installed.",
            "Install it: pip install peft.",
        )
    return AdapterFolder(folder, _find_base(folder, base), revision if isinstance(revision, str) else None)


def _find_base(folder: Path, base: str) -> str:
    """Find the base model: as it is written, or beside the adapter."""
    for candidate in (Path(base), folder / base, folder.parent / Path(base).name):
        if (candidate / "config.json").is_file():
            return str(candidate)
    if base.startswith((".", "/", "~")) or base.count("/") > 1 or "\\" in base:
        raise ModelError(
            f"The base model of the adapter {folder.name} is not there: {base}.",
            f"Put it there, write its path into {CONFIG} (base_model_name_or_path), or load both yourself "
            "and pass them: peft.PeftModel.from_pretrained(base, folder).",
        )
    return base


def load_adapter(network: Any, found: AdapterFolder) -> Any:
    """Put an adapter into its base model."""
    from peft import PeftModel

    return PeftModel.from_pretrained(network, str(found.folder)).eval()
