"""Updates of a translation by token of the source and of the prefix, tracked back as ALTI+ does.

    M_enc = C[L] ··· C[1] of the encoder                            (heuristic: see contributions.py)
    a decoder block has C_self over the prefix, and (C_src, c_res) over source and residual

    M_prefix ← c_res · C_self · M_prefix                            what was read so far
    M_src    ← C_src · M_enc + c_res · C_self · M_src               what came from the source

Rows of (M_src, M_prefix) are at least 0 and sum to 1: their masses are the shares of source and prefix.
Cross-attention updates go through M_enc, those of self-attention through both mixes of the block below
[Ferrando et al. 2022, "Towards Opening the Black Box of Neural Machine Translation"].
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from ..ledger import Entries, Target
from ..models.model import Model
from ..trace import Trace

__all__ = [
    "JointFlow",
    "JointMixing",
    "JointUpdates",
    "attribute_jointly",
    "explain_directly",
    "explain_tracked",
    "mix_jointly",
    "sum_heads",
]


@dataclass(frozen=True, eq=False)
class JointFlow:
    """Each explained logit at every depth of encoder and decoder; float64, on the CPU.

    It adds up to the logit at every depth of the decoder, prefix + read + bias, and of the encoder,
    source + encoder_bias + the prefix and bias of the decoder's depth 0.
    """

    prefix: Float[Tensor, "position depth stream"]
    """How much of it is at each position of the decoder: before block 1, …, after the last block."""
    read: Float[Tensor, "position depth source"]
    """How much of it the decoder's blocks above each depth read at each position of the encoder's output."""
    bias: Float[Tensor, "position depth"]
    """What biases written above each depth of the decoder add."""
    source: Float[Tensor, "position encoder_depth source"]
    """How much of it is at each position of the encoder: before block 1, …, after the last block."""
    encoder_bias: Float[Tensor, "position encoder_depth"]
    """What biases written above each depth of the encoder add, in the encoder."""


@dataclass(frozen=True)
class JointUpdates:
    """What was added to each explained logit, by token."""

    source: Float[Tensor, "position block source"]
    prefix: Float[Tensor, "position block stream"]
    flow: JointFlow | None = None
    """The same at every depth, of a method that traces it."""


@dataclass(frozen=True)
class JointMixing:
    """Streams as mixes of input tokens, of every example; on the CPU."""

    encoder: Float[Tensor, "example source source_token"]
    """Of the encoder's outputs."""
    source: tuple[Float[Tensor, "example stream source_token"], ...]
    """Of what enters each block of the decoder, and last of what leaves the last: the source's part."""
    prefix: tuple[Float[Tensor, "example stream prefix_token"], ...]
    """The prefix's part."""

    def shares(self, trace: Trace) -> Float[Tensor, " position"]:
        """Return the share of the source in each explained position's residual stream at the end."""
        return trace.places.pick(self.source[-1]).sum(-1).flatten()


def explain_directly(
    model: Model, trace: Trace, entries: Entries, targets: Sequence[Target]
) -> tuple[JointUpdates, None]:
    """Return updates by the position they come from (logit), without shares of the source."""
    return sum_heads(entries), None


def explain_tracked(
    model: Model, trace: Trace, entries: Entries, targets: Sequence[Target]
) -> tuple[JointUpdates, Float[Tensor, " position"]]:
    """Return updates tracked back to the input (alti-logit), and the share of the source by position."""
    mixing = mix_jointly(trace)
    return attribute_jointly(trace, entries, mixing), mixing.shares(trace)


def mix_jointly(trace: Trace) -> JointMixing:
    """Mix source and prefix through all blocks."""
    assert trace.encoder is not None
    encoder = _product([each.dense().cpu() for each in trace.encoder.contributions])
    own = [each.dense().cpu() for each in trace.decoder.contributions]
    across = [each.dense().cpu() for each in trace.decoder.cross_attention.contributions]
    prefix = [torch.eye(own[0].shape[1], dtype=encoder.dtype, device="cpu").expand_as(own[0])]
    source = [encoder.new_zeros(*own[0].shape[:2], encoder.shape[2])]
    for self_, cross in zip(own, across, strict=True):
        read, kept = cross[..., :-1].to(encoder), cross[..., -1:].to(encoder) * self_.to(encoder)
        prefix.append(kept @ prefix[-1])
        source.append(read @ encoder + kept @ source[-1])
    return JointMixing(encoder, tuple(source), tuple(prefix))


def attribute_jointly(trace: Trace, entries: Entries, mixing: JointMixing) -> JointUpdates:
    """Track the updates of all explained positions back to the input of encoder and decoder."""
    direct, each = sum_heads(entries), trace.places.each
    written = rearrange(direct.prefix, "(example each) block stream -> block example each stream", each=each)
    read = rearrange(direct.source, "(example each) block source -> block example each source", each=each)
    blocks = range(written.shape[0])
    source = [read[block] @ mixing.encoder + written[block] @ mixing.source[block] for block in blocks]
    prefix = [written[block] @ mixing.prefix[block] for block in blocks]
    pattern = "block example each token -> (example each) block token"
    return JointUpdates(rearrange(source, pattern), rearrange(prefix, pattern))


def sum_heads(entries: Entries) -> JointUpdates:
    """Return updates by the position they come from, taking each residual stream for its token's."""
    assert entries.cross_by_head is not None
    return JointUpdates(entries.cross_by_head.sum(2), entries.by_head.sum(2))


def _product(matrices: list[Float[Tensor, "example row source"]]) -> Float[Tensor, "example row source"]:
    """Multiply the contributions of all blocks, the first block's last."""
    product = matrices[0]
    for matrix in matrices[1:]:
        product = matrix @ product
    return product
