"""The model's own logits and probabilities of target and foils."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..trace import Readout
from .direction import Target, read_choices

__all__ = ["Likelihoods", "read_likelihoods", "read_ranks"]


@dataclass(frozen=True)
class Likelihoods:
    """Logits and probabilities of target and foils (`choice`: the target first), one row per prediction."""

    logits: Float[Tensor, "prediction choice"]
    """Before they are capped."""
    probabilities: Float[Tensor, "prediction choice"]

    @property
    def preference(self) -> Float[Tensor, " prediction"]:
        """p_w / (p_w + p_f), p_f the mean of the foils; the probability itself where there is none."""
        target, foils = self.probabilities[:, 0], self.probabilities[:, 1:]
        return target / (target + foils.mean(1)) if foils.shape[1] else target


def read_likelihoods(readout: Readout, targets: Sequence[Target]) -> Likelihoods:
    """Read logits and probabilities of targets and foils, on the CPU."""
    return Likelihoods(
        read_choices(readout.uncapped, targets).cpu(),
        read_choices(readout.logits.log_softmax(-1), targets).exp().cpu(),
    )


def read_ranks(readout: Readout, targets: Sequence[Target]) -> Int[Tensor, "prediction choice"]:
    """Read the places of targets and foils among all tokens, the likeliest being 1, on the CPU."""
    chosen = read_choices(readout.logits, targets)
    likelier = [(readout.logits > each[:, None]).sum(-1, dtype=torch.int32) for each in chosen.unbind(1)]
    return torch.stack(likelier, 1).cpu().long() + 1
