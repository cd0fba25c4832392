"""The model's own logits and probabilities of target and foils."""

from collections.abc import Sequence
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from ..trace import Readout
from .direction import Target, read_choices

__all__ = ["Likelihoods", "read_likelihoods"]


@dataclass(frozen=True)
class Likelihoods:
    """Logits and probabilities of target and foils (`choice`: the target first), one row per prediction."""

    logits: Float[Tensor, "prediction choice"]
    """Before they are capped."""
    probabilities: Float[Tensor, "prediction choice"]


def read_likelihoods(readout: Readout, targets: Sequence[Target]) -> Likelihoods:
    """Read logits and probabilities of targets and foils, on the CPU."""
    normaliser = readout.logits.logsumexp(-1, keepdim=True)
    return Likelihoods(
        read_choices(readout.uncapped, targets).cpu(),
        (read_choices(readout.logits, targets) - normaliser).exp().cpu(),
    )
