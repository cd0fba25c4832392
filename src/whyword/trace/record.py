"""Run the network once and keep what later stages need. All hooks of the project are here.

Each block is reduced while it runs: attention weights to the rows of the explained positions, and, where
mixing is wanted, to the contribution matrix. Hooks and the attention implementation are taken away again
whatever happens.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from einops import einsum, rearrange
from jaxtyping import Float
from torch import Tensor, nn

from ..contributions import contribute
from ..errors import ModelError
from ..models.architecture import Attention, Stack, ValueLayout
from ..models.model import Model, module_at, output_weight
from ..norm import freeze
from ..proof import require_close, tolerance_of
from .attention import AttentionCall, ReturnedWeights, Weigher, watch_attention
from .precision import keep_precision
from .types import AttentionTrace, BlockTrace, MlpTrace, StackTrace, Trace

__all__ = ["record", "run"]


@torch.no_grad()
def record(model: Model, ids: Sequence[int], positions: Sequence[int], *, mixed_blocks: int = 0) -> Trace:
    """Run the network on a prompt and trace what was written at some positions.

    `mixed_blocks`: in how many blocks, from the first, contributions between all positions are computed.
    """
    recorder = _Recorder(model, torch.tensor(positions, device=model.device), mixed_blocks)
    with ExitStack() as stack:
        stack.enter_context(watch_attention(model, recorder.see_attention))
        stack.enter_context(keep_precision(model.dtype))
        for handle in recorder.hooks():
            stack.callback(handle.remove)
        logits = run(model, ids)
    trace = Trace(
        positions=tuple(positions),
        decoder=StackTrace(blocks=tuple(notes.trace() for notes in recorder.notes)),
        unembedded=recorder.unembedded,
        logits=logits.to(model.compute_dtype),
    )
    _require_finite(model, trace)
    return trace


@torch.no_grad()
def run(model: Model, ids: Sequence[int]) -> Float[Tensor, "row vocab"]:
    """Run the network as it is, without dropout, and give its logits."""
    with _evaluating(model.network):
        output = model.network(input_ids=torch.tensor([list(ids)], device=model.device), use_cache=False)
    logits: Tensor = output.logits
    return logits[0]


@contextmanager
def _evaluating(network: nn.Module) -> Iterator[None]:
    """Switch dropout off, and every module back to what it was afterwards."""
    training = [module for module in network.modules() if module.training]
    network.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


@dataclass
class _BlockNotes:
    """What is being gathered of one block while it runs."""

    stream_in: Tensor | None = None
    stream: Tensor | None = None
    """The whole stream that entered, until its block is reduced."""
    sublayers: dict[int, AttentionTrace | MlpTrace] = field(default_factory=dict)
    stream_out: Tensor | None = None

    def trace(self) -> BlockTrace:
        assert self.stream_in is not None
        assert self.stream_out is not None
        ordered = tuple(self.sublayers[index] for index in sorted(self.sublayers))
        return BlockTrace(self.stream_in, ordered, self.stream_out)


class _Recorder:
    """Gathers a trace from hooks; lives for one run."""

    unembedded: Tensor

    def __init__(self, model: Model, positions: Tensor, mixed_blocks: int) -> None:
        self.model = model
        self.stack: Stack = model.architecture.decoder
        self.positions = positions
        self.mixed_blocks = mixed_blocks
        self.notes = [_BlockNotes() for _ in model.blocks]
        self.calls: dict[nn.Module, AttentionCall] = {}
        self.values: dict[nn.Module, Tensor] = {}
        self.projections: dict[nn.Module, tuple[Tensor, Tensor]] = {}

    def see_attention(self, call: AttentionCall) -> None:
        self.calls[call.module] = call

    def hooks(self) -> Iterator[Any]:
        """Set the hooks, in the order in which they fire."""
        for index, block in enumerate(self.model.blocks):
            yield block.register_forward_pre_hook(self._enter(index), with_kwargs=True)
            for order, sublayer in enumerate(self.stack.sublayers):
                output = module_at(block, sublayer.output)
                if isinstance(sublayer, Attention):
                    module = module_at(block, sublayer.module)
                    if sublayer.value is not None:
                        projection = module_at(module, sublayer.value.projection)
                        yield projection.register_forward_hook(self._keep_value(module))
                    yield output.register_forward_hook(self._keep_projection(module))
                    yield module.register_forward_hook(self._reduce_attention(index, order, sublayer))
                else:
                    yield output.register_forward_hook(self._keep_mlp(index, order))
            yield block.register_forward_hook(self._leave(index))
        yield self.model.unembedding.register_forward_pre_hook(self._unembed)

    def _enter(self, index: int) -> Callable[..., None]:
        def enter(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            stream = (args[0] if args else kwargs["hidden_states"])[0]
            self.notes[index].stream = stream
            self.notes[index].stream_in = self._pick(stream)

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
            notes = self.notes[index]
            context, output = self.projections.pop(module)
            weigher = self._weigher(module, sublayer, returned, index)
            reduced = _Reduction(self.model, index, sublayer, weigher, context, output)
            notes.sublayers[order] = AttentionTrace(
                weights=reduced.weights_at(self.positions),
                value=weigher.value.to(self.model.compute_dtype),
                output=self._pick(output),
                contributions=reduced.contributions(notes.stream) if index < self.mixed_blocks else None,
            )

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
            self.notes[index].sublayers[order] = MlpTrace(output=self._pick(self._unbatch(written)))

        return keep

    def _leave(self, index: int) -> Callable[..., None]:
        def leave(_module: nn.Module, _args: Any, output: Any) -> None:
            stream = output[0] if isinstance(output, tuple) else output
            self.notes[index].stream = None
            self.notes[index].stream_out = self._pick(self._unbatch(stream))

        return leave

    def _unembed(self, _module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Unembed the explained positions only: a vocabulary is wide."""
        rows = self._unbatch(args[0])[self.positions]
        self.unembedded = rows.to(self.model.compute_dtype)
        return (rows[None], *args[1:])

    def _pick(self, stream: Float[Tensor, "stream model"]) -> Float[Tensor, "position model"]:
        return stream[self.positions.to(stream.device)].to(self.model.compute_dtype)

    def _unbatch(self, tensor: Tensor) -> Float[Tensor, "stream model"]:
        """Drop the batch axis of one prompt, also where a model has flattened it into the positions."""
        return tensor.reshape(-1, tensor.shape[-1])


@dataclass(frozen=True)
class _Reduction:
    """One attention sub-layer, reduced to what is kept of it."""

    model: Model
    index: int
    sublayer: Attention
    weigher: Weigher
    context: Float[Tensor, "stream written"]
    """What the model's own attention gave, heads side by side, before the output projection."""
    output: Float[Tensor, "stream model"]

    def weights_at(self, positions: Tensor) -> Float[Tensor, "position head source"]:
        weights = self.weigher.weigh(positions.to(self.context.device))
        return rearrange(weights, "head position source -> position head source")

    def contributions(self, stream: Float[Tensor, "stream model"] | None) -> Float[Tensor, "stream source"]:
        """Give C of this sub-layer, with norms after it frozen and applied to the parts."""
        assert stream is not None
        dtype, norm = self.model.compute_dtype, self.model.architecture.decoder.norm
        block = self.model.blocks[self.index]
        residual, output = stream.to(dtype), self.output.to(dtype)
        scale, projected = None, self._projected(block)
        if self.sublayer.norm_after is not None:
            frozen = freeze(module_at(block, self.sublayer.norm_after), norm, output)
            scale, projected, output = frozen.scale, frozen.map_rows(projected), frozen.apply(output)
        whole = residual + output
        if self.sublayer.norm_sum is not None:
            frozen = freeze(module_at(block, self.sublayer.norm_sum), norm, whole)
            residual, whole = frozen.map_vectors(residual), frozen.apply(whole)
            scale = frozen.scale if scale is None else scale * frozen.scale
            projected = frozen.map_rows(projected)

        def weigh(rows: slice) -> Float[Tensor, "head row source"]:
            weights = self.weigher.weigh(rows)[:, :, : rows.stop]
            self._prove_weights(weights, rows)
            return weights if scale is None else weights * scale[rows]

        return contribute(weigh, projected, residual, whole)

    def _projected(self, block: nn.Module) -> Float[Tensor, "source head model"]:
        """Give P[j, h] = v[h, j] W_O[h]: what a source writes through a head when it gets all the weight."""
        dtype = self.model.compute_dtype
        value = self.weigher.value.to(dtype)
        weight = output_weight(module_at(block, self.sublayer.output), dtype)
        weight = rearrange(
            weight,
            "(group shared dim) model -> group shared dim model",
            group=value.shape[0],
            dim=value.shape[2],
        )
        projected = einsum(
            value, weight, "group source dim, group shared dim model -> source group shared model"
        )
        return rearrange(projected, "source group shared model -> source (group shared) model")

    def _prove_weights(self, weights: Float[Tensor, "head row source"], rows: slice) -> None:
        """Compare the weights with what the model's own attention gave, along one direction per head.

        A wrong weight at any position changes the sum in almost every direction (Freivalds' check), so one
        fixed direction tells at the cost of reading the weights once.
        """
        value = self.weigher.value[:, : weights.shape[2]].to(weights.dtype)
        generator = torch.Generator().manual_seed(0)
        direction = torch.randn(value.shape[2], generator=generator).to(value)
        context = rearrange(
            self.context[rows].to(weights.dtype), "row (head dim) -> head row dim", head=weights.shape[0]
        )
        projected = (value @ direction).repeat_interleave(weights.shape[0] // value.shape[0], dim=0)
        require_close(
            "attention weights times values",
            f"block {self.index + 1}",
            found=(weights @ projected[..., None])[..., 0],
            expected=context @ direction,
            scale=projected.abs().amax(),
            tolerance=tolerance_of(self.model.dtype),
        )


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
    for name, parameter in model.network.named_parameters():
        if not parameter.isfinite().all():
            raise ModelError(
                f"The weights of {model.name} are not finite: {name} holds NaN or inf.",
                "Load a checkpoint without NaN or inf; nothing can be explained with this one.",
            )
    place = next(
        (
            f"block {index + 1}"
            for index, block in enumerate(trace.decoder.blocks)
            if not block.stream_out.isfinite().all()
        ),
        "the unembedding",
    )
    raise ModelError(
        f"{model.name} ({model.dtype}) gave NaN or inf for this prompt, first in {place}.",
        "Load it with dtype='float32': activations of some models overflow in half precision.",
    )
