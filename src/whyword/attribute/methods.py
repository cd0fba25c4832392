"""Every method by name: what its scores mean, which function computes them, what must be recorded for it.

A new method is one file in this folder and one entry here. Functions are named as text and imported when
they are used, so that the table can be read without importing torch.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from ..lazy import find_at

if TYPE_CHECKING:
    from ..models.model import Model
    from ..trace import Plan

__all__ = [
    "COMPARED",
    "DEFAULT_METHOD",
    "METHODS",
    "PUBLISHED",
    "TRANSLATION_METHODS",
    "Measure",
    "Method",
    "find_methods",
    "measure_of",
    "plan_methods",
    "title_of",
    "uses_mixing",
]


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
    """Whether scores add up to the logit (difference), or a part of it."""
    sum_of: str = "attention"
    """What scores add up to, where they do. attention: its part of the logit (difference), which its direct
    updates are; difference: all of it but what biases add."""
    contrastive: bool = True
    """Whether they depend on target and foil."""
    heuristic: str | None = None
    """What is assumed, where scores add up: the step that is not exact."""


def _all(blocks: int) -> int:
    return blocks


def _all_but_last(blocks: int) -> int:
    return blocks - 1


def _none(blocks: int) -> int:
    return 0


@dataclass(frozen=True)
class Method:
    """A way to explain predictions."""

    measure: Measure
    computed_by: str
    """The module of this folder and its function: `Predictions` → one matrix per prediction."""
    title: str
    """Its name in tables and figures."""
    compared: bool = True
    """Whether `compare` uses it when no methods are named."""
    published: bool = False
    """Whether it is a column of the paper's table."""
    translated_by: str | None = None
    """The same as `computed_by` for translations; None: it does not explain them."""
    keeps_mixing: bool = False
    """Whether an explanation keeps the mixing of the explained position."""
    mixed: Callable[[int], int] = _none
    """In how many blocks, given the number of all, it needs contributions."""
    frozen: bool = False
    """Whether it pulls directions back through the run, held fixed: its scores are read at a depth."""
    erases: bool = False
    """Whether it erases tokens, so that it can erase whole parts of a prompt."""
    rolled: Callable[[int], int] = _none
    """The same for attention weights between all positions."""
    differentiated: Callable[[int], int] = _none
    """The same for activations that a backward pass needs."""

    @property
    def attribute(self) -> Callable[..., Any]:
        """The function that computes it."""
        return _look_up(self.computed_by)

    @property
    def translate(self) -> Callable[..., Any]:
        """The function that computes it for translations."""
        assert self.translated_by is not None
        return _look_up(self.translated_by)


def _look_up(home: str) -> Callable[..., Any]:
    function: Callable[..., Any] = find_at(f"attribute.{home}")
    return function


_LOST = "what is lost of the (difference of) probabilities"
_LOST_LOGITS = "what is lost of the logit (difference)"
_HIDDEN = "when a token is hidden from attention"
_DELETED = "when a token is deleted"
_GRADIENT = "gradient of the logit (difference) at a token's embedding"

METHODS: Mapping[str, Method] = {
    "flow": Method(
        Measure(
            "logits",
            "what of the logit (difference) is at the token's position, at one depth",
            adds_up=True,
            sum_of="difference",
            heuristic="takes attention as given",
        ),
        "flow:attribute_flow",
        title="Flow",
        translated_by="flow:translate_flow",
        frozen=True,
    ),
    "alti-logit": Method(
        Measure(
            "logits",
            "what attention adds, tracked back to the input tokens through the mixing of the blocks below",
            by_block=True,
            adds_up=True,
            heuristic="tracing back",
        ),
        "alti_logit:attribute_alti_logit",
        title="ALTI-Logit",
        published=True,
        translated_by="source_and_prefix:explain_tracked",
        keeps_mixing=True,
        mixed=_all_but_last,
    ),
    "logit": Method(
        Measure(
            "logits",
            "what attention adds, by the position it comes from",
            by_block=True,
            adds_up=True,
            heuristic="position = token",
        ),
        "logit:attribute_logit",
        title="Logit",
        published=True,
        translated_by="source_and_prefix:explain_directly",
    ),
    "erasure": Method(
        Measure("probability", f"{_LOST} {_HIDDEN}"),
        "erasure:attribute_hidden_probabilities",
        erases=True,
        title="Erasure",
        published=True,
    ),
    "erasure-logits": Method(
        Measure("logits", f"{_LOST_LOGITS} {_HIDDEN}"),
        "erasure:attribute_hidden_logits",
        erases=True,
        title="Erasure (logits)",
        compared=False,
    ),
    "erasure-deletion": Method(
        Measure("probability", f"{_LOST} {_DELETED}"),
        "erasure:attribute_deleted_probabilities",
        erases=True,
        title="Erasure (deletion)",
        compared=False,
    ),
    "erasure-deletion-logits": Method(
        Measure("logits", f"{_LOST_LOGITS} {_DELETED}"),
        "erasure:attribute_deleted_logits",
        erases=True,
        title="Erasure (deletion, logits)",
        compared=False,
    ),
    "gradient-norm": Method(
        Measure("L1 norm", f"size of the {_GRADIENT}; it has no sign"),
        "gradient:attribute_gradient_norm",
        title="Grad norm",
        published=True,
        differentiated=_all,
    ),
    "gradient-x-input": Method(
        Measure("logits", f"{_GRADIENT}, times that embedding"),
        "gradient:attribute_gradient_times_input",
        title="Grad × input",
        published=True,
        differentiated=_all,
    ),
    "gim": Method(
        Measure("logits", f"{_GRADIENT}, with norms held fixed and attention softened, times that embedding"),
        "gim:attribute_gim",
        title="GIM",
        compared=False,
        differentiated=_all,
    ),
    "alti": Method(
        Measure(
            "share",
            "the token's share of the explained position's residual stream, by the mixing of all blocks",
            contrastive=False,
        ),
        "attention_shares:attribute_alti",
        title="ALTI",
        mixed=_all,
    ),
    "attention-rollout": Method(
        Measure("share", "attention weights and residuals, multiplied over all blocks", contrastive=False),
        "attention_shares:attribute_rollout",
        title="Rollout",
        rolled=_all,
    ),
    "attention": Method(
        Measure("share", "attention weights in the last block, averaged over heads", contrastive=False),
        "attention_shares:attribute_attention",
        title="Attention",
    ),
    "random": Method(
        Measure("none", "chance: the same for the same tokens", contrastive=False),
        "random_scores:attribute_random",
        title="Random",
    ),
}
"""By name, in the order of every list of methods."""

DEFAULT_METHOD = "flow"
COMPARED = tuple(name for name, method in METHODS.items() if method.compared)
"""What `compare` uses when no methods are named: one of every kind, erasure as published."""
PUBLISHED = tuple(name for name, method in METHODS.items() if method.published)
"""The columns of the paper's table."""
TRANSLATION_METHODS = tuple(name for name, method in METHODS.items() if method.translated_by is not None)
"""The methods that explain translations."""


def find_methods(names: Iterable[str]) -> dict[str, Method]:
    """Find methods by their names."""
    found = {}
    for name in names:
        if not isinstance(name, str) or name not in METHODS:
            raise InputError(f"There is no method {name!r}.", f"Methods: {', '.join(METHODS)}.")
        found[name] = METHODS[name]
    if not found:
        raise InputError("No method is named.", f"Methods: {', '.join(METHODS)}.")
    return found


def measure_of(method: str) -> Measure:
    """Return what a method measures; of an unknown method, that it is unknown."""
    if method not in METHODS:
        return Measure("unknown", "of a method that this version does not know")
    return METHODS[method].measure


def uses_mixing(method: str) -> bool:
    """Return whether the scores of a method come from the mixing of tokens, which is a heuristic."""
    return method in METHODS and METHODS[method].mixed is not _none


def title_of(method: str) -> str:
    """Return the name of a method in tables and figures."""
    return METHODS[method].title if method in METHODS else method


def plan_methods(model: "Model", names: Iterable[str]) -> "Plan":
    """Return what must be recorded for some methods."""
    from ..trace import Plan

    methods, blocks = find_methods(names).values(), len(model.blocks)
    return replace(
        Plan(),
        mixed_blocks=max(method.mixed(blocks) for method in methods),
        rolled_blocks=max(method.rolled(blocks) for method in methods),
        differentiated_blocks=max(method.differentiated(blocks) for method in methods),
        frozen=any(method.frozen for method in methods),
    )
