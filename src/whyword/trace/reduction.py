"""One attention sub-layer, reduced while it runs to what is kept of it."""

from dataclasses import dataclass
from functools import cached_property, lru_cache, partial

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from ..errors import ModelError
from ..maths.contributions import Contributions, contribute, contribute_across, contribute_both_ways
from ..maths.head_sums import prove_heads
from ..models.architecture import Attention
from ..models.model import LoadedStack, Model
from .attention import AttentionCall
from .direct_attention import ReturnedWeights
from .trace import Places
from .weight_proof import WeightProof
from .written_parts import AttentionOutput, write_parts

__all__ = ["Mixed", "Reduction", "Weigher"]

Weigher = AttentionCall | ReturnedWeights
"""Something that gives attention weights (`weigh`, `weigh_places`), and the values they weigh (`value`)."""


@dataclass(frozen=True)
class Mixed:
    """An attention sub-layer as a mix of what it read."""

    weights: Float[Tensor, "position head source"]
    """Attention weights of the explained positions."""
    contributions: Contributions
    """C of all positions."""
    stream: Float[Tensor, "example stream model"]
    """The stream after the sub-layer."""


@dataclass(frozen=True)
class Reduction:
    """What an attention sub-layer read and gave, at all positions."""

    model: Model
    stack: LoadedStack
    index: int
    """Which block, from 0."""
    sublayer: Attention
    weigher: Weigher
    context: Float[Tensor, "example stream written"]
    """What the model's own attention gave, heads side by side, before the output projection."""
    output: Float[Tensor, "example stream model"]
    proof: WeightProof
    """Takes what is compared when the network has run."""

    def __post_init__(self) -> None:
        sources, positions = self.weigher.value.shape[2], self.context.shape[1]
        if sources != positions and not self.sublayer.cross:
            raise ModelError(
                f"{self.stack.name_block(self.index)}: attention reads {sources} positions of a prompt of "
                f"{positions}.",
                "Let the network run without a cache or prefix of its own (past_key_values).",
            )

    def weigh(self, places: Places) -> Float[Tensor, "position head source"]:
        """Return the attention weights of the explained positions."""
        return self.weigher.weigh_places(places).transpose(1, 2).flatten(0, 1)

    def mix(
        self,
        places: Places,
        stream: Float[Tensor, "example stream model"],
        rows: int,
        lengths: tuple[int, ...] | None,
    ) -> Mixed:
        """Return the attention weights of the explained positions, and C of all, in chunks of rows.

        Norms and a multiplier after the sub-layer are applied to the parts, norms frozen. `lengths`: of the
        sources that an encoder reads.
        """
        value, sublayer = self.weigher.value, self.sublayer
        written = write_parts(
            AttentionOutput(self.model, self.stack, self.index, sublayer, value, self.output, stream)
        )
        explained: list[Tensor] = []
        weigh, workspace = partial(self._weigh_rows, places, written.scale, explained), self.model.workspace
        parts = written.projected, written.residual, written.whole
        if self._causal:
            contributions = contribute(weigh, *parts, rows, workspace)
        else:
            several = contribute_across if sublayer.cross else contribute_both_ways
            contributions = several(weigh, *parts, rows, lengths or (), workspace)
        weights = torch.cat(explained, dim=1).flatten(0, 1) if explained else self.weigh(places)
        return Mixed(weights, contributions, written.whole)

    def roll(self, rows: int) -> Contributions:
        """Return ½ A + ½ I of all positions, heads averaged, in chunks of rows [Abnar and Zuidema 2020]."""
        chunks, positions = [], self.output.shape[1]
        for start in range(0, positions, rows):
            chunk = slice(start, min(start + rows, positions))
            weights = self.weigher.weigh(chunk, chunk.stop)
            self._prove_weights(weights, chunk)
            half = weights.mean(1) / 2
            half.diagonal(start, 1, 2).add_(0.5)
            chunks.append(half)
        return Contributions(tuple(chunks))

    @property
    def _causal(self) -> bool:
        """Whether a row sees only what is not after it."""
        return self.stack.causal and not self.sublayer.cross

    def _weigh_rows(
        self,
        places: Places,
        scale: Float[Tensor, "example stream 1"] | None,
        explained: list[Tensor],
        rows: slice,
    ) -> Float[Tensor, "example head row source"]:
        """Return the proven attention weights of some rows, times their scale; keep the explained ones."""
        sources = self.weigher.value.shape[2]
        weights = self.weigher.weigh(rows, rows.stop if self._causal else sources)
        self._prove_weights(weights, rows)
        if places.shared is not None:
            first, last = max(rows.start, places.shared.start), min(rows.stop, places.shared.stop)
            if first < last:
                own = weights[:, :, first - rows.start : last - rows.start].transpose(1, 2)
                explained.append(pad(own, (0, sources - own.shape[3])))
        return weights if scale is None else weights * scale[:, None, rows]

    @cached_property
    def _read_values(
        self,
    ) -> tuple[Float[Tensor, "example value_head source"], Float[Tensor, "example value_head source"]]:
        """Return the values along the fixed direction, and their lengths: once for all rows."""
        value = self.weigher.value.to(self.model.compute_dtype)
        direction, _ = _fixed_direction(value.shape[3], value.dtype, value.device)
        return value.contiguous() @ direction, torch.linalg.vector_norm(value, dim=3)

    @property
    def _name(self) -> str:
        """What it is called in messages."""
        return self.stack.name_block(self.index) + (", cross-attention" if self.sublayer.cross else "")

    def _prove_weights(self, weights: Float[Tensor, "example head row source"], rows: slice) -> None:
        """Compare the weights with what the model's own attention gave, along one direction.

        A wrong weight at any position changes the sum in almost every direction (Freivalds' check), so one
        fixed direction tells, at the cost of reading the weights once. In half precision rounding is too
        large for that: there, what each head gave is compared in all directions.
        """
        heads, sources = weights.shape[1], weights.shape[3]
        if self.model.dtype.itemsize == 2:
            prove_heads(
                [self._name],
                weights.transpose(1, 2).flatten(0, 1)[None],
                self.weigher.value[None, :, :, :sources].to(weights),
                self.context[:, rows].flatten(0, 1)[None].to(weights),
                self.model.dtype,
            )
            return
        along, lengths = (each[:, :, :sources].to(weights) for each in self._read_values)
        longest = lengths.amax(2, keepdim=True)
        if along.shape[1] < heads:
            along, longest = (
                each.repeat_interleave(heads // along.shape[1], dim=1) for each in (along, longest)
            )
        context = self.context[:, rows].to(weights.dtype)
        context = context.view(*context.shape[:2], heads, -1)
        direction, length = _fixed_direction(context.shape[3], weights.dtype, weights.device)
        self.proof.gather(
            self._name,
            found=(along[:, :, None] @ weights.transpose(2, 3))[:, :, 0],  # this way round it is fastest
            expected=(context @ direction).transpose(1, 2),
            scale=longest * length,
        )


@lru_cache
def _fixed_direction(
    width: int, dtype: torch.dtype, device: torch.device
) -> tuple[Float[Tensor, " width"], float]:
    """Return a direction with components of all signs and sizes, the same on every call, and its length."""
    steps = torch.arange(1, width + 1, dtype=dtype, device=device)
    direction = (steps * steps).sin_()
    return direction, float(torch.linalg.vector_norm(direction))
