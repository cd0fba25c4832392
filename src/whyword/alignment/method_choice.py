"""The methods of alignment, and which settings go with each."""

import logging

from ..errors import InputError
from ..models.model import Model
from .linking import LINKING, Linking
from .token_scores import MEASURES, STEPS
from .word_scores import COMBINED, Settings

__all__ = ["ALIGNMENT_METHODS", "choose_settings"]

ALIGNMENT_METHODS = (
    COMBINED,
    "attention",
    "vector-norms",
    "distance",
    "smoothgrad",
    "logit",
    "logit-raw",
    "alti-logit",
)
BEST_DEPTH = {
    ("attention", "output"): 5 / 6,
    ("attention", "input"): 3 / 6,
    ("vector-norms", "output"): 5 / 6,
    ("vector-norms", "input"): 3 / 6,
    ("distance", "output"): 5 / 6,
    ("distance", "input"): 2 / 6,
}
"""The default block of methods whose blocks cannot be summed: the best of the six blocks of OPUS-MT by
`whyword evaluate alignment` (docs/alignment.md), as a share of the decoder's depth."""
_logger = logging.getLogger("whyword")


def choose_settings(
    model: Model, method: str, block: int | None, step: str, linking: Linking = LINKING
) -> Settings:
    """Refuse settings that contradict each other, and choose a block where one is needed."""
    if method not in ALIGNMENT_METHODS:
        raise InputError(
            f"There is no method {method!r} for alignments.", f"Methods: {', '.join(ALIGNMENT_METHODS)}."
        )
    if step not in STEPS:
        raise InputError(f"step is {step!r}.", f"Steps: {', '.join(STEPS)}.")
    blocks = len(model.blocks)
    measure = MEASURES.get(method)
    if step == "input" and (measure is None or "input" not in measure.steps):
        where = "both steps" if method == COMBINED else "the step that produces a word"
        raise InputError(
            f"{method} is read at {where}.", "step='input' is for attention, vector-norms and distance."
        )
    if block is not None and measure is None:
        raise InputError(f"{method} has no blocks, but block is {block}.", "Leave block out.")
    if block is not None and not 1 <= block <= blocks:
        raise InputError(f"block is {block}.", f"{model.name} has decoder blocks 1 to {blocks}.")
    if block is None and measure is not None and not measure.adds_up:
        block = min(blocks, max(1, round(BEST_DEPTH[method, step] * blocks)))
        _logger.info(
            f"{method} cannot be summed over blocks: using decoder block {block} of {blocks}, where "
            f"it aligned best at the {step} step in our measurements."
        )
    return Settings(method, step, block, linking)
