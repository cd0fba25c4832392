"""A plain, slow reference: the method written down with einsum, everything built in full.

It shares no code with the library. Weights come from the modules, attention weights and hidden states from
transformers' own outputs; value vectors are computed here.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Reference:
    """What the method gives for the last position."""

    by_head: Tensor  # block head source
    attention_bias: Tensor  # block
    mlp: Tensor  # block
    embedding: Tensor
    norm_bias: Tensor
    mixing: Tensor  # block position source
    alti_logit: Tensor  # block source


def explain(network: Any, ids: list[int], target: int, foil: int) -> Reference:
    """Explain the last position of a GPT-2 or Llama model, every product of the method in full."""
    network.set_attn_implementation("eager")
    with torch.no_grad():
        output = network(torch.tensor([ids]), output_attentions=True, output_hidden_states=True)
        streams = [state[0] for state in output.hidden_states[:-1]]
        weights = [attention[0] for attention in output.attentions]
        read = _read_gpt2 if network.config.model_type == "gpt2" else _read_llama
        blocks = [
            read(network, block, stream, len(ids))
            for block, stream in zip(_blocks(network), streams, strict=True)
        ]
        parts = [
            torch.einsum("hij,hjd,hdm->hijm", a, b["value"], b["project"])
            for a, b in zip(weights, blocks, strict=True)
        ]
        after = [x + p.sum((0, 2)) + b["bias"] for x, p, b in zip(streams, parts, blocks, strict=True)]
        mlps = [b["mlp"](y) for y, b in zip(after, blocks, strict=True)]
        last = after[-1] + mlps[-1]
        u, norm_bias = _direction(network, last[-1], target, foil)
        contributions = [
            _contributions(x, y, p.sum(0)) for x, y, p in zip(streams, after, parts, strict=True)
        ]
    mixing = [contributions[0]]
    for c in contributions[1:]:
        mixing.append(c @ mixing[-1])
    by_head = torch.stack([torch.einsum("hjm,m->hj", p[:, -1], u) for p in parts])
    below = [torch.eye(len(ids), dtype=u.dtype), *mixing[:-1]]
    return Reference(
        by_head=by_head,
        attention_bias=torch.stack([b["bias"] @ u for b in blocks]),
        mlp=torch.stack([m[-1] @ u for m in mlps]),
        embedding=streams[0][-1] @ u,
        norm_bias=norm_bias,
        mixing=torch.stack(mixing),
        alti_logit=torch.stack([row.sum(0) @ m for row, m in zip(by_head, below, strict=True)]),
    )


def _contributions(x: Tensor, y: Tensor, parts: Tensor) -> Tensor:
    """C of one block, row by row."""
    rows = []
    for i in range(len(x)):
        part = parts[i].clone()
        part[i] += x[i]
        near = (y[i].abs().sum() - (y[i] - part).abs().sum(-1)).clamp(min=0)
        own = torch.nn.functional.one_hot(torch.tensor(i), len(x)).to(x.dtype)
        rows.append(near / near.sum() if near.sum() > 0 else own)
    return torch.stack(rows)


def _direction(network: Any, stream: Tensor, target: int, foil: int) -> tuple[Tensor, Tensor]:
    """The gradient of a frozen final norm is the direction of the logit difference."""
    u = network.get_output_embeddings().weight[target] - network.get_output_embeddings().weight[foil]
    if network.config.model_type == "gpt2":
        norm = network.transformer.ln_f
        scale = 1 / torch.sqrt(stream.var(correction=0) + norm.eps)
        frozen = torch.eye(len(stream), dtype=u.dtype) - 1 / len(stream)
        return frozen @ (scale * norm.weight * u), norm.bias @ u
    norm = network.model.norm
    scale = 1 / torch.sqrt(stream.pow(2).mean() + norm.variance_epsilon)
    return scale * norm.weight * u, torch.zeros((), dtype=u.dtype)


def _blocks(network: Any) -> Any:
    return network.transformer.h if network.config.model_type == "gpt2" else network.model.layers


def _read_gpt2(network: Any, block: Any, stream: Tensor, length: int) -> dict[str, Any]:
    heads, width = network.config.n_head, network.config.n_embd
    qkv = block.ln_1(stream) @ block.attn.c_attn.weight + block.attn.c_attn.bias
    value = qkv[:, 2 * width :].reshape(length, heads, -1).transpose(0, 1)
    project = block.attn.c_proj.weight.reshape(heads, -1, width)
    return {
        "value": value,
        "project": project,
        "bias": block.attn.c_proj.bias,
        "mlp": lambda y: block.mlp(block.ln_2(y)),
    }


def _read_llama(network: Any, block: Any, stream: Tensor, length: int) -> dict[str, Any]:
    config, attention = network.config, block.self_attn
    value = block.input_layernorm(stream) @ attention.v_proj.weight.T
    value = value if attention.v_proj.bias is None else value + attention.v_proj.bias
    value = value.reshape(length, config.num_key_value_heads, -1).transpose(0, 1)
    value = value.repeat_interleave(config.num_attention_heads // config.num_key_value_heads, dim=0)
    project = attention.o_proj.weight.T.reshape(config.num_attention_heads, -1, config.hidden_size)
    bias = torch.zeros_like(stream[0]) if attention.o_proj.bias is None else attention.o_proj.bias
    return {
        "value": value,
        "project": project,
        "bias": bias,
        "mlp": lambda y: block.mlp(block.post_attention_layernorm(y)),
    }
