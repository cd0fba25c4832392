"""The fields of a document of neurons."""

from dataclasses import dataclass
from typing import Annotated

from annotated_types import MinLen

from ..attribute.methods import Measure
from ..results.explained_prediction import Count, Numbers, PredictionRecord

__all__ = ["ExpertRecord", "NeuronBlockRecord", "NeuronRecord", "NeuronsDocument"]


@dataclass(frozen=True, kw_only=True)
class ExpertRecord:
    """The neurons of an expert, or of an MLP that is not a mixture."""

    expert: int | str | None
    """The expert, from 0, or "shared"; null: the MLP is not a mixture."""
    neurons: Count
    """How many there are."""
    gate: float
    """The factor that multiplies its output."""


@dataclass(frozen=True, kw_only=True)
class NeuronBlockRecord:
    """The neurons of one block at the explained position, those of all experts side by side."""

    experts: Annotated[tuple[ExpertRecord, ...], MinLen(1)]
    """The order of the neurons."""
    bias: float
    """What the biases of the down projection add."""
    mlp: float
    """The ledger's entry of this MLP."""
    error: float
    """|Σ update + bias − mlp| / (Σ|update| + |bias|)."""
    activation: Annotated[Numbers, MinLen(1)]
    """The activations: what the down projection read, by neuron."""
    update: Numbers
    """What each neuron adds to the logit (difference)."""


@dataclass(frozen=True, kw_only=True)
class NeuronRecord:
    """One of the neurons that are listed."""

    label: str
    """Its name: block.neuron, or block.e5.neuron of an expert; blocks are counted from 1."""
    block: Count
    """Its block, from 0."""
    expert: int | str | None
    """Its expert, from 0, or "shared"; null: the MLP is not a mixture."""
    neuron: Count
    """Its index in its MLP or expert, from 0."""
    activation: float
    """The activation: what the down projection read."""
    gate: float
    """The factor that multiplies its expert's output."""
    update: float
    """What it adds to the logit (difference)."""
    promotes: tuple[str, ...]
    """The tokens whose logits its value vector raises most when the activation is positive."""
    suppresses: tuple[str, ...]
    """The tokens whose logits it lowers most."""


@dataclass(frozen=True, kw_only=True)
class NeuronsDocument(PredictionRecord):
    """What every MLP neuron added to one logit, or to one difference of logits."""

    measure: Measure | None = None
    """What updates are."""
    blocks: tuple[NeuronBlockRecord, ...]
    """All neurons, by block."""
    named: tuple[NeuronRecord, ...]
    """Neurons that raise it most, strongest first, then those that lower it most; or those asked for."""
