"""When are two numbers the same? Tolerances by type, and the error that says where they are not."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import ProofError

__all__ = [
    "Identity",
    "gather_errors",
    "require_close",
    "require_close_vectors",
    "rounding_error_of",
    "rounding_of",
    "tolerance_of",
]

_TOLERANCES = {
    torch.float64: 1e-6,
    torch.float32: 1e-4,
    torch.float16: 4e-3,
    torch.bfloat16: 2e-2,
    torch.int8: 6e-2,
}
"""By the type that is computed in; int8: projections round what they read to 8 bits."""
_ROUNDINGS = {**_TOLERANCES, torch.float16: 1.5e-3, torch.bfloat16: 1.2e-2}
"""In half precision three times the error of rounding one number; whole vectors were off by 0.9 times it."""


class Identity(Enum):
    """Everything that is proven: two ways to the same number, and what to look at where they differ."""

    RECORDED_RUN = (
        "logits of the recorded run",
        "those of an untouched run",
        "A hooked module does not give what it gives alone: check the paths.",
    )
    WEIGHTS = (
        "attention weights × values",
        "attention's context",
        "Attention is not Σ weight × value with the weights of eager attention. Set the implementation to "
        "'sdpa' or 'eager', or describe where the values are with value=.",
    )
    HEADS = (
        "weights × values of one head",
        "what that head gave",
        "Attention is not Σ weight × value with the weights of eager attention. Set the implementation to "
        "'sdpa' or 'eager', or describe where the values are with value=.",
    )
    PARTS = (
        "parts + output bias",
        "attention's output",
        "Attention(output=...) must be the projection that all heads go through.",
    )
    STREAM = (
        "stream in + all that was written",
        "stream out",
        "Something lies between a sub-layer and the residual stream (norm_after, norm_sum, a multiplier), a "
        "sub-layer is missing, or an output includes the residual.",
    )
    BETWEEN = (
        "stream into a block",
        "stream out of the block before it",
        "Something changes the residual stream between two blocks: a hook, or a module not described. "
        "Remove it, or describe it as a part of a block.",
    )
    FINAL_NORM = (
        "frozen norm of the last stream",
        "what is unembedded",
        "Check final_norm and norm=Norm(centred=, offset=, epsilon=).",
    )
    CAP = (
        "capped output of the unembedding",
        "logits",
        "Check logit_cap, logit_multiplier and logit_divisor.",
    )
    LEDGER = (
        "sum of the ledger",
        "logit",
        "Something lies between the unembedding and the logit: logit_multiplier, logit_divisor or logit_cap.",
    )
    FLOW = (
        "flow at all positions + bias",
        "logit",
        "A part of the network is not the affine map that flow takes it for.",
    )
    EDGES = (
        "flow below + edges in − edges out + biases",
        "flow above",
        "Attention is not all that moves between positions.",
    )
    NEURONS = ("neurons + bias", "the ledger's entry of an MLP", "")
    EMBEDDINGS = (
        "logits of the embeddings of a prompt",
        "those of its ids",
        "It reads embeddings in another way than ids: use a method without gradients.",
    )
    GREEDY = (
        "logit of the token that was generated",
        "the largest logit",
        "The network predicts something else with its cache than without: set generation_config.use_cache to "
        "False.",
    )
    GENERATED = (
        "logit by which a token was generated",
        "its logit in the whole run",
        "The network computes something else with its cache than without, as hooks do that act on generated "
        "tokens only. Set generation_config.use_cache to False, or remove them.",
    )
    SOURCE_EMBEDDINGS = ("logits of the source's embeddings", "those of its ids", "")

    def __init__(self, found: str, expected: str, hint: str) -> None:
        self.found = found
        """What is computed."""
        self.expected = expected
        """What it must be equal to."""
        self.hint = hint
        """What to look at in a description where it is not."""

    @property
    def statement(self) -> str:
        """The identity in words."""
        return f"{self.found} = {self.expected}"


_gathered: ContextVar[dict[Identity, float] | None] = ContextVar("_gathered", default=None)


@contextmanager
def gather_errors() -> Iterator[dict[Identity, float]]:
    """Gather the largest error of every identity that is checked inside."""
    errors: dict[Identity, float] = {}
    token = _gathered.set(errors)
    try:
        yield errors
    finally:
        _gathered.reset(token)


def tolerance_of(dtype: torch.dtype) -> float:
    """Return the error that is allowed for weights of a type, relative to the sum of what was added up."""
    return _TOLERANCES[dtype]


def rounding_of(dtype: torch.dtype) -> float:
    """Return the error that rounding in one block can leave, relative to the vector that was rounded."""
    return _ROUNDINGS[dtype]


def rounding_error_of(dtype: torch.dtype) -> float:
    """Return the relative error of rounding one number to a type; to 8 bits, that of the largest of many."""
    return 0.5 / 127 if dtype == torch.int8 else torch.finfo(dtype).eps / 2


def require_close(
    identity: Identity,
    where: str | Sequence[str],
    *,
    found: Tensor,
    expected: Tensor,
    scale: Tensor,
    tolerance: float,
) -> float:
    """Compare two results of one sum; give the error relative to `scale`, or raise with both numbers.

    `where`: a place, or one for each entry of the first axis; the first that is wrong is named.
    """
    errors = (found - expected).abs() / _floor(scale)
    return _require(identity, where, found, expected, errors, tolerance)


def require_close_vectors(
    identity: Identity,
    where: Sequence[str],
    *,
    found: Float[Tensor, "place *row component"],
    expected: Float[Tensor, "place *row component"],
    scale: Float[Tensor, " place *row"],
    tolerance: float,
) -> float:
    """Compare two results of one sum of vectors; give the length of the error relative to `scale`, or raise.

    Rounding errors of the components add up to a length that hardly varies, so a vector tells far smaller
    errors from rounding than its components do.
    """
    apart = found - expected
    errors = torch.linalg.vector_norm(apart, dim=-1) / _floor(scale)
    if not (errors <= tolerance).all():  # the component that is furthest off is shown
        worst = apart.abs().argmax(-1, keepdim=True)
        found, expected = (each.gather(-1, worst)[..., 0] for each in (found, expected))
    return _require(identity, where, found, expected, errors, tolerance)


def _floor(scale: Tensor) -> Tensor:
    return scale.clamp(min=torch.finfo(scale.dtype).tiny)


def _require(
    identity: Identity,
    where: str | Sequence[str],
    found: Tensor,
    expected: Tensor,
    errors: Tensor,
    tolerance: float,
) -> float:
    """Gather the largest error, and raise where it is too large."""
    error = float(errors.max())
    gathered = _gathered.get()
    if gathered is not None:
        gathered[identity] = max(error, gathered.get(identity, 0.0))
    if error <= tolerance:
        return error
    wrong = (~(errors <= tolerance)).flatten()  # so that NaN is wrong
    place, each = 0, wrong.numel()
    if not isinstance(where, str):
        each = wrong.numel() // len(where)
        place = int(wrong.nonzero()[0]) // each
        where = where[place]
    own = slice(place * each, (place + 1) * each)
    worst = place * each + int(errors.flatten()[own].nan_to_num(nan=torch.inf).argmax())
    raise ProofError(
        f"{where}: {identity.found} = {float(found.flatten()[worst]):.6g}, the model's own number is "
        f"{float(expected.flatten()[worst]):.6g} (relative error {float(errors.flatten()[worst]):.1e}, "
        f"allowed {tolerance:.0e}).",
        f"The description does not fit the model, so nothing is shown. {identity.hint}".rstrip(),
    )
