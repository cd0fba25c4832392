"""Run the network once and keep what later stages need. All hooks of the project are here.

Each block is reduced while it runs: attention weights to the rows of the explained positions, and, where
mixing is wanted, to the contribution matrix. Hooks and the attention implementation are taken away again
whatever happens.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..contributions import Contributions
from ..errors import ModelError, ProofError
from ..models.architecture import Attention, Mlp, Stack
from ..models.model import Model, find_down, find_experts, module_at
from ..progress import report
from .attention import AttentionCall, find_eager, watch_attention
from .cap import uncap
from .direct import ReturnedWeights, cut_values, find_weights
from .finite import require_finite, require_finite_weights
from .precision import keep_precision
from .reduction import Reduction, Weigher
from .running import run
from .store import Store
from .types import AttentionTrace, MlpTrace, Places, Plan, StackTrace, Trace

__all__ = ["capture_calls", "record", "replace_inputs", "replace_outputs"]


@torch.no_grad()
def record(model: Model, prompts: Sequence[Sequence[int]], places: Places, plan: Plan | None = None) -> Trace:
    """Run the network once on some prompts and trace what was written at a range of positions of each."""
    recorder = _Recorder(model, places, plan or Plan())
    with ExitStack() as stack:
        stack.enter_context(watch_attention(model, recorder.see_attention))
        stack.enter_context(keep_precision(model.dtype))
        for handle in recorder.hooks():
            stack.callback(handle.remove)
        try:
            logits = run(model, prompts)[0].to(model.compute_dtype)
        except ProofError:
            require_finite_weights(model)
            raise
    trace = Trace(
        places=places,
        decoder=recorder.trace_stack(),
        unembedded=recorder.unembedded,
        logits=logits,
        uncapped=logits if model.logit_cap is None else uncap(model, recorder.unbounded, logits),
    )
    require_finite(model, trace)
    return trace


class _Recorder:
    """Gathers a trace from hooks; lives for one run."""

    unembedded: Tensor
    unbounded: Tensor
    """What the unembedding gave, of a model that caps its logits."""

    def __init__(self, model: Model, places: Places, plan: Plan) -> None:
        self.model = model
        self.stack: Stack = model.architecture.decoder
        self.places = places
        self.examples = len(places.ranges)
        self.device = model.device
        self.plan = plan
        self.store = Store(len(model.blocks), model.compute_dtype)
        self.streams: dict[int, Tensor] = {}
        """Whole streams as they entered, until their block is reduced."""
        self.calls: dict[nn.Module | None, AttentionCall] = {}
        self.values: dict[nn.Module, Tensor] = {}
        self.projections: dict[nn.Module, tuple[Tensor, Tensor]] = {}

    def see_attention(self, call: AttentionCall) -> None:
        self.calls[call.module] = call

    def hooks(self) -> Iterator[Any]:
        """Set the hooks, in the order in which they fire."""
        own = _in_this_thread
        for index, block in enumerate(self.model.blocks):
            yield block.register_forward_pre_hook(own(self._enter(index)), with_kwargs=True)
            for order, sublayer in enumerate(self.stack.sublayers):
                output = module_at(block, sublayer.output)
                if isinstance(sublayer, Attention):
                    module = module_at(block, sublayer.module)
                    if sublayer.value is not None and find_eager(module) is None:
                        projection = module_at(module, sublayer.value.projection)
                        yield module.register_forward_pre_hook(own(self._ask_for_weights), with_kwargs=True)
                        yield projection.register_forward_hook(own(self._keep_value(module)))
                    yield output.register_forward_hook(own(self._keep_projection(module)))
                    yield module.register_forward_hook(own(self._reduce_attention(index, order, sublayer)))
                else:
                    yield output.register_forward_hook(own(self._keep_mlp(index, order)))
                    if self.plan.neurons and isinstance(sublayer, Mlp):
                        whole = find_experts(block, sublayer) is not None
                        reader = output if whole else find_down(output, sublayer)
                        keep = own(self._keep_read(index, order))
                        yield reader.register_forward_pre_hook(keep, with_kwargs=True)
            yield block.register_forward_hook(own(self._leave(index)))
        yield self.model.unembedding.register_forward_pre_hook(own(self._unembed))
        if self.model.logit_cap is not None:
            yield self.model.unembedding.register_forward_hook(own(self._keep_unbounded))

    def trace_stack(self) -> StackTrace:
        """Give what was gathered, after the run."""
        store = self.store
        return StackTrace(
            stream_in=store.of_all("stream in"),
            sublayers=tuple(
                AttentionTrace(
                    weights=store.by_block("weights"),
                    values=store.by_block("values"),
                    output=store.of_all(f"output {order}"),
                    contributions=self._contributions(),
                )
                if isinstance(sublayer, Attention)
                else MlpTrace(store.of_all(f"output {order}"), store.by_block(f"read {order}") or None)
                for order, sublayer in enumerate(self.stack.sublayers)
            ),
            stream_out=store.of_all("stream out"),
        )

    def _contributions(self) -> tuple[Contributions, ...]:
        """Give C of the blocks it was asked for, from its chunks."""
        chunks: list[tuple[Tensor, ...]] = []
        while kept := self.store.by_block(f"contributions {len(chunks)}"):
            chunks.append(kept)
        return tuple(map(Contributions, zip(*chunks, strict=True)))

    def _enter(self, index: int) -> Callable[..., None]:
        def enter(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            stream = args[0] if args else kwargs["hidden_states"]
            self.streams[index] = stream
            self._keep_rows("stream in", index, stream)

        return enter

    def _ask_for_weights(
        self, _module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Let eager attention return its weights where it does so only when it is asked."""
        if "output_attentions" in kwargs and self.model.config._attn_implementation == "eager":
            kwargs = {**kwargs, "output_attentions": True}
        return args, kwargs

    def _keep_value(self, module: nn.Module) -> Callable[..., None]:
        def keep(_module: nn.Module, _args: Any, output: Tensor) -> None:
            self.values[module] = output

        return keep

    def _keep_projection(self, module: nn.Module) -> Callable[..., None]:
        def keep(_module: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> None:
            self.projections[module] = (self._by_example(args[0]), self._by_example(output))

        return keep

    def _reduce_attention(self, index: int, order: int, sublayer: Attention) -> Callable[..., None]:
        def reduce(module: nn.Module, _args: Any, returned: Any) -> None:
            weigher = self._weigher(module, sublayer, returned, index)
            context, output = self.projections.pop(module)
            reduction = Reduction(self.model, index, sublayer, weigher, context, output)
            if index < self.plan.mixed_blocks:
                weights, contributions = reduction.mix(self.places, self.streams[index], self.plan.chunk)
                dtype = torch.float16 if self.plan.half else None
                for place, chunk in enumerate(contributions.chunks):
                    self.store.keep(f"contributions {place}", index, chunk, dtype=dtype)
            else:
                weights = reduction.weigh(self.places)
            self.store.keep("weights", index, weights)
            self.store.keep("values", index, weigher.value)
            self._keep_rows(f"output {order}", index, output)

        return reduce

    def _weigher(self, module: nn.Module, sublayer: Attention, returned: Any, index: int) -> Weigher:
        """Find out how attention was computed: through the interface, by torch, or in the module itself."""
        seen = module if module in self.calls else None
        projected = self.values.pop(module, None)
        if seen in self.calls:
            return self.calls.pop(seen)
        weights = find_weights(returned)
        if sublayer.value is None or projected is None or weights is None:
            raise ModelError(
                f"The attention of block {index + 1} ({type(module).__name__}) does not go through "
                "transformers' attention interface.",
                "Describe where its values are with Attention(value=ValueLayout(...)).",
            )
        dim = self.projections[module][0].shape[-1] // weights.shape[1]
        value = cut_values(self.model, projected, sublayer.value, dim)
        return ReturnedWeights(value, weights.to(self.model.compute_dtype))

    def _keep_mlp(self, index: int, order: int) -> Callable[..., None]:
        def keep(_module: nn.Module, _args: Any, output: Any) -> None:
            written = output[0] if isinstance(output, tuple) else output
            self._keep_rows(f"output {order}", index, self._by_example(written))

        return keep

    def _keep_read(self, index: int, order: int) -> Callable[..., None]:
        def keep(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            read = args[0] if args else kwargs["hidden_states"]
            self._keep_rows(f"read {order}", index, self._by_example(read))

        return keep

    def _leave(self, index: int) -> Callable[..., None]:
        def leave(_module: nn.Module, _args: Any, output: Any) -> None:
            stream = output[0] if isinstance(output, tuple) else output
            del self.streams[index]
            report("blocks", index + 1, len(self.model.blocks))
            self._keep_rows("stream out", index, self._by_example(stream))

        return leave

    def _unembed(self, _module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Unembed the explained positions only: a vocabulary is wide."""
        rows = self.places.pick(self._by_example(args[0])).flatten(0, 1)
        self.unembedded = rows.to(self.model.compute_dtype)
        return (rows[None], *args[1:])

    def _keep_unbounded(self, _module: nn.Module, _args: Any, output: Tensor) -> None:
        self.unbounded = output[0]

    def _keep_rows(self, name: str, index: int, stream: Float[Tensor, "example stream model"]) -> None:
        """Keep the explained positions of a stream."""
        self.store.keep(name, index, self.places.pick(stream).flatten(0, 1), self.device)

    def _by_example(self, tensor: Tensor) -> Float[Tensor, "example stream model"]:
        """Restore the example axis where a model has flattened it into the positions."""
        return tensor.reshape(self.examples, -1, tensor.shape[-1])


@contextmanager
def capture_calls(module: nn.Module) -> Iterator[list[tuple[tuple[Any, ...], dict[str, Any]]]]:
    """Gather what a module is called with."""
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
    hook = _in_this_thread(lambda _module, args, kwargs: calls.append((args, kwargs)))
    handle = module.register_forward_pre_hook(hook, with_kwargs=True)
    try:
        yield calls
    finally:
        handle.remove()


@contextmanager
def replace_outputs(replacements: Mapping[nn.Module, Callable[[Tensor], Tensor]]) -> Iterator[None]:
    """Let modules give something else than what they computed."""
    with ExitStack() as stack:
        for module, replacement in replacements.items():
            hook = _in_this_thread(partial(_replace_output, replacement))
            stack.callback(module.register_forward_hook(hook).remove)
        yield


def _replace_output(
    replacement: Callable[[Tensor], Tensor], _module: nn.Module, _args: Any, output: Tensor
) -> Tensor:
    return replacement(output)


@contextmanager
def replace_inputs(module: nn.Module, replacement: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Let a module read something else than what it is given."""
    hook = _in_this_thread(lambda _module, args: (replacement(args[0]), *args[1:]))
    handle = module.register_forward_pre_hook(hook)
    try:
        yield
    finally:
        handle.remove()


def _in_this_thread(hook: Callable[..., Any]) -> Callable[..., Any]:
    """Let a hook see this thread's run only: another one may be using the same network."""
    thread = threading.get_ident()

    def see(*seen: Any) -> Any:
        return hook(*seen) if threading.get_ident() == thread else None

    return see
