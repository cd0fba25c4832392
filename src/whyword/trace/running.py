"""Run the network as it is: without dropout, one run at a time."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..models.model import Model
from ..models.unwrapping import running_eagerly
from ..runs.progress import report
from .own_attention import RUNNING
from .readout import Inputs

__all__ = ["evaluating", "generate", "generate_translation", "make_inputs", "pad", "run", "run_inputs"]

_KEPT = ("bos_token_id", "eos_token_id", "pad_token_id", "cache_implementation", "cache_config", "use_cache")
"""Settings for generation that are the model's own in a greedy run too."""


@torch.no_grad()
def run(
    model: Model, prompts: Sequence[Sequence[int]], sources: Sequence[Sequence[int]] | None = None
) -> Float[Tensor, "example row vocab"]:
    """Run the network on some prompts and give its logits; `sources`: what an encoder reads."""
    return run_inputs(model, make_inputs(model, prompts, sources))


def make_inputs(
    model: Model,
    prompts: Sequence[Sequence[int]],
    sources: Sequence[Sequence[int]] | None = None,
    returns_weights: bool = False,
) -> Inputs:
    """Return a network's inputs. Padded sources get a mask: every token of an encoder sees all others."""
    if sources is None:
        return Inputs(ids=pad(model, prompts))
    mask = _mask(model, sources) if len({*map(len, sources)}) > 1 else None
    return Inputs(
        ids=pad(model, sources), mask=mask, decoder_ids=pad(model, prompts), returns_weights=returns_weights
    )


def pad(model: Model, prompts: Sequence[Sequence[int]]) -> Int[Tensor, "example position"]:
    """Pad prompts on the right, where no token of a causal model sees it.

    No mask is needed then, and no padding token either, so that each prompt's last token is repeated.
    """
    longest = max(map(len, prompts))
    padded = [[*ids, *[ids[-1]] * (longest - len(ids))] for ids in prompts]
    return torch.tensor(padded, device=model.device)


def _mask(model: Model, prompts: Sequence[Sequence[int]]) -> Int[Tensor, "example position"]:
    lengths = torch.tensor([len(ids) for ids in prompts], device=model.device)
    return (torch.arange(int(lengths.max()), device=model.device) < lengths[:, None]).long()


def run_inputs(
    model: Model, inputs: Inputs, logits_to_keep: Int[Tensor, " kept"] | None = None
) -> Float[Tensor, "example row vocab"]:
    """Run the network on any inputs and give its logits: all, or those of some positions."""
    more: dict[str, Any] = {} if inputs.decoder_ids is None else {"decoder_input_ids": inputs.decoder_ids}
    if logits_to_keep is not None:
        more["logits_to_keep"] = logits_to_keep
    if inputs.returns_weights:
        more["output_attentions"] = True
    with evaluating(model):
        output = model.network(
            input_ids=inputs.ids,
            attention_mask=inputs.mask,
            inputs_embeds=inputs.embedded,
            use_cache=False,
            **more,
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
            stopping_criteria=_report_tokens(len(ids), new_tokens),
            **_greedy_settings(model, new_tokens),
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
    with evaluating(model):
        generated = model.network.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            decoder_input_ids=torch.tensor([list(start)], device=model.device),
            max_new_tokens=new_tokens,
            max_length=None,
            do_sample=False,
            forced_bos_token_id=None,
            return_dict_in_generate=False,
            stopping_criteria=_report_tokens(len(start), new_tokens),
        )
    return [int(id_) for id_ in generated[0, len(start) :]]


def _greedy_settings(model: Model, new_tokens: int) -> dict[str, Any]:
    """Undo every setting that the model has of its own: suppressed tokens, biases, lengths, penalties."""
    from transformers import GenerationConfig

    own, plain = model.network.generation_config, vars(GenerationConfig())
    changed = [] if own is None else [name for name in own.to_diff_dict() if name in plain]
    undone = {name: plain[name] for name in changed if name not in (*_KEPT, "transformers_version")}
    greedy = {"do_sample": False, "num_beams": 1, "repetition_penalty": 1.0, "no_repeat_ngram_size": 0}
    return (
        undone
        | greedy
        | {
            "max_new_tokens": new_tokens,
            "max_length": None,  # counted from the start of the prompt
            "return_dict_in_generate": False,
        }
    )


def _report_tokens(before: int, new_tokens: int) -> Any:
    """Tell of every token that is generated, at the place where transformers asks whether to stop: never."""
    from transformers import StoppingCriteria, StoppingCriteriaList

    class Reporting(StoppingCriteria):  # type: ignore[misc]
        def __call__(self, input_ids: Tensor, scores: Any, **kwargs: Any) -> Tensor:
            report("tokens", input_ids.shape[1] - before, new_tokens)
            return torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)

    return StoppingCriteriaList([Reporting()])


@contextmanager
def evaluating(model: Model) -> Iterator[None]:
    """Switch dropout and compiling off, and every module back to what it was afterwards."""
    with RUNNING, running_eagerly(model.modules):
        training = [module for module in model.modules if module.training]
        for module in training:
            module.training = False
        try:
            yield
        finally:
            for module in training:
                module.training = True
