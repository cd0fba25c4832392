"""What every neuron of the recorded MLPs did at the explained positions.

    MLP output = Σ_n k_n W_2[n] + b                              k: what the down projection read
    mixture:     Σ_e g_e (Σ_n k_n W_2ᵉ[n] + bᵉ)                  g: gates; 0 for experts that were not chosen

The activations of a plain or gated MLP were recorded. Those of a mixture are computed again, by its own
modules and from what it read. Gates are what the mixture multiplies its experts by, whatever that is: let
each expert write a unit vector of its own, and the mixture's output holds one gate in each component. Where
one module has the weights of all experts, its neurons are seen by putting the identity in the place of W_2.
Nothing of this is taken on trust: what the neurons write is compared with what the MLP gave
(ledger/neuron_updates.py).
"""

import copy
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from ..errors import ModelError, WhywordError, first_line
from ..models.architecture import Mlp
from ..models.model import (
    Model,
    find_down,
    find_experts,
    module_at,
    optional_module,
)
from .hooks import capture_calls, replace_outputs
from .precision import keep_precision
from .running import evaluating
from .trace import MlpTrace, Trace

__all__ = ["SHARED", "NeuronGroup", "list_groups", "mlp_of", "read_neurons"]

SHARED = "shared"
"""The name of the expert that acts whatever is chosen."""


@dataclass(frozen=True)
class NeuronGroup:
    """The neurons of an MLP, or of one expert, at the explained positions."""

    expert: int | str | None
    """The expert, counted from 0, or "shared"; None: the MLP is no mixture."""
    activation: Float[Tensor, "position neuron"]
    """k: what the down projection read; 0 where the expert was not chosen."""
    gate: Float[Tensor, " position"]
    """What the expert's output is multiplied by; 1 of an MLP that is no mixture."""
    values: Float[Tensor, "neuron model"]
    """W_2: what each neuron writes when its activation is 1; a view of the weights, in their type."""
    bias: Float[Tensor, " model"] | None
    """What is added to what all neurons write."""


def list_groups(model: Model, block: int) -> list[tuple[int | str | None, int]]:
    """List the groups of a block's neurons, without running it: the expert, and how many neurons it has."""
    mlp = mlp_of(model)
    experts = find_experts(model.blocks[block], mlp)
    if experts is None:
        down = find_down(module_at(model.blocks[block], mlp.output), mlp)
        return [(None, model.project(down).read)]
    shared = optional_module(module_at(model.blocks[block], mlp.output), mlp.experts.shared)
    single = [] if shared is None else [(SHARED, model.project(find_down(shared, mlp)).read)]
    if isinstance(experts, nn.ModuleList):
        several = [model.project(find_down(expert, mlp)).read for expert in experts]
    else:
        several = [values.shape[0] for values, _ in _read_fused(experts, mlp)]
    return [*enumerate(several), *single]


def mlp_of(model: Model) -> Mlp:
    """Return the description of the model's MLPs."""
    found = [sublayer for sublayer in model.architecture.decoder.sublayers if isinstance(sublayer, Mlp)]
    if len(found) != 1:
        raise ModelError(
            f"The blocks of {model.name} have {len(found)} MLPs.", "Neurons are those of one MLP per block."
        )
    return found[0]


@torch.no_grad()
def read_neurons(model: Model, trace: Trace, block: int) -> tuple[NeuronGroup, ...]:
    """Return the neurons of one block, from a trace that was recorded with `Plan(neurons=True)`."""
    mlp = mlp_of(model)
    (written,) = (part for part in trace.decoder.sublayers if isinstance(part, MlpTrace))
    if written.read is None or len(written.read) != len(model.blocks):
        raise ModelError(
            f"The run of {model.name} showed what neurons read in {len(written.read or ())} of "
            f"{len(model.blocks)} blocks.",
            "Load the network before it is compiled (torch.compile), with MLPs that call their projections.",
        )
    read = written.read[block]
    module, experts = module_at(model.blocks[block], mlp.output), find_experts(model.blocks[block], mlp)
    if experts is None:
        down = model.project(find_down(module, mlp))
        values, bias = down.stored(), down.bias()
        return (NeuronGroup(None, read, read.new_ones(read.shape[0]), values, bias),)
    try:
        with evaluating(model), keep_precision(model.dtype):
            return tuple(_Mixture(model, module, experts, mlp).read(read))
    except (WhywordError, MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:  # experts are run in pieces, which modelling files were not written for
        raise ModelError(
            f"The neurons of {type(experts).__name__} in block {block + 1} cannot be read: "
            f"{type(error).__name__}: {first_line(error)}",
            "Describe its experts in the description: Mlp(experts=Experts(...)).",
        ) from error


def _read_fused(
    experts: nn.Module, mlp: Mlp
) -> list[tuple[Float[Tensor, "neuron model"], Float[Tensor, " model"] | None]]:
    """Read W_2 and the bias of every expert from a module that has those of all."""
    parameters = dict(experts.named_parameters(recurse=False))
    if mlp.experts.weight not in parameters:
        raise ModelError(
            f"{type(experts).__name__} has no parameter {mlp.experts.weight!r}; it has "
            f"{', '.join(parameters)}.",
            "Name it in the description: Mlp(experts=Experts(weight=...)).",
        )
    weights, biases = parameters[mlp.experts.weight].detach(), parameters.get(mlp.experts.bias)
    rows = weights if mlp.experts.transposed else weights.transpose(1, 2)
    return [(row, None if biases is None else biases[index].detach()) for index, row in enumerate(rows)]


@dataclass(frozen=True)
class _Mixture:
    """A mixture of experts that is run once more, on the explained positions only."""

    model: Model
    module: nn.Module
    experts: nn.Module
    mlp: Mlp

    def read(self, read: Float[Tensor, "position model"]) -> list[NeuronGroup]:
        """Return the neurons of every expert."""
        weight = next(self.experts.parameters())
        rows = read.to(weight)
        shared = optional_module(self.module, self.mlp.experts.shared)
        single = isinstance(self.experts, nn.ModuleList)
        several = list(cast(nn.ModuleList, self.experts)) if single else [self.experts]
        writers = [*several, *([] if shared is None else [shared])]
        with capture_calls(self.experts) as calls:
            gates = self._weigh(writers, rows).to(read)
        groups = (
            [self._read_expert(index, expert, rows, gates[:, index]) for index, expert in enumerate(several)]
            if single
            else self._read_all(calls[0], gates[:, 0])
        )
        if shared is not None:
            groups.append(self._read_expert(SHARED, shared, rows, gates[:, -1]))
        return groups

    def _weigh(
        self, writers: Sequence[nn.Module], rows: Float[Tensor, "position model"]
    ) -> Float[Tensor, "position writer"]:
        """Let every writer write a unit vector of its own, and read what it was multiplied by."""
        width, gates = rows.shape[1], []
        for start in range(0, len(writers), width):
            units = {
                writer: _write_unit(index - start if 0 <= index - start < width else None)
                for index, writer in enumerate(writers)
            }
            with replace_outputs(units):
                output = self.module(rows[None])
            output = output[0] if isinstance(output, tuple) else output
            gates.append(output.reshape(rows.shape)[:, : len(writers) - start])
        return torch.cat(gates, dim=1)

    def _read_expert(
        self,
        name: int | str,
        expert: nn.Module,
        rows: Float[Tensor, "position model"],
        gate: Float[Tensor, " position"],
    ) -> NeuronGroup:
        """Return the neurons of an expert that is an MLP, at the positions where it was chosen."""
        down = find_down(expert, self.mlp)
        values, bias = self.model.project(down).stored(), self.model.project(down).bias()
        activation = gate.new_zeros(gate.shape[0], values.shape[0])
        chosen = gate != 0
        if chosen.any():
            with capture_calls(down) as calls:
                expert(rows[chosen.to(rows.device)])
            activation[chosen] = calls[0][0][0].to(activation)
        return NeuronGroup(name, activation, gate, values, bias)

    def _read_all(
        self, call: tuple[tuple[Any, ...], dict[str, Any]], factor: Float[Tensor, " position"]
    ) -> list[NeuronGroup]:
        """Return the neurons of experts whose weights one module holds, from how it was called."""
        rows, chosen, weights = (*call[0], *call[1].values())
        rows = rows.reshape(-1, rows.shape[-1])
        by_slot = weights if weights.shape == chosen.shape else weights.gather(1, chosen)
        weighed = by_slot.to(factor) * factor[:, None]
        read = _read_fused(self.experts, self.mlp)
        activations = self._see_neurons(rows, chosen, one_of_all=weights.shape != chosen.shape)
        groups = []
        for index, (values, bias) in enumerate(read):
            own = (chosen == index).to(factor)
            gate = (weighed * own).sum(1)
            activation = (activations.to(factor) * own[:, :, None]).sum(1)
            groups.append(NeuronGroup(index, activation, gate, values, bias))
        return groups

    def _see_neurons(
        self, rows: Float[Tensor, "position model"], chosen: Int[Tensor, "position slot"], *, one_of_all: bool
    ) -> Float[Tensor, "position slot neuron"]:
        """Run the experts' own code with a piece of the identity in the place of W_2, piece after piece.

        `one_of_all`: gates come as one number for every expert (transformers 4), not for every chosen one.
        """
        experts, described = self.experts, self.mlp.experts
        positions, slots = chosen.shape
        each, rows = chosen.reshape(-1, 1), rows.repeat_interleave(slots, dim=0)
        weight = dict(experts.named_parameters())[described.weight]
        neurons, width = weight.shape[1 if described.transposed else 2], rows.shape[1]
        ones = rows.new_ones(each.shape)
        gates = rows.new_zeros(len(rows), weight.shape[0]).scatter(1, each, ones) if one_of_all else ones
        # The modelling file's own, not a fast one: it takes weights of any layout.
        forward = inspect.unwrap(type(experts).forward)
        pieces = []
        for start in range(0, neurons, width):
            piece = torch.eye(neurons, dtype=rows.dtype, device=rows.device)[start : start + width]
            piece = torch.nn.functional.pad(piece, (0, 0, 0, width - len(piece)))
            identity = (piece.T if described.transposed else piece).expand(weight.shape[0], -1, -1)
            module = _with_weights(experts, described.weight, described.bias, identity)
            seen = forward(module, rows, each, gates)
            pieces.append(seen.reshape(len(rows), width))
        return torch.cat(pieces, dim=1)[:, :neurons].reshape(positions, slots, neurons)


def _write_unit(index: int | None) -> Callable[[Tensor], Tensor]:
    """Return what replaces an output: a unit vector at every position, or nothing."""

    def write(output: Tensor) -> Tensor:
        unit = torch.zeros_like(output)
        if index is not None:
            unit[..., index] = 1
        return unit

    return write


def _with_weights(experts: nn.Module, weight: str, bias: str, identity: Tensor) -> nn.Module:
    """Return a module with the identity in the place of W_2 and without its bias; the others are shared."""
    seen = copy.copy(experts)
    parameters = dict(experts._parameters)
    parameters[weight] = nn.Parameter(identity, requires_grad=False)
    own = parameters.get(bias)
    if own is not None:
        parameters[bias] = nn.Parameter(torch.zeros_like(own), requires_grad=False)
    seen.__dict__["_parameters"] = parameters
    return seen
