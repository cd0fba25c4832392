"""Agreement with interventions: what the logit difference loses when one token is another word.

    change[s] = difference − difference with another word at s        mean over some words

Words are drawn from the vocabulary: tokens that are a space and letters. At a depth only the residual stream
is swapped, at one position: there it is that of the run with the other word, everywhere else that of the run
without it. Where the changes go with the scores of a method, the method predicts interventions.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import islice
from zlib import crc32

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..ask.prompt import token_text
from ..errors import InputError
from ..ledger import Target, read_logits
from ..maths.proof import Identity, require_close, tolerance_of
from ..models.model import Model
from ..runs.batches import cut_batches
from ..runs.progress import report
from ..tokens import Tokens
from ..trace import Inputs, Places, Readout, pad, read_out
from ..trace.hooks import capture_calls, replace_inputs
from .conventions import Prepared
from .records import Record

__all__ = ["Swaps", "measure_swaps", "name_place", "require_swaps"]

_TOKENS = 1024
"""Tokens of a run: beyond so many a processor is no faster."""
_MOST_DRAWS = 10_000


@dataclass(frozen=True)
class Swaps:
    """What is swapped."""

    count: int
    """How many other words each token is swapped for."""
    depths: tuple[int | None, ...] = (None,)
    """Where: None is the token itself, a number the residual stream at that depth."""
    seed: int = 0


def name_place(depth: int | None) -> str:
    """Name the place of a swap, as records and tables do."""
    return "input" if depth is None else f"depth {depth}"


def require_swaps(model: Model, swaps: Swaps) -> None:
    """Refuse swaps that cannot be made."""
    if swaps.count < 1:
        raise InputError(f"swaps is {swaps.count}.", "Swap each token for at least 1 other word.")
    for depth in swaps.depths:
        if depth is not None and not 0 <= depth < len(model.blocks):
            raise InputError(
                f"The depth of swaps is {depth}.",
                f"Give 0 (before block 1) to {len(model.blocks) - 1} (before the last, of {model.name}).",
            )


@dataclass(frozen=True)
class _Round:
    """A context, and the same with each of its ranked tokens swapped."""

    example: int
    ids: list[list[int]]
    """The context itself first."""
    positions: list[int]
    """Which token is swapped, in all but the first."""
    difference: float
    """What the context itself was found to give."""


def measure_swaps(
    model: Model, prepared: Sequence[Prepared], records: Sequence[Record], swaps: Swaps
) -> list[dict[str, tuple[float, ...]]]:
    """Measure the change of the difference for every ranked token of every example, by place."""
    rounds = [
        made
        for example, (each, record) in enumerate(zip(prepared, records, strict=True))
        for made in _draw_rounds(model, example, each.context, record, swaps)
    ]
    found: list[dict[str, tuple[float, ...]]] = [{} for _ in prepared]
    run = _run_alone if model.runs_alone else _run
    for depth in swaps.depths:
        changes: list[list[Tensor]] = [[] for _ in prepared]
        done = 0
        for batch in cut_batches(rounds, lambda each: len(each.ids[0]), _fits(model)):
            for own, change in zip(batch, run(model, batch, prepared, depth), strict=True):
                changes[own.example].append(change)
            done += len(batch)
            report("swapped inputs", done, len(rounds))
        for own_found, own_changes in zip(found, changes, strict=True):
            own_found[name_place(depth)] = tuple(torch.stack(own_changes).mean(0).tolist())
    return found


def _draw_rounds(model: Model, example: int, context: Tokens, record: Record, swaps: Swaps) -> list[_Round]:
    """Draw other words for all ranked tokens; the same ones for the same row and seed."""
    generator = np.random.default_rng([swaps.seed, crc32(record.dataset.encode()), record.row])
    positions = [index for index in range(record.tokens) if index not in record.left_out]
    rounds = []
    for _ in range(swaps.count):
        swapped = []
        for position in positions:
            ids = list(context.ids)
            ids[position] = _draw_word(model, context, ids[position], generator)
            swapped.append(ids)
        rounds.append(_Round(example, [list(context.ids), *swapped], positions, record.difference))
    return rounds


def _draw_word(model: Model, context: Tokens, not_this: int, generator: np.random.Generator) -> int:
    """Draw a token that is another whole word."""
    for _ in range(_MOST_DRAWS):
        id_ = int(generator.integers(model.vocabulary))
        if id_ != not_this and id_ not in model.special_ids and _is_word(token_text(model, id_, context)):
            return id_
    raise InputError(
        f"{model.name} has no tokens that are whole words to swap others for.",
        "Leave swaps out: they need a vocabulary of words.",
    )


def _is_word(text: str) -> bool:
    return len(text) > 2 and text[0] == " " and text[1:].isalpha()


def _fits(model: Model) -> Callable[[Sequence[_Round]], bool]:
    def fits(batch: Sequence[_Round]) -> bool:
        shortest, longest = len(batch[0].ids[0]), len(batch[-1].ids[0])
        rows = sum(len(each.ids) for each in batch)
        return rows * longest <= _TOKENS and model.lengths.find(shortest) == model.lengths.find(longest)

    return fits


@torch.no_grad()
def _run_alone(
    model: Model, batch: Sequence[_Round], prepared: Sequence[Prepared], depth: int | None
) -> list[Float[Tensor, " ranked"]]:
    """Run every context and every swap by itself: code of a user's own may look at other rows, or at ids."""
    changes = []
    for each in batch:
        target = Target(prepared[each.example].target, (prepared[each.example].foil,))
        own, *others = each.ids
        readout = _read_last(model, own)
        whole = _subtract(readout, target)
        _require_same(model, whole, each.difference, readout.uncapped)
        swapped = []
        for ids, position in zip(others, each.positions, strict=True):
            if depth is None:
                swapped.append(_subtract(_read_last(model, ids), target))
                continue
            with capture_calls(model.blocks[depth]) as calls:
                _read_last(model, ids)
            args, named = calls[-1]
            stream = args[0] if args else named["hidden_states"]
            with replace_inputs(model.blocks[depth], partial(_put, stream[:, position], position)):
                swapped.append(_subtract(_read_last(model, own), target))
        changes.append(whole - torch.stack(swapped))
    return changes


def _read_last(model: Model, ids: list[int]) -> Readout:
    return read_out(model, Places((range(len(ids) - 1, len(ids)),)), Inputs(ids=pad(model, [ids])))


def _subtract(readout: Readout, target: Target) -> Float[Tensor, ""]:
    return read_logits(readout.uncapped, [target]).double().cpu()[0]


def _put(
    other: Float[Tensor, "1 model"], position: int, stream: Float[Tensor, "1 position model"]
) -> Float[Tensor, "1 position model"]:
    """Return a stream with another one at one position."""
    kept = stream.clone()
    kept[:, position] = other
    return kept


@torch.no_grad()
def _run(
    model: Model, batch: Sequence[_Round], prepared: Sequence[Prepared], depth: int | None
) -> list[Float[Tensor, " ranked"]]:
    """Run some rounds at once, and give the changes of each."""
    ids = [own for each in batch for own in each.ids]
    targets = [
        Target(prepared[each.example].target, (prepared[each.example].foil,))
        for each in batch
        for _ in each.ids
    ]
    places = Places(tuple(range(len(own) - 1, len(own)) for own in ids))
    swapping: AbstractContextManager[None] = nullcontext()
    if depth is not None:
        origins, positions = _find_origins(batch, model.device)
        swapping = replace_inputs(
            model.blocks[depth], lambda stream: _keep_position(stream, origins, positions)
        )
    with swapping:
        readout = read_out(model, places, Inputs(ids=pad(model, ids)))
    differences = iter(read_logits(readout.uncapped, targets).double().cpu())
    changes = []
    for each in batch:
        whole, *swapped = islice(differences, len(each.ids))
        _require_same(model, whole, each.difference, readout.uncapped)
        changes.append(whole - torch.stack(swapped))
    return changes


def _require_same(
    model: Model, whole: Float[Tensor, ""], difference: float, logits: Float[Tensor, "row vocab"]
) -> None:
    """Prove that the context itself gives what it gave alone; in half precision shapes round otherwise."""
    if model.exactness.itemsize > 2 or model.runs_alone:
        require_close(
            Identity.RECORDED_RUN,
            "beside swapped words",
            found=whole,
            expected=whole.new_tensor(difference),
            scale=logits.abs().amax().to(whole),
            tolerance=tolerance_of(model.exactness),
        )


def _find_origins(
    batch: Sequence[_Round], device: torch.device
) -> tuple[Int[Tensor, " row"], Int[Tensor, " row"]]:
    """Return the row of the context itself for every row, and the position that is swapped there."""
    origins: list[int] = []
    positions: list[int] = []
    for each in batch:
        origins += [len(origins)] * len(each.ids)
        positions += [0, *each.positions]
    return torch.tensor(origins, device=device), torch.tensor(positions, device=device)


def _keep_position(
    stream: Float[Tensor, "row position model"],
    origins: Int[Tensor, " row"],
    positions: Int[Tensor, " row"],
) -> Float[Tensor, "row position model"]:
    """Return the streams of the contexts themselves, with one position of each row's own."""
    rows = torch.arange(len(origins), device=stream.device)
    kept = stream[origins]
    kept[rows, positions] = stream[rows, positions]
    return kept
