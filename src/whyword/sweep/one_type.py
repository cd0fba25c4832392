"""Check one model type: every public function on small networks, against untouched runs."""

import inspect
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ..errors import WhywordError, first_line
from ..inside.neurons import neurons
from ..models.model import Model
from ..models.testing.random_configs import build_type
from ..pipeline.loading import load
from ..pipeline.many_prompts import explain_batch
from ..pipeline.one_continuation import explain_continuation
from ..pipeline.one_prompt import compare, explain
from ..trace.precision import keep_precision
from .plain_heads import recompute_heads, run_plainly

__all__ = ["FUNCTIONS", "OUTCOMES", "Outcome", "check_type"]

OUTCOMES = ("explained", "refused", "wrong", "traceback")
TARGET, FOIL, TOLERANCE = 5, 9, 1e-4
MOST_TOKENS, MOST_LENGTHS = 40, 6
_DRAWS = 4
"""How many configs are drawn before a seed is given up: not all switches go together."""


class WrongError(Exception):
    """A number that was shown and is not the model's own."""


@dataclass(frozen=True)
class Outcome:
    """What became of a model type."""

    model_type: str
    outcome: str
    """One of OUTCOMES."""
    description: str | None = None
    """The name of the description that applies."""
    reason: str | None = None
    """Why it was refused, what is wrong, or what was raised."""
    refused: dict[str, str] = field(default_factory=dict)
    """Functions that refuse it although others explain it, each with the reason."""
    networks: int = 0
    """How many networks of this type were explained."""
    declined: int = 0
    """How many of other configs were refused."""
    lengths: tuple[int, ...] = ()
    """The lengths of the prompts, on both sides of every threshold."""
    largest: float = 0.0
    """The largest error of a sum, relative to the largest logit."""


def check_type(model_type: str, seeds: int) -> Outcome:
    """Check the small networks of a model type, and give the worst that was found."""
    checked = [_check_seed(model_type, seed) for seed in range(seeds)]
    found = [each for each in checked if each is not None]
    worst = max(found, key=lambda each: (_weigh(each), each is found[0]))
    explained = [each for each in found if each.outcome == "explained"]
    if worst.outcome != "explained":
        return worst
    return Outcome(
        model_type,
        "explained",
        description=worst.description,
        refused={name: why for each in explained for name, why in each.refused.items()},
        networks=len(explained),
        declined=sum(each.outcome == "refused" for each in found),
        lengths=tuple(sorted({length for each in explained for length in each.lengths})),
        largest=max(each.largest for each in explained),
    )


def _weigh(outcome: Outcome) -> int:
    """Order outcomes: a refusal of some config counts less than that another was explained."""
    return ("refused", "explained", "traceback", "wrong").index(outcome.outcome)


def _check_seed(model_type: str, seed: int) -> Outcome | None:
    """Check the network of a seed; None where nothing that is drawn can be built and run."""
    try:
        network = _build(model_type, seed)
    except Exception as error:
        wrong = f"no small network can be made: {type(error).__name__}: {first_line(error)}"
        return Outcome(model_type, "refused", reason=wrong) if seed == 0 else None
    try:
        model = load(network)
        return _check_model(model_type, model)
    except WhywordError as error:
        return Outcome(model_type, "refused", reason=error.wrong)
    except WrongError as error:
        return Outcome(model_type, "wrong", reason=f"seed {seed}: {error}")
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{place.filename.rpartition('/')[2]}, line {place.lineno}"
        reason = f"seed {seed}: {type(error).__name__}: {first_line(error)} ({where})"
        return Outcome(model_type, "traceback", reason=reason)


def _build(model_type: str, seed: int) -> Any:
    """Build a network; what is drawn is drawn again where it cannot be built or run."""
    if seed == 0:
        return build_type(model_type)
    for draw in range(_DRAWS):
        try:
            network = build_type(model_type, seed + 1000 * draw)
            run_plainly(network, [TARGET, FOIL, 7])
        except Exception:
            continue
        return network
    raise ValueError(f"none of {_DRAWS} configs can be built")


def _check_model(model_type: str, model: Model) -> Outcome:
    """Run every function on a loaded model."""
    lengths, refused, errors = _choose_lengths(model), dict[str, str](), [0.0]
    prompts = [[3 + (7 * length + 11 * place) % 90 for place in range(length)] for length in lengths]
    for name, check in FUNCTIONS.items():
        try:
            errors += check(model, prompts)
        except WhywordError as error:
            refused[name] = error.wrong
        except WrongError as error:
            raise WrongError(f"{name}: {error}") from None
    if len(refused) == len(FUNCTIONS):
        return Outcome(model_type, "refused", reason=next(iter(refused.values())))
    return Outcome(
        model_type,
        "explained",
        description=model.architecture.name,
        refused=refused,
        networks=1,
        lengths=tuple(lengths),
        largest=max(errors),
    )


def _choose_lengths(model: Model) -> list[int]:
    """Choose lengths on both sides of every threshold that small prompts reach."""
    most = min(MOST_TOKENS, model.most_tokens or MOST_TOKENS)
    near = {each + step for each in model.lengths.thresholds for step in (0, 1)} | {2, 12, most}
    fitting = sorted(length for length in near if 2 <= length <= most)
    step = max(1.0, (len(fitting) - 1) / (MOST_LENGTHS - 1))
    return sorted({fitting[min(round(step * each), len(fitting) - 1)] for each in range(MOST_LENGTHS)})


def _own(model: Model, prompt: Sequence[int]) -> Tensor:
    """Give the logits of an untouched run at the last position, before they are capped."""
    logits = run_plainly(model.network, prompt)[-1].double()
    cap = model.logit_cap
    return logits if cap is None else cap * torch.atanh((logits / cap).clamp(-1 + 1e-15, 1 - 1e-15))


def _compare(what: str, found: float, own: float, size: float) -> float:
    """Compare a number with the model's own; give the error."""
    error = abs(found - own) / max(size, 1e-6)
    if not error <= TOLERANCE:
        raise WrongError(f"{what} is {found:.6g}, the model's own number is {own:.6g}")
    return error


def _compare_total(model: Model, prompt: Sequence[int], explanation: Any, foil: int | None = FOIL) -> float:
    """Compare the sum of a ledger with an untouched run."""
    logits, ledger = _own(model, prompt), explanation.ledger
    own = logits[explanation.target.id] - (0 if foil is None else logits[foil])
    what, size = f"the ledger at {len(prompt)} tokens", float(logits.abs().max())
    if model.logit_cap is not None:  # beyond its cap a logit cannot be told from it
        size = max(size, 1e3 * abs(float(own)))
    _compare(what, ledger.total, ledger.logit, size)
    return _compare(what, ledger.total, float(own), size)


def _check_method(method: str) -> Callable[[Model, list[list[int]]], Iterator[float]]:
    def check(model: Model, prompts: list[list[int]]) -> Iterator[float]:
        for prompt in prompts:
            found = explain(model, prompt, target=TARGET, foil=FOIL, method=method)
            yield _compare_total(model, prompt, found)
            if method == "logit":
                yield from _check_heads(model, prompt, found)
            if method == "flow":
                total, size = found.ledger.logit, float(_own(model, prompt).abs().max())
                rows = found.flow.double().sum(-1) + found.bias.double()
                yield from (_compare("flow + bias", float(row), total, size) for row in rows)

    return check


def _check_heads(model: Model, prompt: list[int], found: Any) -> Iterator[float]:
    """Compare heads with what plain hooks, eager weights and the cache give."""
    own = recompute_heads(model, prompt, TARGET, FOIL)
    by_head = found.by_head.double()
    size = float(own.by_head.abs().max())
    for block, heads in enumerate(own.by_head):
        for head, number in enumerate(heads):
            what = f"head {block + 1}.{head + 1} at {len(prompt)} tokens"
            yield _compare(what, float(by_head[block, head].sum()), float(number), size)
        sources = own.by_source[block]
        if sources is not None:
            worst = int((by_head[block] - sources).abs().argmax())
            one, other = (float(each.flatten()[worst]) for each in (by_head[block], sources))
            yield _compare(f"a source of block {block + 1} at {len(prompt)} tokens", one, other, size)


def _check_batch(model: Model, prompts: list[list[int]]) -> Iterator[float]:
    found = explain_batch(model, prompts, targets=TARGET, foils=FOIL, method="logit")
    for prompt, together in zip(prompts, found, strict=True):
        yield _compare_total(model, prompt, together)
        alone = explain(model, prompt, target=TARGET, foil=FOIL, method="logit")
        worst = int((together.by_head - alone.by_head).abs().argmax())
        one, other = (float(each.by_head.flatten()[worst]) for each in (together, alone))
        yield _compare("a head of a batch", one, other, float(alone.by_head.abs().max()))


def _check_continuation(model: Model, prompts: list[list[int]]) -> Iterator[float]:
    longest = prompts[-1]
    start = max(1, len(longest) - 12)
    found = explain_continuation(model, longest[:start], longest[start:], foil=None, method="logit")
    for place, explanation in enumerate(found):
        yield _compare_total(model, longest[: start + place], explanation, foil=None)


def _check_neurons(model: Model, prompts: list[list[int]]) -> Iterator[float]:
    for prompt in prompts[-2:]:
        found = neurons(model, prompt, target=TARGET, foil=FOIL, top=1)
        yield _compare_total(model, prompt, found)


def _check_baselines(model: Model, prompts: list[list[int]]) -> Iterator[float]:
    """Compare gradients with torch's own, and erasure with runs that are masked by hand."""
    prompt = prompts[len(prompts) // 2]
    found = compare(model, prompt, target=TARGET, foil=FOIL, methods=["erasure-logits", "gradient-x-input"])
    network, ids = model.network, torch.tensor([prompt], device="cpu")
    _compare_total(model, prompt, found["erasure-logits"])
    embedded = network.get_input_embeddings()(ids).detach().requires_grad_()
    with keep_precision(network.dtype):
        logits = network(inputs_embeds=embedded.clone(), use_cache=False).logits[0, -1]
    if model.logit_cap is None:
        (gradient,) = torch.autograd.grad(logits[TARGET] - logits[FOIL], embedded)
        own = (gradient * embedded).sum(-1)[0].detach()
        scores = found["gradient-x-input"].scores.double()
        for one, other in zip(scores.tolist(), own.tolist(), strict=True):
            yield _compare("gradient × input", one, other, float(own.abs().max()))
    if model.logit_cap is None and "attention_mask" in inspect.signature(network.forward).parameters:
        mask = torch.ones_like(ids)
        mask[0, 0] = 0
        with torch.no_grad(), keep_precision(network.dtype):
            hidden = network(input_ids=ids, attention_mask=mask, use_cache=False).logits[0, -1]
        logits = run_plainly(network, prompt)[-1]
        lost = float((logits[TARGET] - logits[FOIL]) - (hidden[TARGET] - hidden[FOIL]))
        score = float(found["erasure-logits"].scores[0])
        yield _compare("erasure of the first token", score, lost, float(logits.detach().abs().max()))


FUNCTIONS: dict[str, Callable[[Model, list[list[int]]], Iterator[float]]] = {
    "logit": _check_method("logit"),
    "alti-logit": _check_method("alti-logit"),
    "flow": _check_method("flow"),
    "batch": _check_batch,
    "continuation": _check_continuation,
    "neurons": _check_neurons,
    "baselines": _check_baselines,
}
"""The public functions that are checked."""
