"""MLPs as key–value memories: what every neuron adds to the logit [eq. 16–19].

    update[l, n] = g · k_n · (W_2[n] · u)          with the bias g · (b · u) as its own row

u is the direction by which the ledger reads what the MLP writes, so the updates of a block and its bias add
up to the ledger's entry of that MLP. Proven on every call: all that neurons write is what the MLP gave.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ..maths.frozen_norm import freeze
from ..maths.proof import Identity, require_close, tolerance_of
from ..models.model import Model, module_at, optional_module
from ..trace import Trace
from ..trace.neuron_activations import NeuronGroup, read_neurons
from .direction import Target, unembedding_direction
from .entries import enter_stack
from .parts import MlpPart, replay

__all__ = ["NeuronEntries", "push_forward", "settle_neurons"]


@dataclass(frozen=True, eq=False)
class NeuronEntries:
    """What the neurons of one block add to the logits of all explained positions."""

    block: int
    """From 0."""
    groups: tuple[NeuronGroup, ...]
    """Experts, or the one MLP."""
    worth: Float[Tensor, "position neuron"]
    """g · (W_2[n] · u): what one unit of activation adds; the groups side by side."""
    update: Float[Tensor, "position neuron"]
    """What each neuron adds."""
    bias: Float[Tensor, " position"]
    """What the biases add."""

    @property
    def activation(self) -> Float[Tensor, "position neuron"]:
        """k, the groups side by side."""
        return torch.cat([group.activation for group in self.groups], dim=1)


@torch.no_grad()
def settle_neurons(model: Model, trace: Trace, targets: Sequence[Target]) -> Iterator[NeuronEntries]:
    """Return what the neurons of every block add, from the last block to the first, and prove each."""
    parts = replay(model, model.decoder_stack, trace.decoder)
    direction, _ = enter_stack(model, trace, unembedding_direction(model, targets))
    for block in reversed(range(len(model.blocks))):
        for part in reversed(parts):
            direction, written, _ = part.pull_back(block, direction)
            if isinstance(part, MlpPart):
                groups = read_neurons(model, trace, block)
                _prove(model, block, groups, part.trace.output[block])
                yield _settle_block(block, groups, written)


def _settle_block(
    block: int, groups: tuple[NeuronGroup, ...], direction: Float[Tensor, "position model"]
) -> NeuronEntries:
    worth, bias = [], direction.new_zeros(direction.shape[0])
    for group in groups:
        own = direction.to(group.values.device)
        read = (own @ group.values.to(own.dtype).T).to(direction.device)
        worth.append(read if group.expert is None else read * group.gate[:, None])
        if group.bias is not None:
            bias = bias + group.gate * (direction @ group.bias.to(direction))
    side_by_side = worth[0] if len(worth) == 1 else torch.cat(worth, dim=1)
    updates = [each * group.activation for each, group in zip(worth, groups, strict=True)]
    update = updates[0] if len(updates) == 1 else torch.cat(updates, dim=1)
    return NeuronEntries(block, groups, side_by_side, update, bias)


def _prove(
    model: Model, block: int, groups: Sequence[NeuronGroup], output: Float[Tensor, "position model"]
) -> None:
    """Prove that what the neurons of a block write, with the bias, is what its MLP gave."""
    found, scale = torch.zeros_like(output), output.new_zeros(output.shape[0], 1)
    for group in groups:
        if not group.gate.any():  # not chosen anywhere
            continue
        values = group.values.to(output.dtype)
        weighted = (group.activation * group.gate[:, None]).to(values.device)
        written = weighted @ values
        size = weighted.abs() @ torch.linalg.vector_norm(values, dim=1, keepdim=True)
        found, scale = found + written.to(found.device), scale + size.to(found.device)
        if group.bias is not None:
            added = group.gate[:, None] * group.bias.to(found)
            found, scale = found + added, scale + torch.linalg.vector_norm(added, dim=1, keepdim=True)
    require_close(
        Identity.NEURONS,
        f"block {block + 1}, MLP",
        found=found,
        expected=output,
        scale=scale,
        tolerance=tolerance_of(model.exactness),
    )


@torch.no_grad()
def push_forward(
    model: Model, trace: Trace, block: int, values: Float[Tensor, "vector model"]
) -> Float[Tensor, "vector vocab"]:
    """Return what vectors that a block's MLP writes would add to every logit, at the one explained position.

    Along the stream, through every norm frozen: what later blocks make of them is not in it.
    """
    stack, stream = model.architecture.decoder, trace.decoder.stream_out[-1]
    parts = replay(model, model.decoder_stack, trace.decoder)
    vectors = values.to(stream)
    for index in range(block, len(model.blocks)):
        for part in parts:
            writing = index == block and isinstance(part, MlpPart)
            if writing:
                if part.norm_after is not None:
                    vectors = part.norm_after.at(index).map_vectors(vectors)
                vectors = vectors * part.multiplier
            if part.norm_sum is not None and (index > block or writing):
                vectors = part.norm_sum.at(index).map_vectors(vectors)
    if stack.final_norm is not None:
        vectors = freeze(module_at(model.decoder, stack.final_norm), stack.norm, stream).map_vectors(vectors)
    projection = optional_module(model.decoder, stack.project_out)
    if projection is not None:
        vectors = model.project(projection).apply(vectors)
    return model.project(model.unembedding).apply(vectors).to(vectors) * model.logit_multiplier
