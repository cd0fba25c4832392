"""Run the network once and keep what later stages need. Hooks are here and in hooks.py, nowhere else.

Each block is reduced while it runs: attention weights to the rows of the explained positions, and, where
mixing is wanted, to the contribution matrix. Hooks and wrappers are removed whatever happens.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..errors import ModelError, ProofError
from ..maths.contributions import Contributions
from ..models.architecture import Attention, Mlp
from ..models.classifier import DecoderClassifier, require_last_tokens
from ..models.model import LoadedStack, Model, find_down, find_experts, module_at
from ..runs.progress import report
from .attention import AttentionCall
from .direct_attention import ReturnedWeights, cut_values, find_weights
from .finite import require_finite, require_finite_weights
from .frozen_run import FrozenRun
from .heap_holes import LARGE, keep_end
from .hooks import hook_last_rows, hook_unembedding, noting, only_seeing
from .own_attention import find_eager, uses_interface, watch_attention
from .precision import keep_precision
from .readout import Reader
from .reduction import Reduction, Weigher
from .running import explaining_failure, make_inputs, run_inputs
from .store import Store, require_called, require_one_stream
from .trace import AttentionTrace, MlpTrace, Places, Plan, StackTrace, Trace, Weighed
from .untouched_run import notice_changes, verify_run
from .weight_proof import WeightProof

__all__ = ["record"]


@torch.no_grad()
def record(
    model: Model,
    prompts: Sequence[Sequence[int]],
    places: Places,
    plan: Plan | None = None,
    sources: Sequence[Sequence[int]] | None = None,
) -> Trace:
    """Run the network once on some prompts and record what was added at the explained positions of each.

    `sources`: for a model with an encoder, what the encoder reads; `prompts` is then what the decoder reads.
    The encoder is recorded, at all positions, where contributions or flow are asked for.
    """
    keep_end()
    foreign = notice_changes(model)
    if isinstance(model.network, DecoderClassifier):
        require_last_tokens(model.network, [ids[-1] for ids in prompts if len(ids) > 1])
    plan, lengths = plan or Plan(), None if sources is None else tuple(map(len, sources))
    frozen = FrozenRun(model, plan.recomputed_blocks, foreign) if plan.frozen else None
    reader = Reader(model, places, foreign)
    recorder = _Recorder(model, model.decoder_stack, places, plan, lengths, frozen, reader)
    encoder = None
    if model.encoder_stack is not None and lengths is not None and (plan.mixed_blocks > 0 or plan.frozen):
        everywhere = Places((range(max(lengths)),) * len(lengths))
        whole = replace(plan, mixed_blocks=len(model.encoder_stack.blocks) if plan.mixed_blocks > 0 else 0)
        encoder = _Recorder(model, model.encoder_stack, everywhere, whole, lengths, frozen)
    recorders = [each for each in (encoder, recorder) if each is not None]
    # An encoder-decoder model unpacks what attention returns, so it must be told that weights are returned.
    inputs = make_inputs(model, prompts, sources, sources is not None and not uses_interface(model))
    with ExitStack() as stack:
        stack.enter_context(explaining_failure(model, prompts, sources, plan.frozen))
        stack.enter_context(watch_attention(model, [each.see for each in recorders]))
        stack.enter_context(keep_precision(model.dtype))
        for each in recorders:
            for handle in each.hooks():
                stack.callback(handle.remove)
        if frozen is not None:
            stack.enter_context(noting(model, frozen))
        try:
            readout = reader.read(run_inputs(model, inputs))
            for each in recorders:
                each.proof.prove()
        except ProofError:
            require_finite_weights(model)
            raise
    if frozen is not None:
        frozen.end(reader.unembedded)
    trace = Trace(
        places=places,
        decoder=recorder.trace_stack(),
        unembedded=reader.unembedded.detach(),
        logits=readout.logits.detach(),
        uncapped=readout.uncapped.detach(),
        encoder=None if encoder is None else encoder.trace_stack(),
        lengths=lengths,
        frozen=frozen,
    )
    require_finite(model, trace)
    verify_run(model, trace, prompts, sources, record)
    return trace


class _Recorder:
    """Gathers the trace of one stack from hooks; lives for one run."""

    def __init__(
        self,
        model: Model,
        stack: LoadedStack,
        places: Places,
        plan: Plan,
        lengths: tuple[int, ...] | None,
        frozen: FrozenRun | None,
        reader: Reader | None = None,
    ) -> None:
        self.model, self.stack, self.frozen, self.reader = model, stack, frozen, reader
        self.sublayers, self.lengths = stack.stack.sublayers, lengths
        self.places, self.examples, self.device = places, len(places.ranges), model.device
        self.plan, self.store = plan, Store(len(stack.blocks), model.compute_dtype)
        self.streams: dict[int, Tensor] = {}
        """The residual streams that entered blocks, at all positions, until their block is reduced."""
        self.calls: dict[nn.Module | None, AttentionCall] = {}
        self.values: dict[nn.Module, Tensor] = {}
        self.projections: dict[nn.Module, tuple[Tensor, Tensor]] = {}
        self.modules: set[nn.Module | None] = {None}
        """The attention modules of this stack; None stands for calls that do not say whose they are."""
        self.proof = WeightProof(model.dtype)

    def see(self, call: AttentionCall) -> None:
        if call.module in self.modules:
            self.calls[call.module] = call

    def hooks(self) -> Iterator[Any]:
        """Set the hooks, in the order in which they fire."""
        own = only_seeing(self.frozen)
        if self.reader is not None and not self.reader.foreign and not self.plan.neurons:
            yield from hook_last_rows(self.model, self.places, self.frozen)
        for index, block in enumerate(self.stack.blocks):
            yield block.register_forward_pre_hook(own(self._enter(index)), with_kwargs=True)
            for order, sublayer in enumerate(self.sublayers):
                output = module_at(block, sublayer.output)
                if isinstance(sublayer, Attention):
                    module = module_at(block, sublayer.module)
                    self.modules.add(module)
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
        if self.reader is not None:
            yield from hook_unembedding(self.model, self.reader)

    def trace_stack(self) -> StackTrace:
        """Return the trace of the stack, after the run."""
        store = self.store
        return StackTrace(
            stream_in=store.of_all("stream in"),
            sublayers=tuple(
                AttentionTrace(
                    runs=tuple(
                        Weighed(*kept)
                        for kept in store.in_runs(f"weights {order}", f"values {order}", f"context {order}")
                    ),
                    output=store.of_all(f"output {order}"),
                    contributions=self._chunks(f"contributions {order}"),
                    rolled=self._chunks(f"rolled {order}"),
                    cross=sublayer.cross,
                )
                if isinstance(sublayer, Attention)
                else MlpTrace(store.of_all(f"output {order}"), store.by_block(f"read {order}") or None)
                for order, sublayer in enumerate(self.sublayers)
            ),
            stream_out=store.of_all("stream out"),
        )

    def _chunks(self, name: str) -> tuple[Contributions, ...]:
        """Return matrices that were kept in chunks of rows, one for each block where they were asked for."""
        chunks: list[tuple[Tensor, ...]] = []
        while kept := self.store.by_block(f"{name} {len(chunks)}"):
            chunks.append(kept)
        return tuple(map(Contributions, zip(*chunks, strict=True)))

    def _keep_chunks(self, name: str, index: int, contributions: Contributions) -> None:
        dtype = torch.float16 if self.plan.half else None
        for place, chunk in enumerate(contributions.chunks):
            self.store.keep(f"{name} {place}", index, chunk, dtype=dtype)

    def _enter(self, index: int) -> Callable[..., None]:
        def enter(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            stream = require_one_stream(self.model, args[0] if args else kwargs["hidden_states"])
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
            if self.frozen is not None:
                self.frozen.take_weigher(weigher, self.stack, sublayer.cross)
            require_called(sublayer.output, self.stack.name_block(index), module in self.projections)
            context, output = self.projections.pop(module)
            given = weigher, context, output, self.proof
            reduction = Reduction(self.model, self.stack, index, sublayer, *given)
            if index < self.plan.rolled_blocks:
                self._keep_chunks(f"rolled {order}", index, reduction.roll(self.plan.chunk))
            if index < self.plan.mixed_blocks:
                mixed = reduction.mix(self.places, self.streams[index], self.plan.chunk, self.lengths)
                weights, self.streams[index] = mixed.weights, mixed.stream
                self._keep_chunks(f"contributions {order}", index, mixed.contributions)
            else:
                weights = reduction.weigh(self.places)
            self.store.keep(f"weights {order}", index, weights)
            held = self.frozen is not None and output.nbytes >= LARGE  # a frozen run holds them anyway
            (self.store.share if held else self.store.keep)(f"values {order}", index, weigher.value)
            self.store.keep(f"context {order}", index, self.places.pick(context).flatten(0, 1))
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
                f"The attention of {self.stack.name_block(index)} ({type(module).__name__}) does not go "
                "through transformers' attention interface.",
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
            report("blocks", index + 1, len(self.stack.blocks))
            self._keep_rows("stream out", index, self._by_example(stream))

        return leave

    def _keep_rows(self, name: str, index: int, stream: Float[Tensor, "example stream model"]) -> None:
        """Keep the explained positions of a stream."""
        self.store.keep(name, index, self.places.pick(stream).flatten(0, 1), self.device)

    def _by_example(self, tensor: Tensor) -> Float[Tensor, "example stream model"]:
        """Restore the example axis where a model has flattened it into the positions."""
        return tensor.reshape(self.examples, -1, tensor.shape[-1])
