"""Captum: what explains the target's log probability less what explains the foil's."""

import torch
from captum.attr import (
    FeatureAblation,
    LayerGradientXActivation,
    LayerIntegratedGradients,
    LLMAttribution,
    LLMGradientAttribution,
    TextTokenInput,
)
from transformers import AutoModelForCausalLM, AutoTokenizer


def load(folder):
    return AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)


def explain(attribution, tokenizer, ids, target, foil, **options):
    prompt = TextTokenInput(tokenizer.decode(ids), tokenizer)
    one, two = (
        attribution.attribute(prompt, target=torch.tensor([word]), **options).seq_attr
        for word in (target, foil)
    )
    return one - two


def input_x_gradient(loaded, ids, target, foil):
    network, tokenizer = loaded
    by_gradient = LayerGradientXActivation(network, network.get_input_embeddings())
    return explain(LLMGradientAttribution(by_gradient, tokenizer), tokenizer, ids, target, foil)


def integrated_gradients(loaded, ids, target, foil):
    network, tokenizer = loaded
    integrated = LayerIntegratedGradients(network, network.get_input_embeddings())
    attribution = LLMGradientAttribution(integrated, tokenizer)
    return explain(attribution, tokenizer, ids, target, foil, n_steps=50, internal_batch_size=1)


def ablation(loaded, ids, target, foil):
    network, tokenizer = loaded
    attribution = LLMAttribution(FeatureAblation(network), tokenizer)
    return explain(attribution, tokenizer, ids, target, foil)


METHODS = {
    "input × gradient": input_x_gradient,
    "integrated gradients": integrated_gradients,
    "ablation": ablation,
}
SLOW = {"integrated gradients", "ablation"}
