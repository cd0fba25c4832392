"""LXT: AttnLRP as modified gradients, by its default rules."""

import sys
from unittest.mock import MagicMock

import torch
from transformers import AutoConfig
from transformers.models.gpt2 import modeling_gpt2
from transformers.models.llama import modeling_llama

# LXT imports torchvision for vision transformers; there is no build of it here that fits torch for CPUs.
sys.modules |= {f"torchvision{name}": MagicMock() for name in ("", ".models", ".models.vision_transformer")}

from lxt.efficient import monkey_patch  # noqa: E402


def load(folder):
    kind = AutoConfig.from_pretrained(folder).model_type
    module = {"gpt2": modeling_gpt2, "llama": modeling_llama}[kind]
    monkey_patch(module)
    network = {"gpt2": "GPT2LMHeadModel", "llama": "LlamaForCausalLM"}[kind]
    return getattr(module, network).from_pretrained(folder).eval().requires_grad_(False)


def relevance(network, ids, target, foil):
    embeddings = network.get_input_embeddings()(torch.tensor([ids])).requires_grad_()
    logits = network(inputs_embeds=embeddings, use_cache=False).logits[0, -1]
    (logits[target] - logits[foil]).backward()
    return (embeddings * embeddings.grad).sum(-1)[0]


METHODS = {"AttnLRP": relevance}
