"""gim-explain: its modified gradients of the target less those of the foil."""

import gim
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


def load(folder):
    network = AutoModelForCausalLM.from_pretrained(folder).requires_grad_(False)
    return network, AutoTokenizer.from_pretrained(folder)


def explain(loaded, ids, target, foil):
    network, tokenizer = loaded
    prompt = torch.tensor([ids])
    one, two = (
        gim.explain(network, prompt, target_token_id=word, tokenizer=tokenizer) for word in (target, foil)
    )
    return one - two


METHODS = {"GIM": explain}
