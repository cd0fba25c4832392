"""A model as workers get it: a name or path that each opens itself, or a network that is sent to them.

Whoever only says where it is does without torch.
"""

import pickle
import sys
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ModelError, first_line

if TYPE_CHECKING:
    from ..models.model import Model
    from ..runs.engine import Engine, Workers

__all__ = ["ModelSource", "choose_source", "find_model", "other_weights", "share_source"]

_HERE = (
    "Let this process do the work (workers=1), or make the change in a Python module that workers import "
    "with the network's classes."
)


@dataclass(frozen=True)
class ModelSource:
    """Where a worker finds its model."""

    source: Any
    """A name, a path, None (the default model), or a loaded model."""
    dtype: str | None = None
    allow: tuple[str, ...] = ()
    start: str = "auto"
    device: str | None = None
    weights: str | None = None
    """The fingerprint that the weights must have; None: not known yet."""

    def open(self) -> "Model":
        """Open the model; refuse other weights than those that the run began with."""
        model = self._load()
        if self.weights is not None:
            found = self.fingerprint(model)
            if found != self.weights and isinstance(self.source, _Packed):
                raise ModelError(
                    f"{model.name} computes something else on this worker ({found}) than where the run began "
                    f"({self.weights}): code of your own reads or calls what was set there only.",
                    _HERE,
                )
            if found != self.weights:
                raise other_weights(model.name, found, self.weights)
        return model

    def expect(self, model: "Model") -> "ModelSource":
        """Say that workers must find the model that is loaded here: its weights, type and start of text."""
        dtype = self.dtype
        if dtype is None and model.stored is not None:  # converted for this CPU: workers may have a GPU
            dtype = str(model.dtype).removeprefix("torch.")
        return replace(self, dtype=dtype, start=model.start, weights=self.fingerprint(model))

    @staticmethod
    def fingerprint(model: "Model") -> str:
        """Give the fingerprint of a model's network, as settings have it."""
        from ..runs.fingerprint import fingerprint_network

        return fingerprint_network(model.network)[:12]

    def _load(self) -> "Model":
        from ..models.model import Model
        from .loading import load

        if isinstance(self.source, Model):
            return self.source
        if isinstance(self.source, _Packed):
            return self.source.unpack()
        return load(self.source, dtype=self.dtype, device=self.device, allow=self.allow, start=self.start)

    def __getstate__(self) -> dict[str, Any]:
        """Send a loaded model as its network and tokenizer: the rest is found again."""
        held = dict(self.__dict__)
        if not isinstance(self.source, str | None):
            from ..models.model import Model

            if isinstance(self.source, Model):
                held["source"] = _Packed.pack(self.source)
        return held


@dataclass(frozen=True)
class _Packed:
    """A loaded model on its way to a worker."""

    network: Any
    tokenizer: Any
    architecture: Any
    base_name: str
    adapter_name: str | None
    verify: str
    start: str
    stored: Any

    @classmethod
    def pack(cls, model: "Model") -> "_Packed":
        fields = (model.network, model.tokenizer, model.architecture, model.base_name)
        return cls(*fields, model.adapter_name, model.verify, model.start, model.stored)

    def unpack(self) -> "Model":
        from .loading import load

        found = load(
            self.network,
            self.tokenizer,
            architecture=self.architecture,
            verify=self.verify,
            start=self.start,
        )
        return replace(found, base_name=self.base_name, adapter_name=self.adapter_name, stored=self.stored)


def other_weights(name: str, found: str, expected: str) -> ModelError:
    """Make the error for a worker that has another model than the run began with."""
    return ModelError(
        f"{name} has other weights on this worker ({found}) than where the run began ({expected}).",
        "Put the same files on every node.",
    )


def find_model(
    source: Any,
    workers: "Workers",
    *,
    dtype: str | None = None,
    allow: Collection[str] = (),
    start: str = "auto",
) -> ModelSource:
    """Say where workers find a model: a path is made one that does not depend on where they are started."""
    if isinstance(source, Path) or (isinstance(source, str) and Path(source).exists()):
        source = str(Path(source).resolve())
    device = "cuda" if workers.resources.get("num_gpus", 0) > 0 else None
    return ModelSource(source, dtype, tuple(allow), start, device)


def choose_source(engine: "Engine", model: "Model", source: ModelSource | None) -> ModelSource:
    """Say how an engine's workers get a model that is loaded here: they open it themselves, or it is sent."""
    if engine.alone:
        return ModelSource(model)
    _require_travelling(model)
    return (ModelSource(model) if source is None else source).expect(model)


def share_source(source: ModelSource) -> ModelSource:
    """Make a source ready for other processes: they must find what is here."""
    if isinstance(source.source, str | None):
        _require_travelling(None)
        return source
    _require_travelling(source.source)
    return source.expect(source.source)


def _require_travelling(model: "Model | None") -> None:
    """Refuse what acts in this process only: worker processes import libraries as they are written.

    `model`: one that is loaded here; None: workers open theirs.
    """
    if "torch" not in sys.modules:
        return
    from ..runs.foreign_code import find_foreign, find_global_hooks, find_patched, find_patched_files

    patched = find_patched_files() if model is None else find_patched(model.modules)
    if patched:
        raise ModelError(f"{patched[0][0]} was replaced in this process: workers have the original.", _HERE)
    if find_global_hooks():
        raise ModelError("A hook of all modules acts in this process: workers do not have it.", _HERE)
    for module in () if model is None else model.modules:
        for function in find_foreign(module):
            try:
                pickle.dumps(function)
            except Exception as error:
                name = type(module).__name__
                raise ModelError(
                    f"Code of your own in {name} cannot be sent to workers: {first_line(error)}",
                    "Let this process do the work (workers=1), or write it as a function of a Python module.",
                ) from error
