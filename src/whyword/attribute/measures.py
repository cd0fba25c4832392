"""What every method measures: the unit of its scores, and what may be read off them.

The computations are in attribute/; this table can be had without them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["COMPARED", "MEASURES", "Measure", "measure_of"]


@dataclass(frozen=True)
class Measure:
    """What the scores of a method are."""

    unit: str
    """logits, probability, L1 norm, share, or none."""
    summary: str
    """What a score is, in a phrase."""
    by_block: bool = False
    """Whether scores are sums over blocks; otherwise there is one row for all of them."""
    adds_up: bool = False
    """Whether scores add up to attention's part of the logit (difference)."""
    contrastive: bool = True
    """Whether they depend on target and foil."""


_HIDDEN = "when a token is hidden from attention"
_DELETED = "when a token is deleted"

MEASURES: Mapping[str, Measure] = {
    "alti-logit": Measure(
        "logits",
        "what attention adds, tracked back to the input tokens through the mixing of the blocks below",
        by_block=True,
        adds_up=True,
    ),
    "logit": Measure(
        "logits", "what attention adds, by the position it comes from", by_block=True, adds_up=True
    ),
    "erasure": Measure("probability", f"what is lost of the (difference of) probabilities {_HIDDEN}"),
    "erasure-logits": Measure("logits", f"what is lost of the logit (difference) {_HIDDEN}"),
    "erasure-deletion": Measure(
        "probability", f"what is lost of the (difference of) probabilities {_DELETED}"
    ),
    "erasure-deletion-logits": Measure("logits", f"what is lost of the logit (difference) {_DELETED}"),
    "gradient-norm": Measure(
        "L1 norm", "size of the gradient of the logit (difference) at a token's embedding; it has no sign"
    ),
    "gradient-x-input": Measure(
        "logits", "gradient of the logit (difference) at a token's embedding, times that embedding"
    ),
    "alti": Measure(
        "share",
        "how much of the explained position's stream comes from a token, by the mixing of all blocks",
        contrastive=False,
    ),
    "attention-rollout": Measure(
        "share", "attention weights and residuals, multiplied over all blocks", contrastive=False
    ),
    "attention": Measure(
        "share", "attention weights in the last block, averaged over heads", contrastive=False
    ),
    "random": Measure("none", "chance: the same for the same tokens", contrastive=False),
}
"""By name; in the order in which they are listed."""

COMPARED = (
    "alti-logit",
    "logit",
    "erasure",
    "gradient-norm",
    "gradient-x-input",
    "alti",
    "attention-rollout",
    "attention",
    "random",
)
"""What is compared unless methods are named: every way once, erasure as published."""


def measure_of(method: str) -> Measure:
    """Say what a method measures; of one that is not known, nothing is claimed."""
    return MEASURES.get(method) or Measure("unknown", "of a method that this version does not know")
