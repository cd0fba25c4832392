"""What the settings of a run say of its model, as a worker finds it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..pipeline.model_source import ModelSource

if TYPE_CHECKING:
    from ..models.model import Model

__all__ = ["DescribedModel", "describe_model"]


@dataclass(frozen=True)
class DescribedModel:
    """A model as settings have it."""

    name: str
    weights: str
    dtype: str
    device: str
    start: str
    blocks: int
    heads: int


def describe_model(model: "Model") -> DescribedModel:
    """Describe a loaded model."""
    from ..ask.start_of_text import find_start

    return DescribedModel(
        name=model.name,
        weights=ModelSource.fingerprint(model),
        dtype=str(model.dtype).removeprefix("torch."),
        device=model.device.type,
        start=find_start(model).text or "" if model.tokenizer is not None else "",
        blocks=len(model.blocks),
        heads=int(model.config.num_attention_heads),
    )
