"""Proofs of flow: at every depth it adds up to the logit (difference), and at every node it is conserved.

decoder      Σ flow[d] + Σ read[d] + bias[d] = logit         read: what blocks above d read of the source
encoder      Σ flow_enc[e] + Σ flow[0] + bias = logit
every node   flow below + edges in − edges out + biases added there = flow above
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ..maths.proof import Identity, require_close, rounding_error_of, tolerance_of
from ..models.model import Model
from ..trace.pulled_back import Moved, PulledBack, PulledSource, PulledStack

__all__ = ["ProvenFlow", "prove_flow"]

_ROUNDINGS = 32
"""How many times one rounding of a product x · G is allowed: directions are rounded in every block. Up to 21
were seen in a model of 30 blocks."""
_HALF_ROUNDINGS = 4
"""The same in half precision, where rounding what blocks write counts for more. Up to 3 were seen."""
_SMALL = 0.01
"""Nodes whose products are smaller are held to this share of the mean of their block: half precision rounds
very small numbers to zero."""


@dataclass(frozen=True)
class ProvenFlow:
    """Flow of one prediction of each example, with what biases add above; float64, on the CPU."""

    decoder: Float[Tensor, "depth example position"]
    bias: Float[Tensor, "depth example"]
    """What biases above each depth of the decoder add, those of what it reads of a source included."""
    encoder: Float[Tensor, "encoder_depth example source"] | None = None
    read: Float[Tensor, "depth example source"] | None = None
    """What blocks above each depth of the decoder read of the encoder's output."""
    encoder_bias: Float[Tensor, "encoder_depth example"] | None = None
    """What biases above each depth of the encoder add."""


def prove_flow(
    model: Model,
    pulled: PulledBack,
    logits: Float[Tensor, " example"],
    unembedding_bias: Float[Tensor, " example"],
    logit_rounding: Float[Tensor, " example"],
) -> ProvenFlow:
    """Prove flow at every depth and every node."""
    decoder, source, added = pulled.decoder, pulled.source, _plain(unembedding_bias)
    biases = _plain(decoder.biases).sum(2)
    sizes = _plain(decoder.biases).abs().sum(2)
    flow, read = _plain(decoder.flow), None if source is None else _plain(source.read)
    if source is not None:
        biases, sizes = biases + _plain(source.biases).sum(2), sizes + _plain(source.biases).abs().sum(2)
    bias, size = _from_above(biases) + added, _from_above(sizes) + added.abs()
    size = size + _plain(logit_rounding) / tolerance_of(model.exactness)
    total, scale = flow.sum(2) + bias, flow.abs().sum(2) + size
    rounded = _plain(decoder.size).sum(2)
    if source is not None and read is not None:
        total, scale = total + read.sum(2), scale + read.abs().sum(2)
        rounded = rounded + _plain(source.size).sum(2)
    _require_sums(model, "", total, _plain(logits), scale + _allow_rounding(model, rounded))
    _prove_nodes(model, "", decoder, () if source is None else source.moved)
    if source is None:
        return ProvenFlow(flow, bias)
    _prove_reading(model, source)
    below, below_biases = _plain(source.encoder.flow), _plain(source.encoder.biases)
    encoder_bias = _from_above(below_biases.sum(2))
    total = below.sum(2) + flow[0].sum(1) + bias[0] + encoder_bias
    scale = below.abs().sum(2) + flow[0].abs().sum(1) + size[0] + _from_above(below_biases.abs().sum(2))
    rounded = _plain(source.encoder.size).sum(2) + rounded[0]
    _require_sums(model, "encoder ", total, _plain(logits), scale + _allow_rounding(model, rounded))
    _prove_nodes(model, "encoder ", source.encoder, ())
    return ProvenFlow(flow, bias, below, read, encoder_bias)


def _require_sums(
    model: Model,
    stack: str,
    total: Float[Tensor, "depth example"],
    logits: Float[Tensor, " example"],
    scale: Float[Tensor, "depth example"],
) -> None:
    require_close(
        Identity.FLOW,
        [f"{stack}depth {depth}" for depth in range(len(total))],
        found=total,
        expected=logits.expand_as(total),
        scale=scale,
        tolerance=tolerance_of(model.exactness),
    )


def _prove_nodes(model: Model, stack: str, pulled: PulledStack, cross: Sequence[Moved]) -> None:
    """Prove that what a block does at a position is what attention moves, and what biases add."""
    flow, biases = _plain(pulled.flow), _plain(pulled.biases)[:-1]
    change = biases + _gather(pulled.moved, "incoming") - _gather(pulled.moved, "outgoing")
    scale = biases.abs() + _gather(pulled.moved, "incoming_size") + _gather(pulled.moved, "outgoing_size")
    if cross:
        change, scale = change + _gather(cross, "incoming"), scale + _gather(cross, "incoming_size")
    scale = scale + _allow_rounding(model, _of_both_sides(pulled.size))
    _require_nodes(model, f"{stack}block", flow[:-1] + change, flow[1:], scale)


def _prove_reading(model: Model, source: PulledSource) -> None:
    """Prove that what leaves the encoder's positions is what the blocks of the decoder read of them."""
    read, biases = _plain(source.read), _plain(source.biases)[:-1]
    moved = _gather(source.moved, "outgoing")
    scale = biases.abs() + _gather(source.moved, "outgoing_size")
    scale = scale + _allow_rounding(model, _of_both_sides(source.size))
    _require_nodes(model, "cross-attention of block", read[:-1] + biases - moved, read[1:], scale)


def _require_nodes(
    model: Model,
    place: str,
    found: Float[Tensor, "block example position"],
    expected: Float[Tensor, "block example position"],
    scale: Float[Tensor, "block example position"],
) -> None:
    require_close(
        Identity.EDGES,
        [f"{place} {block + 1}" for block in range(len(found))],
        found=found,
        expected=expected,
        scale=scale + found.abs() + expected.abs(),
        tolerance=tolerance_of(model.exactness),
    )


def _allow_rounding(model: Model, sizes: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
    """Give what is added to a scale, so that the rounding of products of such sizes is allowed.

    Of two words that are nearly tied, the difference is small and the summands are not.
    """
    computed, stored = (rounding_error_of(dtype) for dtype in (model.compute_dtype, model.exactness))
    allowed = max(_ROUNDINGS * computed, _HALF_ROUNDINGS * stored)
    return sizes * (allowed / tolerance_of(model.exactness))


def _of_both_sides(sizes: Float[Tensor, "depth example position"]) -> Float[Tensor, "block example position"]:
    """Give the sizes below and above every block, added up; very small ones as a share of the others."""
    plain = _plain(sizes)
    both = plain[:-1] + plain[1:]
    return both + _SMALL * both.mean(-1, keepdim=True)


def _gather(moved: Sequence[Moved], name: str) -> Float[Tensor, "block example position"]:
    return torch.stack([_plain(getattr(each, name)) for each in moved])


def _from_above(amounts: Float[Tensor, "depth example"]) -> Float[Tensor, "depth example"]:
    """Add up what is added from every depth on."""
    return amounts.flip(0).cumsum(0).flip(0)


def _plain(tensor: Tensor) -> Tensor:
    return tensor.double().cpu()
