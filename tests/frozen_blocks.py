"""Every kind of block as the frozen map that it was in one run: see frozen_reference.py."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from frozen_reference import (
    Block,
    FrozenNetwork,
    Map,
    Seen,
    attend,
    freeze_attention,
    freeze_gated_mlp,
    freeze_mlp,
    freeze_norm,
    freeze_reading,
    linear,
    list_streams,
    watch,
)

__all__ = ["FREEZERS", "freeze_gpt2", "freeze_marian"]


def freeze_gpt2(network: Any, ids: Sequence[int], target: int, foil: int) -> FrozenNetwork:
    """Freeze a GPT-2: one sub-layer after the other, biases everywhere."""
    seen, body, blocks = watch(network, ids), network.transformer, []
    for block, weights in zip(body.h, seen.run.attentions, strict=True):
        first, second = freeze_norm(seen, block.ln_1), freeze_norm(seen, block.ln_2)
        fused, output = linear(block.attn.c_attn), linear(block.attn.c_proj)
        mlp = freeze_mlp(seen, block.mlp.c_fc, block.mlp.act, block.mlp.c_proj)

        def run(
            stream: Tensor, _: Any, bias: float, own: Any = (first, second, fused, output, mlp, weights[0])
        ) -> Tensor:
            first, second, fused, output, mlp, weights = own
            values = fused(first(stream, bias), bias)[:, 2 * stream.shape[1] :]
            stream = stream + output(attend(weights, values, weights.shape[0]), bias)
            return stream + mlp(second(stream, bias), bias)

        blocks.append(run)
    streams = list_streams(seen, body.h, seen.inputs[body.ln_f])
    return FrozenNetwork(
        streams, blocks, freeze_reading(seen, body.ln_f, network.lm_head.weight, target, foil)
    )


def freeze_neox(network: Any, ids: Sequence[int], target: int, foil: int) -> FrozenNetwork:
    """Freeze a GPT-NeoX: attention and MLP side by side; queries, keys and values by head."""
    seen, body, blocks = watch(network, ids), network.gpt_neox, []
    for block, weights in zip(body.layers, seen.run.attentions, strict=True):
        first, second = (
            freeze_norm(seen, block.input_layernorm),
            freeze_norm(seen, block.post_attention_layernorm),
        )
        fused, output = linear(block.attention.query_key_value), linear(block.attention.dense)
        mlp = freeze_mlp(seen, block.mlp.dense_h_to_4h, block.mlp.act, block.mlp.dense_4h_to_h)

        def run(
            stream: Tensor, _: Any, bias: float, own: Any = (first, second, fused, output, mlp, weights[0])
        ) -> Tensor:
            first, second, fused, output, mlp, weights = own
            by_head = fused(first(stream, bias), bias).view(len(stream), weights.shape[0], 3, -1)
            values = by_head[:, :, 2].flatten(1)
            attended = output(attend(weights, values, weights.shape[0]), bias)
            return stream + attended + mlp(second(stream, bias), bias)

        blocks.append(run)
    streams = list_streams(seen, body.layers, seen.inputs[body.final_layer_norm])
    rows = network.get_output_embeddings().weight
    return FrozenNetwork(streams, blocks, freeze_reading(seen, body.final_layer_norm, rows, target, foil))


def _freeze_llama_like(
    network: Any, ids: Sequence[int], target: int, foil: int, freeze_block: Callable[..., Block]
) -> FrozenNetwork:
    seen, body = watch(network, ids), network.model
    every = zip(body.layers, seen.run.attentions, strict=True)
    blocks = [freeze_block(seen, network.config, block, weights[0]) for block, weights in every]
    streams = list_streams(seen, body.layers, seen.inputs[body.norm])
    return FrozenNetwork(
        streams, blocks, freeze_reading(seen, body.norm, network.lm_head.weight, target, foil)
    )


def _plain_attention(block: Any, weights: Tensor, config: Any) -> Map:
    return freeze_attention(
        weights, block.self_attn.v_proj, block.self_attn.o_proj, config.num_key_value_heads
    )


def _chain(first: Map, attention: Map, second: Map, mlp: Map) -> Block:
    def run(stream: Tensor, _: Any, bias: float) -> Tensor:
        stream = stream + attention(first(stream, bias), bias)
        return stream + mlp(second(stream, bias), bias)

    return run


def _freeze_llama_block(seen: Seen, config: Any, block: Any, weights: Tensor) -> Block:
    """Freeze a gated MLP; projections may have biases."""
    first, second = (
        freeze_norm(seen, block.input_layernorm),
        freeze_norm(seen, block.post_attention_layernorm),
    )
    return _chain(first, _plain_attention(block, weights, config), second, freeze_gated_mlp(seen, block.mlp))


def _freeze_gemma2_block(seen: Seen, config: Any, block: Any, weights: Tensor) -> Block:
    """Freeze norms before and after both sub-layers."""
    before, after = (
        freeze_norm(seen, block.input_layernorm),
        freeze_norm(seen, block.post_attention_layernorm),
    )
    below, above = (
        freeze_norm(seen, norm)
        for norm in (block.pre_feedforward_layernorm, block.post_feedforward_layernorm)
    )
    attention, mlp = _plain_attention(block, weights, config), freeze_gated_mlp(seen, block.mlp)
    return _chain(
        before,
        lambda read, bias: after(attention(read, bias), bias),
        below,
        lambda read, bias: above(mlp(read, bias), bias),
    )


def _freeze_mixtral_block(seen: Seen, config: Any, block: Any, weights: Tensor) -> Block:
    """Freeze a mixture of experts, with the router weights that its input gives."""
    first, norm = freeze_norm(seen, block.input_layernorm), block.post_attention_layernorm
    mixture = block.mlp if hasattr(block, "mlp") else block.block_sparse_moe
    read = seen.outputs[norm]
    best, chosen = (read @ mixture.gate.weight.T).softmax(-1).topk(config.num_experts_per_tok)
    shares = torch.zeros(len(read), config.num_local_experts, dtype=read.dtype)
    shares.scatter_(1, chosen, best / best.sum(-1, keepdim=True))
    experts = []
    for index in range(config.num_local_experts):
        if hasattr(mixture.experts, "gate_up_proj"):
            gate, up = mixture.experts.gate_up_proj[index].chunk(2)
            down = mixture.experts.down_proj[index]
        else:
            own = mixture.experts[index]
            gate, up, down = own.w1.weight, own.w3.weight, own.w2.weight
        opened, raised = read @ gate.T, read @ up.T
        experts.append((gate, up, down, opened.sigmoid(), raised, nn.functional.silu(opened)))

    def mlp(inputs: Tensor, bias: float) -> Tensor:
        total = torch.zeros_like(inputs)
        for index, (gate, up, down, ratio, raised, activated) in enumerate(experts):
            product = (ratio * (inputs @ gate.T) * raised + activated * (inputs @ up.T)) / 2
            total += shares[:, index, None] * (product @ down.T)
        return total

    return _chain(first, _plain_attention(block, weights, config), freeze_norm(seen, norm), mlp)


def _freeze_latent_block(seen: Seen, config: Any, block: Any, weights: Tensor) -> Block:
    """Freeze latent attention: a norm on the way to the values."""
    own = block.self_attn
    shrink, norm, widen = (
        linear(own.kv_a_proj_with_mqa),
        freeze_norm(seen, own.kv_a_layernorm),
        linear(own.kv_b_proj),
    )
    output, heads = linear(own.o_proj), config.num_attention_heads

    def attention(read: Tensor, bias: float) -> Tensor:
        latent = norm(shrink(read, bias)[:, : config.kv_lora_rank], bias)
        by_head = widen(latent, bias).view(len(read), heads, -1)
        return output(attend(weights, by_head[:, :, config.qk_nope_head_dim :].flatten(1), heads), bias)

    first, second = (
        freeze_norm(seen, block.input_layernorm),
        freeze_norm(seen, block.post_attention_layernorm),
    )
    return _chain(first, attention, second, freeze_gated_mlp(seen, block.mlp))


def _post_norm_block(seen: Seen, weights: Tensor, block: Any, cross: Tensor | None = None) -> Block:
    """Freeze a block whose norms come after the sums, as in OPT 350M and Marian; `cross`: its own weights."""
    attention, heads = block.self_attn, weights.shape[0]
    attend = freeze_attention(weights, attention.v_proj, attention.out_proj, heads)
    mlp = freeze_mlp(seen, block.fc1, block.activation_fn, block.fc2)
    first, last = freeze_norm(seen, block.self_attn_layer_norm), freeze_norm(seen, block.final_layer_norm)
    if cross is not None:
        reading = block.encoder_attn
        read = freeze_attention(cross, reading.v_proj, reading.out_proj, heads)
        between = freeze_norm(seen, block.encoder_attn_layer_norm)

    def run(stream: Tensor, source: Tensor | None, bias: float) -> Tensor:
        stream = first(stream + attend(stream, bias), bias)
        if cross is not None:
            assert source is not None
            stream = between(stream + read(source, bias), bias)
        return last(stream + mlp(stream, bias), bias)

    return run


def freeze_post_norm(network: Any, ids: Sequence[int], target: int, foil: int) -> FrozenNetwork:
    """Freeze an OPT 350M."""
    seen, body = watch(network, ids), network.model.decoder
    every = zip(body.layers, seen.run.attentions, strict=True)
    blocks = [_post_norm_block(seen, weights[0], block) for block, weights in every]
    rows = network.lm_head.weight
    streams = list_streams(seen, body.layers, seen.inputs[network.lm_head])
    return FrozenNetwork(streams, blocks, lambda stream, bias: stream[-1] @ (rows[target] - rows[foil]))


def freeze_marian(network: Any, source: Sequence[int], given: Sequence[int], target: int) -> FrozenNetwork:
    """Freeze an encoder and its decoder, which was given some tokens."""
    seen, body = watch(network, source, decoder_input_ids=torch.tensor([given])), network.model
    encoded = seen.run.encoder_last_hidden_state[0]
    encoder = FrozenNetwork(
        list_streams(seen, body.encoder.layers, encoded),
        [
            _post_norm_block(seen, weights[0], block)
            for block, weights in zip(body.encoder.layers, seen.run.encoder_attentions, strict=True)
        ],
        lambda stream, bias: stream,
    )
    decoder = zip(body.decoder.layers, seen.run.decoder_attentions, seen.run.cross_attentions, strict=True)
    rows, added = network.lm_head.weight, network.final_logits_bias[0]
    return FrozenNetwork(
        list_streams(seen, body.decoder.layers, seen.inputs[network.lm_head]),
        [_post_norm_block(seen, weights[0], block, cross[0]) for block, weights, cross in decoder],
        lambda stream, bias: stream[-1] @ rows[target] + bias * added[target],
        encoder,
    )


def _like_llama(freeze_block: Callable[..., Block]) -> Callable[..., FrozenNetwork]:
    return lambda *given: _freeze_llama_like(*given, freeze_block)


FREEZERS: dict[str, tuple[Callable[..., FrozenNetwork], dict[str, Any]]] = {
    "gpt2": (freeze_gpt2, {}),
    "gpt-neox-parallel": (freeze_neox, {}),
    "llama": (_like_llama(_freeze_llama_block), {}),
    "mistral": (_like_llama(_freeze_llama_block), {}),
    "gemma2": (_like_llama(_freeze_gemma2_block), {}),
    "mixtral": (_like_llama(_freeze_mixtral_block), {}),
    "deepseek-v3": (_like_llama(_freeze_latent_block), {"first_k_dense_replace": 3}),
    "opt-post-norm": (freeze_post_norm, {}),
}
"""By family, one of every kind of block, with changes of its config."""
