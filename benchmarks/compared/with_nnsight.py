"""nnsight: direct logit attribution by hand, of every head by the position that it reads."""

import torch
from nnsight import LanguageModel


def load(folder):
    return LanguageModel(folder, attn_implementation="eager", dispatch=True, dtype=torch.float32)


@torch.no_grad()
def direct_logit_attribution(model, ids, target, foil):
    gpt2 = model.config.model_type == "gpt2"
    body = model.transformer if gpt2 else model.model
    blocks, norm = (body.h, body.ln_f) if gpt2 else (body.layers, body.norm)
    weights, values, mlps = [], [], []
    with model.trace(torch.tensor([ids])):
        embedded = blocks[0].input[0, -1].save()
        for block in blocks:
            attention = block.attn if gpt2 else block.self_attn
            projected = attention.c_attn.output.split(768, -1)[2] if gpt2 else attention.v_proj.output
            values.append(projected[0].save())
            weights.append(attention.output[1][0, :, -1].save())
            mlps.append(block.mlp.output[0, -1].save())
        last = norm.input[0, -1].save()
    unembedding = model.lm_head.weight[target] - model.lm_head.weight[foil]
    if gpt2:
        direction = (unembedding * norm.weight) / (last.var(unbiased=False) + norm.eps).sqrt()
        direction = direction - direction.mean()
        biases = norm.bias @ unembedding
    else:
        direction = unembedding * norm.weight / (last.pow(2).mean() + norm.variance_epsilon).sqrt()
        biases = 0.0
    scores, rest = torch.zeros(len(ids)), embedded @ direction + biases
    for block, weight, value, mlp in zip(blocks, weights, values, mlps, strict=True):
        attention = block.attn if gpt2 else block.self_attn
        output = attention.c_proj.weight.T if gpt2 else attention.o_proj.weight
        if gpt2:
            rest = rest + attention.c_proj.bias @ direction
        heads = weight.shape[0]
        pulled = (direction @ output).view(heads, -1)
        split = value.view(len(ids), -1, pulled.shape[1])
        split = split.repeat_interleave(heads // split.shape[1], dim=1)
        scores += torch.einsum("hs,shd,hd->s", weight, split, pulled)
        rest = rest + mlp @ direction
    return scores, rest


METHODS = {"direct logit attribution": direct_logit_attribution}
