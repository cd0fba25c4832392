"""Run the network as it is: without hooks, without dropout, one run at a time."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..models.model import Model
from .attention import RUNNING

__all__ = ["generate", "generate_translation", "run"]


@torch.no_grad()
def run(
    model: Model,
    prompts: Sequence[Sequence[int]],
    sources: Sequence[Sequence[int]] | None = None,
    options: Mapping[str, Any] = MappingProxyType({}),
) -> Float[Tensor, "example row vocab"]:
    """Run the network as it is, without dropout, and give its logits.

    Prompts are padded on the right, where no token of a causal model sees it: no mask is needed, and no
    padding token either, so that each prompt's last token is repeated. `sources`: what an encoder reads, for
    whose padding there is a mask, since every one of its tokens sees all others. `options`: what else the
    network is asked for.
    """
    inputs = {"input_ids": _pad(model, prompts)}
    if sources is not None:
        inputs = {"input_ids": _pad(model, sources), "decoder_input_ids": inputs["input_ids"]}
        if len({*map(len, sources)}) > 1:
            inputs["attention_mask"] = _mask(model, sources)
    with _evaluating(model):
        output = model.network(**inputs, **options, use_cache=False)
    return cast(Tensor, output.logits)


def _pad(model: Model, prompts: Sequence[Sequence[int]]) -> Int[Tensor, "example token"]:
    longest = max(map(len, prompts))
    padded = [[*ids, *[ids[-1]] * (longest - len(ids))] for ids in prompts]
    return torch.tensor(padded, device=model.device)


def _mask(model: Model, prompts: Sequence[Sequence[int]]) -> Int[Tensor, "example token"]:
    lengths = torch.tensor([len(ids) for ids in prompts], device=model.device)
    return (torch.arange(int(lengths.max()), device=model.device) < lengths[:, None]).long()


@torch.no_grad()
def generate(model: Model, ids: Sequence[int], new_tokens: int) -> list[int]:
    """Let the network go on greedily, whatever its own settings for generation are."""
    prompt = torch.tensor([list(ids)], device=model.device)
    with _evaluating(model):
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


@torch.no_grad()
def generate_translation(
    model: Model, source: Sequence[int], start: Sequence[int], new_tokens: int
) -> list[int]:
    """Let the network translate by its own settings (beams, say) after a few forced tokens, without chance.

    Gives what comes after them.
    """
    prompt = torch.tensor([list(source)], device=model.device)
    with _evaluating(model):
        generated = model.network.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            decoder_input_ids=torch.tensor([list(start)], device=model.device),
            max_new_tokens=new_tokens,
            max_length=None,
            do_sample=False,
            forced_bos_token_id=None,
            return_dict_in_generate=False,
        )
    return [int(id_) for id_ in generated[0, len(start) :]]


@contextmanager
def _evaluating(model: Model) -> Iterator[None]:
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
