"""The frozen network run forward, one vector at a time: a slow oracle for flow that shares no code with it.

What the run computed (attention weights, norm statistics, ratios of activations, both factors of gated
products, router weights) is read with plain hooks. The affine map is then applied to one position's stream
alone, or to the biases of one part alone, from any depth up to the logit. The kinds of blocks are in
frozen_blocks.py.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from whyword.trace.precision import keep_precision

__all__ = [
    "Block",
    "FrozenNetwork",
    "Map",
    "Seen",
    "attend",
    "freeze_attention",
    "freeze_gated_mlp",
    "freeze_mlp",
    "freeze_norm",
    "freeze_reading",
    "linear",
    "list_streams",
    "watch",
]

Map = Callable[[Tensor, float], Tensor]
"""(vectors, how much of the biases) → vectors."""
Block = Callable[[Tensor, Tensor | None, float], Tensor]
"""(stream, the encoder's output, how much of its biases) → stream."""


@dataclass
class FrozenNetwork:
    """Blocks as affine maps of the whole stream, each with a switch for its biases."""

    streams: list[Tensor]
    """positions × model: what enters each block, and what leaves the last."""
    blocks: list[Block]
    read: Map
    """The logit difference at the last position; in an encoder, what it gives."""
    encoder: "FrozenNetwork | None" = None

    @torch.no_grad()
    def carry(
        self,
        stream: Tensor,
        depth: int,
        biases: Sequence[float] | None = None,
        source: Tensor | None = None,
    ) -> Tensor:
        """Run a stream up from a depth, with so much of every block's and last the head's biases."""
        biases = [0.0] * (len(self.blocks) + 1) if biases is None else biases
        if source is None and self.encoder is not None:
            source = torch.zeros_like(self.encoder.streams[-1])
        for index in range(depth, len(self.blocks)):
            stream = self.blocks[index](stream, source, biases[index])
        return self.read(stream, biases[-1])

    def flow(self, depth: int, position: int) -> float:
        return float(self.carry(_alone(self.streams[depth], position), depth))

    def bias(self, depth: int) -> float:
        """Add up what the biases of each part alone add, from a depth on."""
        return sum(float(self.carry(*each)) for each in self._each_bias(depth))

    def read_source(self, depth: int, position: int) -> float:
        """Give what the blocks above a depth read at one position of the encoder's output."""
        assert self.encoder is not None
        nothing = torch.zeros_like(self.streams[depth])
        return float(self.carry(nothing, depth, source=_alone(self.encoder.streams[-1], position)))

    def flow_from_source(self, depth: int, position: int) -> float:
        """Give what comes from one position of the source, at a depth of the encoder."""
        assert self.encoder is not None
        return self._finish(self.encoder.carry(_alone(self.encoder.streams[depth], position), depth))

    def source_bias(self, depth: int) -> float:
        """Add up what the biases of the encoder add, from a depth of it on."""
        assert self.encoder is not None
        every = self.encoder._each_bias(depth)
        return sum(self._finish(self.encoder.carry(*each)) for each in every)

    def _finish(self, source: Tensor) -> float:
        return float(self.carry(torch.zeros_like(self.streams[0]), 0, source=source))

    def _each_bias(self, depth: int) -> list[tuple[Tensor, int, list[float]]]:
        nothing, parts = torch.zeros_like(self.streams[depth]), range(len(self.blocks) + 1)
        return [
            (nothing, depth, [float(index == part) for index in parts])
            for part in range(depth, len(self.blocks) + 1)
        ]


def _alone(stream: Tensor, position: int) -> Tensor:
    alone = torch.zeros_like(stream)
    alone[position] = stream[position]
    return alone


@dataclass
class Seen:
    """What every module read and gave in one run, one row per position."""

    inputs: dict[nn.Module, Tensor] = field(default_factory=dict)
    outputs: dict[nn.Module, Tensor] = field(default_factory=dict)
    run: Any = None


def watch(network: Any, ids: Sequence[int], **more: Any) -> Seen:
    seen, handles = Seen(), []

    def keep(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        given = args[0] if args else kwargs.get("hidden_states")
        if isinstance(given, Tensor) and given.is_floating_point():
            seen.inputs[module] = given.reshape(-1, given.shape[-1])
        if isinstance(output, Tensor):
            seen.outputs[module] = output.reshape(-1, output.shape[-1])

    for module in network.modules():
        handles.append(module.register_forward_hook(keep, with_kwargs=True))
    with torch.no_grad(), keep_precision(torch.float64):
        seen.run = network(input_ids=torch.tensor([ids]), output_attentions=True, use_cache=False, **more)
    for handle in handles:
        handle.remove()
    return seen


def freeze_norm(seen: Seen, module: Any) -> Map:
    """Freeze a LayerNorm at its statistics; any other norm at the ratio of what it gave and read."""
    inputs = seen.inputs[module]
    if isinstance(module, nn.LayerNorm):
        scale = 1 / (inputs.var(-1, correction=0, keepdim=True) + module.eps).sqrt()
        return lambda stream, bias: (
            (stream - stream.mean(-1, keepdim=True)) * scale * module.weight + bias * module.bias
        )
    ratio = seen.outputs[module] / inputs
    return lambda stream, bias: stream * ratio


def linear(module: Any) -> Map:
    weight = module.weight.T if isinstance(module, nn.Linear) else module.weight
    return lambda stream, bias: stream @ weight + (0 if module.bias is None else bias * module.bias)


def freeze_activation(seen: Seen, module: Any) -> Map:
    """Freeze the ratio of what an activation gave, beyond what it gives for 0, which is a bias."""
    at_zero = module(torch.zeros((), dtype=torch.float64))
    ratio = (seen.outputs[module] - at_zero) / seen.inputs[module]
    return lambda inputs, bias: ratio * inputs + bias * at_zero


def attend(weights: Tensor, values: Tensor, value_heads: int) -> Tensor:
    """weights: head × position × source; values: source × (value head, dim)."""
    split = values.view(values.shape[0], value_heads, -1)
    group = weights.shape[0] // value_heads
    heads = [weights[head] @ split[:, head // group] for head in range(weights.shape[0])]
    return torch.cat(heads, dim=1)


def freeze_attention(weights: Tensor, value: Any, output: Any, value_heads: int) -> Map:
    value, output = linear(value), linear(output)
    return lambda read, bias: output(attend(weights, value(read, bias), value_heads), bias)


def freeze_mlp(seen: Seen, up: Any, activation: Any, down: Any) -> Map:
    up, act, down = linear(up), freeze_activation(seen, activation), linear(down)
    return lambda read, bias: down(act(up(read, bias), bias), bias)


def freeze_gated_mlp(seen: Seen, mlp: Any) -> Map:
    """Give half of the product to each of its factors."""
    gate, up, down = (linear(module) for module in (mlp.gate_proj, mlp.up_proj, mlp.down_proj))
    activated, raised = seen.outputs[mlp.act_fn], seen.outputs[mlp.up_proj]
    ratio = activated / seen.inputs[mlp.act_fn]

    def run(read: Tensor, bias: float) -> Tensor:
        return down(ratio * gate(read, bias) * raised / 2 + activated * up(read, bias) / 2, bias)

    return run


def freeze_reading(seen: Seen, norm: Any, rows: Tensor, target: int, foil: int) -> Map:
    frozen = freeze_norm(seen, norm)
    return lambda stream, bias: frozen(stream, bias)[-1] @ (rows[target] - rows[foil])


def list_streams(seen: Seen, blocks: Any, last: Tensor) -> list[Tensor]:
    return [*(seen.inputs[block] for block in blocks), last]
