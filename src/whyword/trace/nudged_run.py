"""Whether what flow counts as a bias stays the same when the prompt's embeddings change a little.

Values that are held fixed are marked in the operations of torch (held_values.py). A network can lose a mark:
by numpy, in another thread, in compiled code. So once for every network, and again when it was changed, the
first tokens of a prompt are recorded twice more, as they are and with embeddings that are nudged by a few
roundings. All that is counted as a bias must be the same bit by bit.

What an index chooses, such as the bias of an expert, counts as a bias. A nudge seldom lets another one be
chosen; a network is refused only if every one of several nudges changes something. Mixtures in half
precision, where nudges are large and others are often chosen, are left to the marks.
"""

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from itertools import zip_longest

import torch
from torch import Tensor, nn

from ..models.architecture import Mlp
from ..models.model import Model, find_experts
from ..models.paths import list_modules
from ..runs.progress import listen
from .hooks import replace_inputs, replace_outputs
from .intercepted_operation import not_a_bias
from .network_state import intervening
from .trace import Trace

__all__ = ["require_fixed_biases"]

_NUDGES = 3
_ROUNDINGS, _LEAST = 4, 5e-7
"""How large a nudge is, in roundings of the model's type; and how large at least, relative to a number."""


def require_fixed_biases(model: Model, record_again: Callable[[], Trace]) -> None:
    """Refuse a network where something is counted as a bias that depends on the prompt."""
    if model.exactness.itemsize <= 2 and _is_mixture(model):
        return
    plain, changed = _list_biases(model, record_again, None), ""
    for seed in range(_NUDGES):
        changed = _find_change(plain, _list_biases(model, record_again, seed))
        if not changed:
            return
    raise not_a_bias(changed)


def _find_change(plain: list[tuple[str, bytes]], nudged: list[tuple[str, bytes]]) -> str:
    """Say where the first bias is that is not the same; nothing: all are."""
    for one, other in zip_longest(plain, nudged):
        if one != other:
            return (one or other)[0]
    return ""


def _list_biases(
    model: Model, record_again: Callable[[], Trace], seed: int | None
) -> list[tuple[str, bytes]]:
    """List what is counted as a bias in a run; `seed`: with embeddings that are nudged."""
    with ExitStack() as nudged:
        nudged.enter_context(intervening())
        nudged.enter_context(listen(lambda *_: None))  # its blocks are not those that somebody waits for
        if seed is not None:
            nudge = partial(_nudge, model.dtype, seed)
            nudged.enter_context(replace_outputs(dict.fromkeys(_list_embeddings(model), nudge), first=True))
            for stack in model.stacks:  # what enters it may not come from a module
                nudged.enter_context(replace_inputs(stack.blocks[0], nudge))
        trace = record_again()
    assert trace.frozen is not None
    return trace.frozen.list_biases(torch.ones_like(trace.unembedded))


def _list_embeddings(model: Model) -> list[nn.Module]:
    """List the modules outside of blocks that turn tokens into vectors."""
    inside = {module for stack in model.stacks for block in stack.blocks for module in list_modules(block)}
    found = [each for each in model.modules if isinstance(each, nn.Embedding)]
    return [*{model.network.get_input_embeddings(), *found} - inside]


def _nudge(dtype: torch.dtype, seed: int, embedded: Tensor) -> Tensor:
    size = max(_ROUNDINGS * torch.finfo(dtype).eps, _LEAST)
    drawing = torch.Generator("cpu").manual_seed(seed)  # the same numbers on every device
    noise = torch.rand(embedded.shape, generator=drawing, dtype=torch.float64, device="cpu")
    return (embedded.double() * (1 + size * (0.5 + noise.to(embedded.device)))).to(embedded.dtype)


def _is_mixture(model: Model) -> bool:
    return any(
        isinstance(sublayer, Mlp) and find_experts(block, sublayer) is not None
        for block in model.blocks
        for sublayer in model.decoder_stack.stack.sublayers
    )
