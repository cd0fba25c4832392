"""What a document of neurons holds."""

from dataclasses import dataclass
from typing import Annotated

from annotated_types import MinLen

from ..attribute.methods import Measure
from ..results.explained_prediction import Count, Numbers, PredictionRecord

__all__ = ["ExpertRecord", "NeuronBlockRecord", "NeuronRecord", "NeuronsDocument"]


@dataclass(frozen=True, kw_only=True)
class ExpertRecord:
    """The neurons of an expert, or of an MLP that is no mixture."""

    expert: int | str | None
    """The expert, from 0, or "shared"; null: the MLP is no mixture."""
    neurons: Count
    """How many there are."""
    gate: float
    """What its output is multiplied by."""


@dataclass(frozen=True, kw_only=True)
class NeuronBlockRecord:
    """The neurons of one block at the explained position, those of all experts side by side."""

    experts: Annotated[tuple[ExpertRecord, ...], MinLen(1)]
    """Which neurons lie where."""
    bias: float
    """What the biases of the down projection add."""
    mlp: float
    """The ledger's entry of this MLP."""
    error: float
    """|Σ update + bias − mlp| / (Σ|update| + |bias|)."""
    activation: Annotated[Numbers, MinLen(1)]
    """What the down projection read, by neuron."""
    update: Numbers
    """What each neuron adds to the logit (difference)."""


@dataclass(frozen=True, kw_only=True)
class NeuronRecord:
    """One neuron that is named."""

    label: str
    """Its name: block.neuron, or block.e5.neuron of an expert; blocks are counted from 1."""
    block: Count
    """Its block, from 0."""
    expert: int | str | None
    """Its expert, from 0, or "shared"; null: the MLP is no mixture."""
    neuron: Count
    """Its index in its MLP or expert, from 0."""
    activation: float
    """What the down projection read."""
    gate: float
    """What its expert's output is multiplied by."""
    update: float
    """What it adds to the logit (difference)."""
    promotes: tuple[str, ...]
    """The tokens whose logits its value vector raises most where the activation is positive."""
    suppresses: tuple[str, ...]
    """Those that it lowers most."""


@dataclass(frozen=True, kw_only=True)
class NeuronsDocument(PredictionRecord):
    """What every MLP neuron added to one logit, or to one difference of logits."""

    measure: Measure | None = None
    """What updates are."""
    blocks: tuple[NeuronBlockRecord, ...]
    """All neurons, by block."""
    named: tuple[NeuronRecord, ...]
    """Those that raise most, from the strongest, then those that lower most; or those that were asked for."""
