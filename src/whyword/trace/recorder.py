"""Run the network once and keep what later stages need. All hooks of the project are here.

Each block is reduced while it runs: attention weights to the rows of the explained positions, and, where
mixing is wanted, to the contribution matrix. Hooks and the attention implementation are taken away again
whatever happens.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from ..errors import ModelError, ProofError
from ..models.architecture import Attention, Stack, ValueLayout
from ..models.model import Model, module_at
from .attention import RUNNING, AttentionCall, ReturnedWeights, Weigher, watch_attention
from .precision import keep_precision
from .reduction import Reduction
from .store import Store
from .types import AttentionTrace, MlpTrace, StackTrace, Trace

__all__ = ["generate", "record", "run"]


@torch.no_grad()
def record(model: Model, ids: Sequence[int], positions: range, *, mixed_blocks: int = 0) -> Trace:
    """Run the network on a prompt and trace what was written at a range of positions.

    `mixed_blocks`: in how many blocks, from the first, contributions between all positions are computed.
    """
    recorder = _Recorder(model, positions, mixed_blocks)
    with ExitStack() as stack:
        stack.enter_context(watch_attention(model, recorder.see_attention))
        stack.enter_context(keep_precision(model.dtype))
        for handle in recorder.hooks():
            stack.callback(handle.remove)
        try:
            logits = run(model, ids)
        except ProofError:
            _require_finite_weights(model)
            raise
    trace = Trace(
        positions=positions,
        decoder=recorder.trace_stack(),
        unembedded=recorder.unembedded,
        logits=logits.to(model.compute_dtype),
    )
    _require_finite(model, trace)
    return trace


@torch.no_grad()
def run(model: Model, ids: Sequence[int]) -> Float[Tensor, "row vocab"]:
    """Run the network as it is, without dropout, and give its logits."""
    with _evaluating(model):
        output = model.network(input_ids=torch.tensor([list(ids)], device=model.device), use_cache=False)
    logits: Tensor = output.logits
    return logits[0]


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


class _Recorder:
    """Gathers a trace from hooks; lives for one run."""

    unembedded: Tensor

    def __init__(self, model: Model, positions: range, mixed_blocks: int) -> None:
        self.model = model
        self.stack: Stack = model.architecture.decoder
        self.rows = slice(positions.start, positions.stop)
        self.device = model.device
        self.mixed_blocks = mixed_blocks
        self.store = Store(len(model.blocks), model.compute_dtype)
        self.streams: dict[int, Tensor] = {}
        """Whole streams as they entered, until their block is reduced."""
        self.calls: dict[nn.Module, AttentionCall] = {}
        self.values: dict[nn.Module, Tensor] = {}
        self.projections: dict[nn.Module, tuple[Tensor, Tensor]] = {}
        self.thread = threading.get_ident()

    def see_attention(self, call: AttentionCall) -> None:
        self.calls[call.module] = call

    def hooks(self) -> Iterator[Any]:
        """Set the hooks, in the order in which they fire."""
        own = self._own
        for index, block in enumerate(self.model.blocks):
            yield block.register_forward_pre_hook(own(self._enter(index)), with_kwargs=True)
            for order, sublayer in enumerate(self.stack.sublayers):
                output = module_at(block, sublayer.output)
                if isinstance(sublayer, Attention):
                    module = module_at(block, sublayer.module)
                    if sublayer.value is not None:
                        projection = module_at(module, sublayer.value.projection)
                        yield projection.register_forward_hook(own(self._keep_value(module)))
                    yield output.register_forward_hook(own(self._keep_projection(module)))
                    yield module.register_forward_hook(own(self._reduce_attention(index, order, sublayer)))
                else:
                    yield output.register_forward_hook(own(self._keep_mlp(index, order)))
            yield block.register_forward_hook(own(self._leave(index)))
        yield self.model.unembedding.register_forward_pre_hook(own(self._unembed))

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
                    contributions=store.by_block("contributions"),
                )
                if isinstance(sublayer, Attention)
                else MlpTrace(store.of_all(f"output {order}"))
                for order, sublayer in enumerate(self.stack.sublayers)
            ),
            stream_out=store.of_all("stream out"),
        )

    def _own(self, hook: Callable[..., Any]) -> Callable[..., Any]:
        """Let a hook see this run only: another thread may be using the same network."""

        def see(*seen: Any) -> Any:
            return hook(*seen) if threading.get_ident() == self.thread else None

        return see

    def _enter(self, index: int) -> Callable[..., None]:
        def enter(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            stream = (args[0] if args else kwargs["hidden_states"])[0]
            self.streams[index] = stream
            self._keep_rows("stream in", index, stream)

        return enter

    def _keep_value(self, module: nn.Module) -> Callable[..., None]:
        def keep(_module: nn.Module, _args: Any, output: Tensor) -> None:
            self.values[module] = output[0]

        return keep

    def _keep_projection(self, module: nn.Module) -> Callable[..., None]:
        def keep(_module: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> None:
            self.projections[module] = (self._unbatch(args[0]), self._unbatch(output))

        return keep

    def _reduce_attention(self, index: int, order: int, sublayer: Attention) -> Callable[..., None]:
        def reduce(module: nn.Module, _args: Any, returned: Any) -> None:
            context, output = self.projections.pop(module)
            weigher = self._weigher(module, sublayer, returned, index)
            reduction = Reduction(self.model, index, sublayer, weigher, context, output)
            if index < self.mixed_blocks:
                weights, contributions = reduction.mix(self.rows, self.streams[index])
                self.store.keep("contributions", index, contributions)
            else:
                weights = reduction.weigh(self.rows)
            self.store.keep("weights", index, weights)
            self.store.keep("values", index, weigher.value)
            self._keep_rows(f"output {order}", index, output)

        return reduce

    def _weigher(self, module: nn.Module, sublayer: Attention, returned: Any, index: int) -> Weigher:
        if sublayer.value is not None:
            heads = self.model.config.num_attention_heads
            weights = returned[1][0].to(self.model.compute_dtype)
            return ReturnedWeights(_value_in(self.values.pop(module), sublayer.value, heads), weights)
        if module not in self.calls:
            raise ModelError(
                f"The attention of block {index + 1} ({type(module).__name__}) does not go through "
                "transformers' attention interface.",
                "Describe where its values are with Attention(value=ValueLayout(...)).",
            )
        return self.calls.pop(module)

    def _keep_mlp(self, index: int, order: int) -> Callable[..., None]:
        def keep(_module: nn.Module, _args: Any, output: Any) -> None:
            written = output[0] if isinstance(output, tuple) else output
            self._keep_rows(f"output {order}", index, self._unbatch(written))

        return keep

    def _leave(self, index: int) -> Callable[..., None]:
        def leave(_module: nn.Module, _args: Any, output: Any) -> None:
            stream = output[0] if isinstance(output, tuple) else output
            del self.streams[index]
            self._keep_rows("stream out", index, self._unbatch(stream))

        return leave

    def _unembed(self, _module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Unembed the explained positions only: a vocabulary is wide."""
        rows = self._unbatch(args[0])[self.rows]
        self.unembedded = rows.to(self.model.compute_dtype)
        return (rows[None], *args[1:])

    def _keep_rows(self, name: str, index: int, rows: Float[Tensor, "stream model"]) -> None:
        """Keep the explained positions of a stream."""
        self.store.keep(name, index, rows[self.rows], self.device)

    def _unbatch(self, tensor: Tensor) -> Float[Tensor, "stream model"]:
        """Drop the batch axis of one prompt, also where a model has flattened it into the positions."""
        return tensor.reshape(-1, tensor.shape[-1])


def _value_in(
    projected: Float[Tensor, "source fused"], layout: ValueLayout, heads: int
) -> Float[Tensor, "value_head source dim"]:
    """Cut the value vectors out of a projection's output."""
    parts = rearrange(
        projected, f"source {layout.pattern} -> part head source dim", head=heads, part=layout.parts
    )
    return parts[layout.part]


def _require_finite(model: Model, trace: Trace) -> None:
    """Refuse a run with NaN or inf in it, and say where it first appeared."""
    if trace.logits.isfinite().all() and trace.unembedded.isfinite().all():
        return
    _require_finite_weights(model)
    streams = enumerate(trace.decoder.stream_out)
    bad = next((f"block {index + 1}" for index, stream in streams if not stream.isfinite().all()), None)
    raise ModelError(
        f"{model.name} ({model.dtype}) gave NaN or inf for this prompt, first in {bad or 'the unembedding'}.",
        "Load it with dtype='float32': activations of some models overflow in half precision.",
    )


def _require_finite_weights(model: Model) -> None:
    for name, parameter in model.network.named_parameters():
        if not parameter.isfinite().all():
            raise ModelError(
                f"The weights of {model.name} are not finite: {name} holds NaN or inf.",
                "Load a checkpoint without NaN or inf; nothing can be explained with this one.",
            )
