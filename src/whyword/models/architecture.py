"""The types that describe an architecture; no model is named here.

A stack is a list of blocks; a block is a list of sub-layers, each of which writes one vector per position
into the residual stream. What happens *before* a sub-layer (its norm, its projections, rotary or learned
positions, parallel or sequential wiring) needs no description: it is contained in the value vectors and
outputs that the network itself computed. What happens *after* one must be described, because an update is
pulled back through it:

    written = multiplier · norm_after(output)  a norm between the sub-layer and the stream (Gemma, OLMo 2)
    stream  = norm_sum(stream + written)       a norm over the residual sum: post-norm (opt-350m)
    logits  = cap(multiplier · (U y + b))      Granite and Cohere scale logits, Gemma 2 caps them

An encoder–decoder model is two stacks; blocks of its decoder also have cross-attention to the source.

Numbers are given by the config attribute that holds them. A path `a|b` means a, or b where there is no a
(modules that transformers has renamed).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Architecture", "Attention", "Experts", "Mlp", "Norm", "Stack", "Sublayer", "ValueLayout"]


@dataclass(frozen=True)
class Norm:
    """Which linear map a norm is once its statistics are frozen."""

    centred: bool
    """True: the mean is subtracted (LayerNorm). False: it is not (RMSNorm)."""
    epsilon: str | float = "eps"
    """Attribute of the norm module that holds its epsilon, or the number itself where none does."""
    offset: float = 0.0
    """Added to the weight: 1 for Gemma, whose norms multiply by 1 + weight."""


@dataclass(frozen=True)
class ValueLayout:
    """Where value vectors sit in the output of a projection, for attention outside transformers' seam."""

    projection: str
    """Path inside the attention module of the projection that makes the values."""
    pattern: str
    """einops pattern of its last axis: `part` (query, key, value), `dim`, and the axes of heads in order."""
    part: int = 0
    """Which part is the value."""
    sizes: Mapping[str, int | str] = field(default_factory=dict)
    """Sizes of axes, as numbers or config attributes; `dim` is known, and one more can be inferred."""


@dataclass(frozen=True)
class Sublayer:
    """A part of a block that writes into the residual stream. Paths are relative to the block."""

    output: str
    """Path of the module whose output is the sub-layer's output, without the residual."""
    norm_after: str | None = None
    """Path of a norm between that output and the stream."""
    norm_sum: str | None = None
    """Path of a norm over stream + output (post-norm blocks)."""
    multiplier: str | None = None
    """Config attribute that multiplies what is written into the stream."""


@dataclass(frozen=True, kw_only=True)
class Attention(Sublayer):
    """A sub-layer that reads other positions."""

    module: str
    """Path of the attention module."""
    value: ValueLayout | None = None
    """Where the values are, for attention that uses neither transformers' interface nor torch's function:
    they are then read by a hook, and the weights are those that the module returns."""
    cross: bool = False
    """True: it reads the encoder's positions. False: those of its own stack."""


@dataclass(frozen=True)
class Experts:
    """Where the experts of a mixture are. Paths are relative to the MLP's module, which may have none."""

    module: str = "experts"
    """Path of a list of MLPs, or of one module that holds the weights of all experts."""
    shared: str = "shared_expert|shared_experts|shared_mlp"
    """Path of the shared expert, which always acts."""
    weight: str = "down_proj"
    """The parameter that holds the weights of all experts in one module: experts × model × neurons."""
    bias: str = "down_proj_bias"
    """The parameter that holds the biases, where there are any."""
    transposed: bool = False
    """Whether that weight is experts × neurons × model (gpt-oss)."""


@dataclass(frozen=True)
class Mlp(Sublayer):
    """A sub-layer that acts on one position at a time."""

    down: str = "down_proj|dense_4h_to_h|c_proj|fc_out|fc2|w2"
    """Path, inside `output` and inside every expert, of the projection that neurons write through (the down
    projection); not needed where `output` is that projection itself."""
    experts: Experts = Experts()
    """Where the experts are, if there are any."""


@dataclass(frozen=True)
class Stack:
    """A list of blocks with the same sub-layers."""

    sublayers: tuple[Sublayer, ...]
    norm: Norm
    """The kind of all norms that an update passes on its way to the logits."""
    blocks: str = "layers"
    """Path of the list of blocks inside the stack's module."""
    final_norm: str | None = "norm"
    """Path of the norm after the last block."""
    project_out: str | None = None
    """Path of a projection after the final norm (opt-350m)."""
    scaled_by_width: str | None = None
    """Config attribute that, where it is true, divides the input of the unembedding by the square root of its
    width (T5)."""


@dataclass(frozen=True)
class Architecture:
    """What must be known of a family to pull a logit back to where a vector was written."""

    name: str
    decoder: Stack
    encoder: Stack | None = None
    logit_multiplier: str | None = None
    """Config attribute that multiplies the output of the unembedding."""
    logit_divisor: str | None = None
    """Config attribute that divides the output of the unembedding."""
    logit_bias: str | None = None
    """Name of the network's buffer that is added to the logits (Marian, BART)."""
    logit_cap: str | None = None
    """Config attribute c of a cap on the logits, x ↦ c · tanh(x / c): what is explained is x."""
    expects: Mapping[str, object] = field(default_factory=dict)
    """Config attributes, with the values that this description was written for."""
