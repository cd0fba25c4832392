"""Run the network as it is: without dropout, one run at a time."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..models.model import Model
from .attention import RUNNING
from .readout import Inputs

__all__ = ["evaluating", "generate", "pad", "run", "run_inputs"]


@torch.no_grad()
def run(model: Model, prompts: Sequence[Sequence[int]]) -> Float[Tensor, "example row vocab"]:
    """Run the network on some prompts and give its logits."""
    return run_inputs(model, Inputs(ids=pad(model, prompts)))


def pad(model: Model, prompts: Sequence[Sequence[int]]) -> Int[Tensor, "example position"]:
    """Pad prompts on the right, where no token of a causal model sees it.

    No mask is needed then, and no padding token either, so that each prompt's last token is repeated.
    """
    longest = max(map(len, prompts))
    padded = [[*ids, *[ids[-1]] * (longest - len(ids))] for ids in prompts]
    return torch.tensor(padded, device=model.device)


def run_inputs(model: Model, inputs: Inputs) -> Float[Tensor, "example row vocab"]:
    """Run the network on any inputs and give its logits."""
    with evaluating(model):
        output = model.network(
            input_ids=inputs.ids,
            attention_mask=inputs.mask,
            inputs_embeds=inputs.embedded,
            use_cache=False,
        )
    return cast(Tensor, output.logits)


@torch.no_grad()
def generate(model: Model, ids: Sequence[int], new_tokens: int) -> list[int]:
    """Let the network go on greedily, whatever its own settings for generation are."""
    prompt = torch.tensor([list(ids)], device=model.device)
    with evaluating(model):
        generated = model.network.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=new_tokens,
            do_sample=False,
            num_beams=1,
            repetition_penalty=1.0,
            no_repeat_ngram_size=0,
            return_dict_in_generate=False,
        )
    return [int(id_) for id_ in generated[0, len(ids) :]]


@contextmanager
def evaluating(model: Model) -> Iterator[None]:
    """Switch dropout off, and every module back to what it was afterwards."""
    with RUNNING:
        training = [module for module in model.modules if module.training]
        for module in training:
            module.training = False
        try:
            yield
        finally:
            for module in training:
                module.training = True
