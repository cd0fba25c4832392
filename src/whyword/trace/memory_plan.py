"""What an explanation needs of memory beyond the prediction itself, known before it runs.

The estimate follows the sizes of what is held: C of all blocks as a triangle, values, weights of the
explained positions, and their neurons where those are asked for; and, while one block is reduced, P and a
chunk of attention weights. What does not fit is tried with smaller chunks, then with C in half precision;
what cannot fit is refused, with what would.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import torch

from ..errors import TooLargeError
from ..maths.contributions import ROWS
from ..models.model import Model
from ..runs.memory_size import read_size
from . import Plan
from .neuron_activations import list_groups

__all__ = [
    "ACTIVATIONS",
    "Request",
    "estimate",
    "estimate_gradient",
    "estimate_neurons",
    "free_memory",
    "make_plan",
]

_LITTLE = 256 * 10**6
"""Bytes that are taken without looking at what is free."""
_SMALLEST_CHUNK = 8
ACTIVATIONS = 256 * 10**6
"""Bytes of activations that are kept for a backward pass, where an example alone does not take more."""
_TILES = 16 * 10**6
"""Bytes of the kernel's tiles and of what is left over between blocks."""
_NAMED = 20
"""Neurons whose promoted tokens are read at once."""
_LIMIT = Path("/sys/fs/cgroup/memory.max")
_USED = Path("/sys/fs/cgroup/memory.current")


@dataclass(frozen=True)
class Request:
    """What is to be explained at once."""

    examples: int
    tokens: int
    """Of the longest example."""
    each: int = 1
    """How many positions of every example."""
    sources: int = 0
    """Of the longest source, for a translation."""


def estimate(model: Model, request: Request, plan: Plan) -> int:
    """Return the bytes that an explanation holds at its peak, beyond the forward pass."""
    config, size = model.config, torch.finfo(model.compute_dtype).bits // 8
    blocks = len(model.blocks)
    heads = _count_heads(model)
    width: int = config.hidden_size
    value_heads = getattr(config, "num_key_value_heads", None) or heads
    dims = (getattr(config, name, None) for name in ("v_head_dim", "head_dim"))  # values may have their own
    dim: int = next((dim for dim in dims if dim), width // heads)
    stream = request.examples * request.tokens
    rows = request.examples * request.each
    seen = rows * heads * request.tokens
    kept = blocks * (stream * value_heads * dim + 3 * seen + 6 * rows * width) + 3 * rows * model.vocabulary
    working = 2 * stream * heads * dim + 4 * seen
    chunk = min(plan.chunk, request.tokens)
    if plan.mixed_blocks > 0:
        working += stream * (heads * width + 5 * width + chunk * (5 * heads + 3))
    elif plan.rolled_blocks > 0:
        working += stream * chunk * (3 * heads + 2)
    total = size * (kept + working) + _contributions(request, plan, size) + _TILES
    total += _frozen(model, request, plan, size) + _estimate_source(model, request, plan, size)
    if plan.neurons:
        total += estimate_neurons(model, rows)
    if plan.differentiated_blocks == 0:
        return total
    return total + max(
        estimate_gradient(model, request.tokens), min(estimate_gradient(model, stream), ACTIVATIONS)
    )


def _count_heads(model: Model) -> int:
    """Return the number of heads of a block; the most where encoder and decoder differ."""
    return max(
        getattr(model.config, name, None) or 0 for name in ("num_attention_heads", "decoder_attention_heads")
    )


def _frozen(model: Model, request: Request, plan: Plan, size: int) -> int:
    """Return the bytes of a run that can be pulled back: streams between blocks, and what blocks keep."""
    if not plan.frozen:
        return 0
    config, blocks, chunk = model.config, len(model.blocks), min(ROWS, request.tokens)
    width: int = config.hidden_size
    inner: int = getattr(config, "intermediate_size", None) or 4 * width
    kept = max(blocks - plan.recomputed_blocks, 1) * (4 * width + 3 * inner) + (blocks + 1) * width
    heads = _count_heads(model)
    working = 4 * inner + 6 * heads * chunk
    return request.examples * request.tokens * size * (kept + working)


def _estimate_source(model: Model, request: Request, plan: Plan, size: int) -> int:
    """Return the bytes that the source of a translation adds: cross-attention, and the encoder.

    The encoder is recorded only where it is mixed or pulled back, at every position; each sees every other.
    """
    if model.encoder_stack is None:
        return 0
    width, heads = int(model.config.hidden_size), _count_heads(model)
    stream, rows = request.examples * request.sources, request.examples * request.each
    seen = rows * heads * request.sources
    numbers = len(model.blocks) * (stream * width + 3 * seen) + 2 * stream * width + 4 * seen
    if plan.mixed_blocks > 0 or plan.frozen:
        blocks, pairs = len(model.encoder_stack.blocks), stream * request.sources
        numbers += blocks * (7 * stream * width + pairs)
        numbers += stream * (heads + 5) * width + 5 * heads * pairs
        numbers += len(model.blocks) * rows * (request.tokens + request.sources)
    if plan.frozen:
        sizes = (getattr(model.config, name, None) for name in ("encoder_ffn_dim", "d_ff"))
        inner: int = next((found for found in sizes if found), 4 * width)
        numbers += (len(model.encoder_stack.blocks) + 1) * stream * (5 * width + 3 * inner)
        numbers += len(model.blocks) * stream * 3 * width
    return size * numbers


def estimate_gradient(model: Model, tokens: int) -> int:
    """Return the bytes of the activations that a backward pass keeps for so many tokens of one prompt."""
    config, size = model.config, torch.finfo(model.dtype).bits // 8
    width: int = config.hidden_size
    inner: int = getattr(config, "intermediate_size", None) or 4 * width
    return len(model.blocks) * tokens * size * (12 * width + 5 * inner)


def estimate_neurons(model: Model, rows: int) -> int:
    """Return the bytes that neurons take at so many positions: those of all blocks, and while one is read.

    Of each neuron four numbers: its activation as recorded and side by side with others, what one unit of it
    adds, and what it adds. A block's W_2 is read in the compute type, one expert at a time; where one module
    has all experts, an identity matrix takes its place. At last the strongest are read as logits.
    """
    size, width = torch.finfo(model.compute_dtype).bits // 8, int(model.config.hidden_size)
    groups = [list_groups(model, block) for block in range(len(model.blocks))]
    counts = [sum(count for _, count in block) for block in groups]
    largest = max(count for block in groups for _, count in block)
    converted = largest * width if model.dtype != model.compute_dtype else 0
    mixture = max(map(len, groups)) > 1
    identity = largest * largest + max(counts) * rows if mixture else 0
    named = 2 * _NAMED * model.vocabulary
    return size * (4 * rows * sum(counts) + 3 * rows * max(counts) + converted + identity + named)


def _contributions(request: Request, plan: Plan, size: int) -> int:
    """Return the bytes of C: in chunks of rows, each as wide as its last."""
    pairs = sum(
        (stop - start) * stop
        for start in range(0, request.tokens, plan.chunk)
        for stop in [min(request.tokens, start + plan.chunk)]
    )
    matrices = plan.mixed_blocks + plan.rolled_blocks
    return matrices * request.examples * pairs * (2 if plan.half else size)


def make_plan(model: Model, request: Request, whole: Plan, max_memory: int | str | None) -> Plan:
    """Choose how much is held at once, so that an explanation fits; refuse what cannot."""
    needed = estimate(model, request, whole)
    if max_memory is None and needed <= _LITTLE:
        return whole
    room = free_memory(model.device) if max_memory is None else read_size(max_memory)
    if needed <= room:
        return whole
    for plan in _smaller_plans(whole, len(model.blocks)):
        if estimate(model, request, plan) <= room:
            return plan
    raise TooLargeError(
        _say_need(request, needed, room, max_memory), _say_remedy(model, request, whole, room)
    )


def _smaller_plans(plan: Plan, blocks: int) -> list[Plan]:
    """List plans that need less, the quickest and most exact first."""
    in_chunks = plan.mixed_blocks > 0 or plan.rolled_blocks > 0
    parts = (1, 2, 3, 4) if plan.frozen else ()
    recomputing = [replace(plan, recomputed_blocks=blocks * part // 4) for part in parts]
    least = recomputing[-1] if recomputing else plan
    chunks = [rows for rows in (ROWS, 64, 32, 16, _SMALLEST_CHUNK) if in_chunks]
    return recomputing + [replace(least, chunk=rows, half=half) for half in (False, True) for rows in chunks]


def _say_need(request: Request, needed: int, room: int, max_memory: int | str | None) -> str:
    examples = f"{request.examples} prompts of " if request.examples > 1 else ""
    source = f" of a translation of {request.sources:,}" if request.sources else ""
    bound = "is free" if max_memory is None else "is allowed by max_memory"
    return (
        f"Explaining {examples}{request.tokens:,} tokens{source} takes about {_gigabytes(needed)} beyond "
        f"the forward pass, {_gigabytes(room)} {bound}."
    )


def _say_remedy(model: Model, request: Request, plan: Plan, room: int) -> str:
    """Say what would fit."""
    smallest = [plan, *_smaller_plans(plan, len(model.blocks))][-1]
    ways = [f"max_memory={_gigabytes(estimate(model, request, smallest))!r}"]
    if plan != Plan() and not plan.neurons:
        logit = estimate(model, request, Plan())
        if logit <= room:
            ways.append(f"method='logit' ({_gigabytes(logit)})")
    fits: Callable[[int], bool] = lambda tokens: (  # noqa: E731
        estimate(model, replace(request, tokens=tokens), smallest) <= room
    )
    longest = 0 if request.sources else _largest(fits, request.tokens)
    if longest > request.each:
        ways.append(f"a prompt of at most {longest:,} tokens")
    return f"What would fit: {', '.join(ways)}."


def _largest(fits: Callable[[int], bool], most: int) -> int:
    """Find the largest number up to `most` that fits, 0 where none does."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def free_memory(device: torch.device) -> int:
    """Return the bytes that can still be taken on a device."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    free = int(psutil.virtual_memory().available)
    try:  # a container may allow less than the machine has
        return min(free, int(_LIMIT.read_text()) - int(_USED.read_text()))
    except (OSError, ValueError):
        return free


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.2f}GB" if size >= 10**8 else f"{size / 1e6:.0f}MB"
