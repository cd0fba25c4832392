"""A model as workers get it: a name or path that each opens itself, or a network that is sent to them.

Whoever only says where it is does without torch.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ModelError

if TYPE_CHECKING:
    from ..models.model import Model
    from ..runs.engine import Engine, Workers

__all__ = ["ModelSource", "choose_source", "find_model", "other_weights"]


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
    return ModelSource(model) if source is None or engine.alone else source.expect(model)
