"""Run the network as it is: without dropout, one run at a time."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..errors import ModelError, first_line
from ..models.model import Model
from ..models.run_modes import running_eagerly, without_training
from ..runs.batches import is_out_of_memory
from ..runs.progress import report
from .intercepted_operation import cannot_follow
from .own_attention import RUNNING
from .precision import keep_precision
from .readout import Inputs

__all__ = [
    "call_network",
    "evaluating",
    "explaining_failure",
    "generate",
    "generate_translation",
    "in_two_lines",
    "make_inputs",
    "pad",
    "run",
    "run_inputs",
]

_KEPT = ("bos_token_id", "eos_token_id", "pad_token_id", "use_cache")
"""Settings for generation that are the model's own in a greedy run too."""
_FAILURES = (RuntimeError, ValueError, TypeError, AttributeError, LookupError, AssertionError, ImportError)
"""What a network raises that cannot be run."""


@torch.no_grad()
def run(
    model: Model, prompts: Sequence[Sequence[int]], sources: Sequence[Sequence[int]] | None = None
) -> Float[Tensor, "example row vocab"]:
    """Run the network on some prompts and give its logits; `sources`: what an encoder reads."""
    with in_two_lines(model):
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
    more = {} if logits_to_keep is None else {"logits_to_keep": logits_to_keep}
    return cast(Tensor, call_network(model, inputs, use_cache=False, **more).logits)


def call_network(model: Model, inputs: Inputs, **more: Any) -> Any:
    """Call the network on any inputs, with more arguments, and give what it returns."""
    if inputs.decoder_ids is not None:
        more["decoder_input_ids"] = inputs.decoder_ids
    if inputs.returns_weights:
        more["output_attentions"] = True
    # A copy, since some models (CTRL) scale embeddings in place.
    embedded = None if inputs.embedded is None else inputs.embedded.clone()
    with evaluating(model):
        return model.network(input_ids=inputs.ids, attention_mask=inputs.mask, inputs_embeds=embedded, **more)


@torch.no_grad()
def generate(model: Model, ids: Sequence[int], new_tokens: int) -> tuple[list[int], list[float]]:
    """Let the network go on greedily, whatever its own settings for generation are.

    Gives the tokens, and the logit of each as the network gave it then, with its cache.
    """
    from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList

    largest: list[Tensor] = []

    class Keeping(LogitsProcessor):  # type: ignore[misc]
        def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
            largest.append(scores[0].amax())
            return scores

    own = model.network.generation_config
    kept = {name: getattr(own, name, None) for name in _KEPT}
    settings = GenerationConfig(**{name: value for name, value in kept.items() if value is not None})
    prompt = torch.tensor([list(ids)], device=model.device)
    kept_logits = LogitsProcessorList([Keeping()])
    generated = _generate(model, settings, prompt, len(ids), new_tokens, logits_processor=kept_logits)
    return generated, [float(logit) for logit in largest]


@torch.no_grad()
def generate_translation(
    model: Model, source: Sequence[int], start: Sequence[int], new_tokens: int
) -> list[int]:
    """Let the network translate by its own settings (beams, say) after a few forced tokens, without chance.

    Gives what comes after them.
    """
    from transformers import GenerationConfig

    settings = copy(model.network.generation_config) or GenerationConfig()
    settings.forced_bos_token_id = None
    prompt = torch.tensor([list(source)], device=model.device)
    first = torch.tensor([list(start)], device=model.device)
    return _generate(model, settings, prompt, len(start), new_tokens, decoder_input_ids=first)


def _generate(
    model: Model, settings: Any, prompt: Int[Tensor, "1 read"], given: int, new_tokens: int, **more: Any
) -> list[int]:
    """Generate one sequence, without chance; give what comes after the tokens that were given.

    transformers fills in what is missing in the settings from those of the network. It is given a shallow
    copy of the network, with the same modules and weights, that has no others: the network stays as it is.
    """
    settings.do_sample, settings.num_return_sequences = False, 1
    settings.return_dict_in_generate = False
    settings.max_new_tokens, settings.max_length = new_tokens, None  # a length counts the prompt too
    with in_two_lines(model), evaluating(model), keep_precision(model.dtype):
        network = copy(model.network)
        network.generation_config = settings
        generated = network.generate(
            prompt,
            generation_config=settings,
            attention_mask=torch.ones_like(prompt),
            stopping_criteria=_report_tokens(given, new_tokens),
            **more,
        )
    return [int(id_) for id_ in generated[0, given:]]


def _report_tokens(before: int, new_tokens: int) -> Any:
    """Tell of every token that is generated, at the place where transformers asks whether to stop: never."""
    from transformers import StoppingCriteria, StoppingCriteriaList

    class Reporting(StoppingCriteria):  # type: ignore[misc]
        def __call__(self, input_ids: Tensor, scores: Any, **kwargs: Any) -> Tensor:
            report("tokens", input_ids.shape[1] - before, new_tokens)
            return torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)

    return StoppingCriteriaList([Reporting()])


@contextmanager
def explaining_failure(
    model: Model, prompts: Sequence[Sequence[int]], sources: Sequence[Sequence[int]] | None, frozen: bool
) -> Iterator[None]:
    """Refuse a network that cannot be recorded, in two lines: one that fails untouched, too, or only then.

    `frozen`: it is noted for flow, which not every network is written for.
    """
    try:
        yield
    except _FAILURES as error:
        if is_out_of_memory(error):
            raise
        run(model, prompts, sources)
        if frozen:
            raise cannot_follow(model.name, error) from error
        raise ModelError(
            f"{model.name} does not work as its description ({model.architecture.name}) says: "
            f"{type(error).__name__}: {first_line(error)}",
            "Undo what was changed in it, or pass your own description with whyword.load(..., "
            "architecture=...).",
        ) from error


@contextmanager
def in_two_lines(model: Model) -> Iterator[None]:
    """Raise whatever a network raises in two lines."""
    try:
        yield
    except _FAILURES as error:
        if is_out_of_memory(error):
            raise
        raise ModelError(
            f"{model.name} cannot be run: {type(error).__name__}: {first_line(error)}.",
            "Check that transformers itself runs it, with weights of one type on one device.",
        ) from error


@contextmanager
def evaluating(model: Model) -> Iterator[None]:
    """Switch dropout and compiling off, and every module back to what it was afterwards."""
    _refuse_autocast(model)
    modules = model.modules
    with RUNNING, running_eagerly(modules), without_training(modules):
        yield


def _refuse_autocast(model: Model) -> None:
    """Refuse to run where torch computes in another type than the model's: sums would be rounded to it."""
    device = model.device.type
    if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
        raise ModelError(
            f"torch.autocast is on: {model.name} ({model.dtype}) would be run in "
            f"{torch.get_autocast_dtype(device)}, and explained in it.",
            "Call whyword outside it, or load a model of that type: "
            "whyword.load(network.to(torch.bfloat16)).",
        )
