"""Random scores: what a method must beat."""

import hashlib
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from .recorded_predictions import Attributions, Predictions, make_rows

__all__ = ["attribute_random"]


def attribute_random(predictions: Predictions) -> Attributions:
    """Draw a random score for every token."""
    return make_rows(map(_draw, predictions.contexts))


def _draw(ids: Sequence[int]) -> Float[Tensor, " source"]:
    """Draw a score for every token, evenly between 0 and 1; the same whenever the tokens are the same."""
    seed = hashlib.sha256(",".join(map(str, ids)).encode()).digest()[:8]
    generator = torch.Generator("cpu").manual_seed(int.from_bytes(seed, "little"))
    return torch.rand(len(ids), generator=generator, dtype=torch.float64, device="cpu")
