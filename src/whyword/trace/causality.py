"""Refuse a model in which a position sees those after it."""

from collections.abc import Sequence

import torch

from ..errors import ModelError
from ..maths.proof import tolerance_of
from ..models.model import Model
from .precision import keep_precision
from .running import run

__all__ = ["probe", "probe_sources", "require_causal"]

_PROBE = 12
"""Length in tokens of the prompt that a model is proven on."""


@torch.no_grad()
def require_causal(model: Model) -> None:
    """Refuse a model in which a position sees what comes after it: other tokens there change its logits."""
    ids, most = probe(model), model.most_tokens
    sources = None
    if model.encoder_stack is not None:
        ids, sources = ids[::-1], [ids]
    first = ids if most is None else ids[: most - 1]
    if not first:
        return
    after = [ids[::-1], [*ids[1:], ids[0]]]
    with keep_precision(model.dtype):  # each alone: what is shared by a batch would be the same in both
        one, other = (
            run(model, [[*first, *tokens][:most]], sources)[0, : len(first)].to(model.compute_dtype)
            for tokens in after
        )
    apart = (one - other).abs()
    if not float(apart.amax()) > tolerance_of(model.exactness) * float(one.abs().amax()):
        return  # NaN is refused with where it comes from, when the run is recorded
    position, token = divmod(int(apart.argmax()), apart.shape[1])
    if model.exactness == torch.int8:
        raise ModelError(
            f"{model.name} quantises what its projections read by the largest number of all positions: with "
            f"other tokens after position {position + 1} the logit of token {token} there is "
            f"{float(other[position, token]):.6g} instead of {float(one[position, token]):.6g}.",
            "Quantise weights only, or what is read token by token (torchao), or load the model unquantised.",
        )
    raise ModelError(
        f"{model.name} is not causal: with other tokens after position {position + 1} the logit of token "
        f"{token} there is {float(other[position, token]):.6g} instead of {float(one[position, token]):.6g}.",
        "Give a model in which no position sees those after it (is_causal, use_bidirectional_attention).",
    )


def probe(model: Model, length: int = _PROBE) -> list[int]:
    """Choose token ids spread over the vocabulary, without special ones."""
    if model.vocabulary <= len(model.special_ids):
        raise ModelError(
            f"{model.name} has no tokens besides special ones.", "Load a model with a vocabulary."
        )
    length = min(length, model.most_tokens or length)
    stride = max(1, model.vocabulary // (3 * length))
    plain = [id_ for id_ in range(stride - 1, model.vocabulary, stride) if id_ not in model.special_ids]
    return [plain[index % len(plain)] for index in range(length)]


def probe_sources(ids: Sequence[int]) -> list[list[int]]:
    """Choose two sources of different length, so that there is padding, and a mask for it."""
    return [[*ids], [*ids[: len(ids) // 2 + 1]]]
