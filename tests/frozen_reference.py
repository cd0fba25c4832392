"""The frozen network run forward, one vector at a time: a slow oracle for flow that shares no code with it.

What the run computed (attention weights, norm statistics, ratios of activations, both factors of gated
products) is read with plain hooks. The affine map is then applied to one position's stream alone, or to one
bias alone, from any depth up to the logit.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from whyword.trace.precision import keep_precision

__all__ = ["FrozenNetwork", "freeze_gpt2", "freeze_llama"]


@dataclass
class FrozenNetwork:
    """Blocks as affine maps of the whole stream, each with a switch for its biases."""

    streams: list[Tensor]
    """positions × model: what enters each block, and what leaves the last."""
    blocks: list[Callable[[Tensor, float], Tensor]]
    """(stream, how much of its biases) → stream."""
    read: Callable[[Tensor, float], Tensor]
    """The logit difference at the last position."""

    @torch.no_grad()
    def carry(self, stream: Tensor, depth: int, biases: Sequence[float] | None = None) -> Tensor:
        """Run a stream up from a depth, with so much of every block's and last the head's biases."""
        biases = [0.0] * (len(self.blocks) + 1) if biases is None else biases
        for index in range(depth, len(self.blocks)):
            stream = self.blocks[index](stream, biases[index])
        return self.read(stream, biases[-1])

    def flow(self, depth: int, position: int) -> float:
        alone = torch.zeros_like(self.streams[depth])
        alone[position] = self.streams[depth][position]
        return float(self.carry(alone, depth))

    def bias(self, depth: int) -> float:
        """Add up what the biases of each part alone add, from a depth on."""
        nothing, total = torch.zeros_like(self.streams[depth]), 0.0
        for part in range(depth, len(self.blocks) + 1):
            only = [1.0 if index == part else 0.0 for index in range(len(self.blocks) + 1)]
            total += float(self.carry(nothing, depth, only))
        return total


@dataclass
class _Seen:
    inputs: dict[nn.Module, Tensor] = field(default_factory=dict)
    outputs: dict[nn.Module, Any] = field(default_factory=dict)


def _watch(network: Any, ids: Sequence[int]) -> tuple[_Seen, Any]:
    seen, handles = _Seen(), []

    def keep(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        seen.inputs[module] = args[0] if args else kwargs.get("hidden_states")
        seen.outputs[module] = output

    for module in network.modules():
        handles.append(module.register_forward_hook(keep, with_kwargs=True))
    with torch.no_grad(), keep_precision(torch.float64):
        output = network(input_ids=torch.tensor([ids]), output_attentions=True, use_cache=False)
    for handle in handles:
        handle.remove()
    return seen, output


def _layer_norm(module: Any, inputs: Tensor) -> Callable[[Tensor, float], Tensor]:
    scale = 1 / (inputs.var(-1, correction=0, keepdim=True) + module.eps).sqrt()
    return lambda stream, bias: (
        (stream - stream.mean(-1, keepdim=True)) * scale * module.weight + bias * module.bias
    )


def _rms_norm(module: Any, inputs: Tensor) -> Callable[[Tensor, float], Tensor]:
    scale = 1 / ((inputs**2).mean(-1, keepdim=True) + module.variance_epsilon).sqrt()
    return lambda stream, bias: stream * scale * module.weight


def _linear(module: Any) -> Callable[[Tensor, float], Tensor]:
    weight = module.weight.T if isinstance(module, nn.Linear) else module.weight
    return lambda stream, bias: stream @ weight + (0 if module.bias is None else bias * module.bias)


def _attend(weights: Tensor, values: Tensor, value_heads: int) -> Tensor:
    """weights: head × position × source; values: source × (value head, dim)."""
    split = values.view(values.shape[0], value_heads, -1)
    group = weights.shape[0] // value_heads
    heads = [weights[head] @ split[:, head // group] for head in range(weights.shape[0])]
    return torch.cat(heads, dim=1)


def freeze_gpt2(network: Any, ids: Sequence[int], target: int, foil: int) -> FrozenNetwork:
    """Freeze a GPT-2 that attends eagerly."""
    seen, output = _watch(network, ids)
    body = network.transformer
    blocks = []
    for index, block in enumerate(body.h):
        weights, width = output.attentions[index][0], network.config.n_embd
        first = _layer_norm(block.ln_1, seen.inputs[block.ln_1][0])
        second = _layer_norm(block.ln_2, seen.inputs[block.ln_2][0])
        fused, project = _linear(block.attn.c_attn), _linear(block.attn.c_proj)
        up, down = _linear(block.mlp.c_fc), _linear(block.mlp.c_proj)
        before, after = seen.inputs[block.mlp.act][0], seen.outputs[block.mlp.act][0]
        ratio = after / before
        heads = network.config.n_head

        def run(
            stream: Tensor,
            bias: float,
            first: Any = first,
            second: Any = second,
            fused: Any = fused,
            project: Any = project,
            up: Any = up,
            down: Any = down,
            weights: Tensor = weights,
            ratio: Tensor = ratio,
            width: int = width,
            heads: int = heads,
        ) -> Tensor:
            values = fused(first(stream, bias), bias)[:, 2 * width :]
            stream = stream + project(_attend(weights, values, heads), bias)
            return stream + down(ratio * up(second(stream, bias), bias), bias)

        blocks.append(run)
    streams = [seen.inputs[block][0] for block in body.h] + [seen.inputs[body.ln_f][0]]
    norm, rows = _layer_norm(body.ln_f, streams[-1]), network.lm_head.weight
    return FrozenNetwork(
        streams, blocks, lambda stream, bias: norm(stream, bias)[-1] @ (rows[target] - rows[foil])
    )


def freeze_llama(network: Any, ids: Sequence[int], target: int, foil: int) -> FrozenNetwork:
    """Freeze a Llama that attends eagerly; its projections may have biases."""
    seen, output = _watch(network, ids)
    body = network.model
    blocks = []
    for index, block in enumerate(body.layers):
        first = _rms_norm(block.input_layernorm, seen.inputs[block.input_layernorm][0])
        second = _rms_norm(block.post_attention_layernorm, seen.inputs[block.post_attention_layernorm][0])
        mlp, attention = block.mlp, block.self_attn
        gate, activated = seen.inputs[mlp.act_fn][0], seen.outputs[mlp.act_fn][0]
        parts = {
            "first": first,
            "second": second,
            "weights": output.attentions[index][0],
            "ratio": activated / gate,
            "activated": activated,
            "up": seen.outputs[mlp.up_proj][0],
            "modules": (attention.v_proj, attention.o_proj, mlp.gate_proj, mlp.up_proj, mlp.down_proj),
            "value_heads": network.config.num_key_value_heads,
        }

        def run(stream: Tensor, bias: float, parts: dict[str, Any] = parts) -> Tensor:
            value, project, open_, raise_, lower = (_linear(module) for module in parts["modules"])
            values = value(parts["first"](stream, bias), bias)
            stream = stream + project(_attend(parts["weights"], values, parts["value_heads"]), bias)
            read = parts["second"](stream, bias)
            half = parts["ratio"] * open_(read, bias) * parts["up"] / 2
            other = parts["activated"] * raise_(read, bias) / 2
            return stream + lower(half + other, bias)

        blocks.append(run)
    streams = [seen.inputs[block][0] for block in body.layers] + [seen.inputs[body.norm][0]]
    norm, rows = _rms_norm(body.norm, streams[-1]), network.lm_head.weight
    return FrozenNetwork(
        streams, blocks, lambda stream, bias: norm(stream, bias)[-1] @ (rows[target] - rows[foil])
    )
