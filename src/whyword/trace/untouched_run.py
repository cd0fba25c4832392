"""Compare a recorded run with a run of the same prompts that nothing touches."""

import inspect
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor

from ..maths.proof import Identity, require_close, tolerance_of
from ..models.adapters import refuse_partial_adapters
from ..models.model import Model
from ..models.run_modes import asking
from ..models.unwrapping import require_plain_wrappers
from .causality import require_causal
from .network_state import is_intervened, look_again, note_foreign, require_same_parts
from .nudged_run import require_fixed_biases
from .own_attention import name_attention
from .precision import keep_precision
from .readout import Inputs, Readout
from .running import call_network, make_inputs, run_inputs
from .trace import Places, Plan, Trace

__all__ = ["VERIFY", "must_run_alone", "notice_changes", "verify_reading", "verify_run"]

VERIFY = ("auto", "always", "load")
"""When recorded runs are compared: the first time that a kind of run is met, every time, or at load only."""
Ids = Sequence[Sequence[int]]
Groups = Sequence[Sequence[int]]
"""Prompts that are run together, by their place."""
_BIASES = "biases"
"""Among the kinds of run that were compared: that what flow counts as biases was."""
_FEW = 12
"""How many tokens tell whether it is: no more, since it takes two runs."""


def notice_changes(model: Model) -> bool:
    """Forget what was compared where the network is not what it was then, and look again if it is causal.

    Says whether there is code of a user's own.
    A changed mask, a hook, a patched module or another config may make it something else. What is looked up
    once when a network is loaded, its type and its blocks, must be the same.
    """
    if model.verify == "load" or is_intervened():
        return model.has_foreign_code
    require_plain_wrappers(model.wrappers)
    lengths = model.lengths
    state = look_again(model, lengths.state)
    if state is not None:
        require_same_parts(model)
        refuse_partial_adapters(model.network, model.modules)
        lengths.read(model.config)
        require_causal(model)
        lengths.state = note_foreign(state)
    return bool(lengths.state.foreign)


def must_run_alone(model: Model) -> bool:
    """Say whether prompts are run one by one, as the network is now; it is looked at, and not run."""
    if model.runs_alone or model.verify == "load" or is_intervened():
        return model.runs_alone
    state = look_again(model, model.lengths.state)
    return state is not None and note_foreign(state).foreign


def verify_run(
    model: Model, trace: Trace, prompts: Ids, sources: Ids | None, record: Callable[..., Trace]
) -> None:
    """Compare a recorded run with an untouched one, where a run of this kind was not compared before.

    `record` records a run, for what is compared of several. Where a user's own hooks act, every run of
    several prompts or positions is compared: what they do may depend on what they read.
    """
    if model.verify == "load" or is_intervened():
        return
    alike = _find_kind(model, prompts, sources), trace.frozen is not None, trace.places.each > 1
    kind, compared = (alike, (len(prompts) - 1).bit_length()), model.lengths.compared
    foreign = (trace.places.each > 1 or len(prompts) > 1) and model.runs_alone
    if model.verify == "auto" and kind in compared and not foreign:
        return
    if model.verify == "always" or foreign:
        groups = _alone(range(len(prompts)))
    elif alike in compared:
        groups = _alone(_choose_some(len(prompts)))
    else:
        groups = _group(prompts, sources)
    rows, expected = _read_untouched(model, trace, prompts, sources, groups)
    require_close(
        Identity.RECORDED_RUN,
        "whole model",
        found=trace.logits[rows],
        expected=expected.to(trace.logits),
        scale=_scale(model, expected),
        tolerance=tolerance_of(model.exactness),
    )
    _verify_prefixes(model, trace, prompts, sources, foreign)
    if trace.frozen is not None and (model.verify == "always" or _BIASES not in compared):
        some, read = prompts[0][:_FEW], None if sources is None else [sources[0][:_FEW]]
        last = Places((range(len(some) - 1, len(some)),))
        require_fixed_biases(model, partial(record, model, [some], last, Plan(frozen=True), read))
        compared.add(_BIASES)
    compared.update((alike, kind))


@torch.no_grad()
def verify_reading(model: Model, places: Places, inputs: Inputs, readout: Readout) -> None:
    """Compare logits that were read of several inputs with runs of some alone, where it was not done before.

    The first, the middle and the last are compared; where a user's own hooks act, all, every time. In half
    precision all others are run together, as they were: alone they would be rounded in another way.
    """
    if model.verify == "load" or is_intervened():
        return
    count, compared = len(places.ranges), model.lengths.compared
    kind = _find_kind_of_reading(model, places, inputs), readout.logits.requires_grad
    foreign = count > 1 and model.runs_alone
    if model.verify == "auto" and kind in compared and not foreign:
        return
    together = model.exactness.itemsize <= 2 and not foreign
    for example in [None] if together else range(count) if foreign else _choose_some(count):
        rows = slice(None) if example is None else slice(example * places.each, (example + 1) * places.each)
        with asking(model.network):
            expected = _read_alone(model, places, inputs, example)
        require_close(
            Identity.RECORDED_RUN,
            "whole model" if example is None else f"input {example + 1} of {count}",
            found=readout.logits[rows].detach(),
            expected=expected.to(readout.logits),
            scale=_scale(model, expected),
            tolerance=_allow(model, foreign),
        )
    compared.add(kind)


def _allow(model: Model, foreign: bool) -> float:
    """Return the error that two runs of other shapes may have: in half precision both are rounded."""
    return (2 if foreign and model.exactness.itemsize <= 2 else 1) * tolerance_of(model.exactness)


def _choose_some(count: int) -> list[int]:
    """Choose the first, the middle and the last of several inputs."""
    return sorted({0, count // 2, count - 1})


def _find_kind_of_reading(model: Model, places: Places, inputs: Inputs) -> Hashable:
    """Say what kind of run logits are read of: how many inputs there are, how long they are, and what."""
    given = [each for each in (inputs.ids, inputs.embedded, inputs.decoder_ids) if each is not None]
    lengths = [(each.shape[1].bit_length(), model.lengths.find(each.shape[1])) for each in given]
    forms = inputs.ids is None, inputs.mask is None, inputs.decoder_ids is None
    return name_attention(model), (len(places.ranges) - 1).bit_length(), *lengths, *forms, places.each > 1


def _read_alone(
    model: Model, places: Places, inputs: Inputs, example: int | None
) -> Float[Tensor, "row vocab"]:
    """Run one input alone, up to the last position that is read, or all as they are; give those logits."""
    if example is None:
        kept = sorted({position for positions in places.ranges for position in positions})
        found = _run_untouched(model, inputs, kept)
        rows = zip(found, places.ranges, strict=True)
        return torch.cat([own[[kept.index(position) for position in read]] for own, read in rows])
    positions = places.ranges[example]
    alone = inputs.pick(example, _cut_length(model, inputs, positions.stop))
    return _run_untouched(model, alone, positions)[0]


def _cut_length(model: Model, inputs: Inputs, stop: int) -> int:
    """Return where an input may be cut off: what follows must not change what a network does."""
    read = next(each for each in (inputs.decoder_ids, inputs.ids, inputs.embedded) if each is not None)
    return stop if model.lengths.find(stop) == model.lengths.find(read.shape[1]) else read.shape[1]


def _verify_prefixes(model: Model, trace: Trace, prompts: Ids, sources: Ids | None, foreign: bool) -> None:
    """Compare positions before the last with runs that end there: what follows must not matter.

    The first, the middle and the last but one are compared, of the first prompt. In half precision a run of
    another length is rounded in another way: there they are compared where a user's own hooks act
    (`foreign`), and both runs may be off.
    """
    positions, whole = trace.places.ranges[0], model.lengths.find(len(prompts[0]))
    alike = [
        each for each in positions if each + 1 < len(prompts[0]) and model.lengths.find(each + 1) == whole
    ]
    half = model.exactness.itemsize <= 2
    if not alike or (half and not foreign):
        return
    for position in {alike[0], alike[len(alike) // 2], alike[-1]}:
        read = None if sources is None else [sources[0]]
        expected = _run(model, [prompts[0][: position + 1]], read, [position])[0]
        row = position - positions.start
        require_close(
            Identity.RECORDED_RUN,
            f"position {position + 1} of {len(prompts[0])}",
            found=trace.logits[row : row + 1],
            expected=expected.to(trace.logits),
            scale=_scale(model, expected),
            tolerance=_allow(model, foreign),
        )


def _find_kind(model: Model, prompts: Ids, sources: Ids | None) -> Hashable:
    """Say what kind of run this is: by the attention function, and by the lengths of what is read."""
    return name_attention(model), *(
        None if ids is None else _find_lengths(model, ids) for ids in (prompts, sources)
    )


def _find_lengths(model: Model, ids: Ids) -> Hashable:
    """Return what lengths have in common, in powers of two and between thresholds."""
    shortest, longest = min(map(len, ids)), max(map(len, ids))
    classes = model.lengths.find(shortest), model.lengths.find(longest)
    return (longest - 1).bit_length(), classes, longest > shortest


def _alone(examples: Iterable[int]) -> Groups:
    """Let each of some prompts be run by itself."""
    return [[example] for example in examples]


def _group(prompts: Ids, sources: Ids | None) -> Groups:
    """Let all prompts be run: some alone, the others with those of the same length, which need no padding."""
    some, alike = _choose_some(len(prompts)), dict[Hashable, list[int]]()
    for example in sorted({*range(len(prompts))}.difference(some)):
        lengths = len(prompts[example]), None if sources is None else len(sources[example])
        alike.setdefault(lengths, []).append(example)
    return [*_alone(some), *alike.values()]


def _read_untouched(
    model: Model, trace: Trace, prompts: Ids, sources: Ids | None, groups: Groups
) -> tuple[list[int], Float[Tensor, "row vocab"]]:
    """Run groups of prompts, without padding; give rows of the trace, and the logits there.

    In half precision all are run together, as they were recorded: matrices of another shape are rounded in
    another way. Rows that are padding are left out.
    """
    each, rows, logits = trace.places.each, list[int](), list[Tensor]()
    for examples in [range(len(prompts))] if model.exactness.itemsize <= 2 else groups:
        own = [prompts[example] for example in examples]
        read = None if sources is None else [sources[example] for example in examples]
        places = [
            [position for position in trace.places.ranges[example] if position < len(prompts[example])]
            for example in examples
        ]
        kept = sorted({position for positions in places for position in positions})
        found = _run(model, own, read, kept)
        for row, (example, positions) in enumerate(zip(examples, places, strict=True)):
            first = trace.places.ranges[example].start
            rows += [example * each + position - first for position in positions]
            logits.append(found[row, [kept.index(position) for position in positions]])
    return rows, torch.cat(logits)


def _run(
    model: Model, prompts: Ids, sources: Ids | None, positions: Sequence[int]
) -> Float[Tensor, "example position vocab"]:
    """Run the network as it is, and give the logits at some positions."""
    return _run_untouched(model, make_inputs(model, prompts, sources), positions)


def _run_untouched(
    model: Model, inputs: Inputs, positions: Sequence[int]
) -> Float[Tensor, "example position vocab"]:
    index = torch.tensor(positions, device=model.device)
    with keep_precision(model.dtype):
        if model.has_foreign_code:  # it may look at the logits of all positions, or at the cache
            logits = call_network(model, inputs).logits[:, index]
        elif "logits_to_keep" in inspect.signature(model.network.forward).parameters:  # a vocabulary is wide
            logits = run_inputs(model, inputs, logits_to_keep=index)
        else:
            logits = run_inputs(model, inputs)[:, index]
    return cast(Tensor, logits).to(model.compute_dtype)


def _scale(model: Model, logits: Float[Tensor, "position vocab"]) -> Tensor:
    """Return what errors of logits are relative to: the largest of the unembedding, or the logit itself.

    Some models add −10,000 to the logit of padding, beside which no error of another would show.
    """
    if model.logit_bias is None:
        return logits.abs().amax()
    return torch.maximum((logits - model.logit_bias.to(logits)).abs().amax(), logits.abs())
