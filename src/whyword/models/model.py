"""A loaded model, and its parts by the names of its description."""

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from ..errors import ModelError
from ..runs.foreign_code import has_foreign_code
from .adapters import find_adapters, name_with_adapters
from .architecture import Architecture, Mlp, Sublayer
from .asked_matrices import AskedMatrices
from .classifier import DecoderClassifier
from .exactness import measure_exactness
from .length_classes import LengthClasses
from .loaded_stack import LoadedStack, blocks_of
from .module_tree import ModuleTree
from .paths import module_at, optional_module
from .projection import Projection
from .weights import device_of
from .workspace import Workspace

__all__ = [
    "LoadedStack",
    "Model",
    "blocks_of",
    "find_down",
    "find_experts",
    "module_at",
    "optional_module",
    "stack_module",
]


@dataclass(frozen=True, eq=False, repr=False)
class Model:
    """A network with its tokenizer and the description by which it is explained.

    Parts are looked up once: load a network again after changing its type or its modules.
    """

    network: Any
    """The Hugging Face model. Nothing is stored on it."""
    tokenizer: Any | None
    """Its tokenizer, or None: then prompts, targets and foils are token ids."""
    architecture: Architecture
    base_name: str
    """What was loaded, without the adapters that act in it."""
    special_ids: frozenset[int] = frozenset()
    """Tokens that mark structure rather than text."""
    verify: str = "auto"
    """When recorded runs are compared with untouched ones: see `load`."""
    start: str = "auto"
    """What stands before a text: see `load`."""
    stored: torch.dtype | None = None
    """The type of the checkpoint, where the weights were converted since the CPU is slow at it."""
    wrappers: tuple[nn.Module, ...] = ()
    """What the network was wrapped in when it was loaded: compiled, parallel, with adapters."""
    adapter_name: str | None = None
    """What the adapter is called that was loaded from a folder, or from the hub."""

    def __repr__(self) -> str:
        reader = "no tokenizer" if self.tokenizer is None else type(self.tokenizer).__name__
        return (
            f"<Model {self.name}: {type(self.network).__name__}, {len(self.blocks)} blocks, {self.dtype}, "
            f"{self.device}, {reader}, described as {self.architecture.name}>"
        )

    @property
    def name(self) -> str:
        """What is explained, for people and documents: with the adapters that act in it now."""
        adapters = find_adapters(self.network, self.modules) if self._may_have_adapters else ()
        return name_with_adapters(self.base_name, adapters, self.adapter_name)

    @property
    def _may_have_adapters(self) -> bool:
        return hasattr(getattr(self.network, "classifier", self.network), "peft_config")

    def starting_with(self, start: str) -> "Model":
        """Return the model with something else before a text; itself, as it is, where that is the same."""
        return self if start == self.start else replace(self, start=start)

    @property
    def config(self) -> Any:
        """The config of the text decoder."""
        return self.network.config.get_text_config()

    @cached_property
    def dtype(self) -> torch.dtype:
        """The type of the weights; the least precise one where there are several."""
        floating = (parameter for parameter in self.network.parameters() if parameter.is_floating_point())
        types = {parameter.dtype for parameter in floating if parameter.dtype.itemsize > 1}
        return cast(torch.dtype, max(types, key=lambda dtype: torch.finfo(dtype).eps))

    @cached_property
    def exactness(self) -> torch.dtype:
        """The type whose rounding the sums are allowed: coarser than `dtype` where projections round more."""
        return measure_exactness(self.blocks, self.dtype, self.project)

    @property
    def computed_in(self) -> str:
        """The type that the network computes in, and why, for people and documents."""
        name, exactness = (str(each).removeprefix("torch.") for each in (self.dtype, self.exactness))
        said = (
            name if self.stored is None else f"{name} (the checkpoint is {self.stored})".replace("torch.", "")
        )
        if self.exactness == torch.int8:
            return f"{said}, projections read 8 bits"
        return said if exactness == name else f"{said}, projections in {exactness}"

    @cached_property
    def compute_dtype(self) -> torch.dtype:
        """The type updates are computed in: float32, or float64 for a float64 model."""
        return torch.promote_types(self.dtype, torch.float32)

    @property
    def device(self) -> torch.device:
        """Where the token ids go."""
        return device_of(self.network.get_input_embeddings())

    @cached_property
    def blocks(self) -> tuple[nn.Module, ...]:
        """The decoder's blocks."""
        return blocks_of(self.decoder, self.architecture.decoder)

    @cached_property
    def decoder(self) -> nn.Module:
        """The module that holds the decoder's blocks."""
        return stack_module(self.network)

    @cached_property
    def decoder_stack(self) -> LoadedStack:
        """The decoder."""
        return LoadedStack(self.architecture.decoder, self.decoder, self.blocks, causal=True)

    @property
    def stacks(self) -> tuple[LoadedStack, ...]:
        """The stacks in the order in which they run: the encoder, where there is one, and the decoder."""
        encoder = self.encoder_stack
        return (self.decoder_stack,) if encoder is None else (encoder, self.decoder_stack)

    @cached_property
    def encoder_stack(self) -> LoadedStack | None:
        """The encoder, None where there is none."""
        stack = self.architecture.encoder
        if stack is None:
            return None
        module = cast(nn.Module, self.network.get_encoder())
        return LoadedStack(stack, module, blocks_of(module, stack), causal=False)

    @property
    def modules(self) -> tuple[nn.Module, ...]:
        """The network and all modules inside it, as it is now."""
        return self._tree.read(self.network)

    @cached_property
    def _tree(self) -> ModuleTree:
        return ModuleTree()

    @cached_property
    def parameters(self) -> tuple[Tensor, ...]:
        """All parameters of the network."""
        return tuple(self.network.parameters())

    @cached_property
    def workspace(self) -> Workspace:
        """Buffers for the recorded run, of which there is one at a time."""
        return Workspace()

    @cached_property
    def lengths(self) -> LengthClasses:
        """Lengths at which the model may change what it does, and what was compared already."""
        return LengthClasses(self.config)

    @property
    def runs_alone(self) -> bool:
        """Whether prompts are run one by one: what a user's own code does in a batch is not known."""
        return self.verify != "load" and self.has_foreign_code

    @property
    def has_foreign_code(self) -> bool:
        """Whether a user's own code is in the network: hooks as they are now, the rest as last looked at."""
        found = self.lengths.state is not None and self.lengths.state.foreign
        return found or has_foreign_code(self.modules)

    @property
    def unembedding(self) -> nn.Module:
        """The module that turns the final residual stream into logits; resizing embeddings replaces it."""
        return cast(nn.Module, self.network.get_output_embeddings())

    def project(self, module: nn.Module) -> Projection:
        """Return a module as a linear map plus a bias."""
        exactness = partial(getattr, self, "exactness")
        return Projection(module, self.dtype, self.compute_dtype, exactness, self._projections)

    @cached_property
    def _projections(self) -> AskedMatrices:
        return AskedMatrices()

    def unembedding_rows(self, tokens: Int[Tensor, "*any"]) -> Float[Tensor, "*any unembedded"]:
        """Return U of some tokens: the directions in which their logits are read."""
        rows = self.project(self.unembedding).columns(tokens.flatten())
        return rows.view(*tokens.shape, -1)

    @property
    def vocabulary(self) -> int:
        """How many tokens can be read and predicted."""
        embedding = self.network.get_input_embeddings()
        read = int(getattr(embedding, "num_embeddings", None) or embedding.weight.shape[0])
        return read if self.labels is not None else min(self.project(self.unembedding).written, read)

    @property
    def labels(self) -> tuple[str, ...] | None:
        """The classes that are predicted in the place of tokens, None of a language model."""
        return self.network.labels if isinstance(self.network, DecoderClassifier) else None

    @property
    def most_tokens(self) -> int | None:
        """The longest prompt the model has positions for, None where there is no limit."""
        limits = (getattr(self.config, name, None) for name in ("max_position_embeddings", "max_seq_len"))
        return next((limit for limit in limits if limit is not None), None)

    @cached_property
    def logit_multiplier(self) -> float:
        """What the unembedding's output is multiplied by."""
        multiplier = self.number(self.architecture.logit_multiplier)
        divisor = self.number(self.architecture.logit_divisor)
        return (1.0 if multiplier is None else multiplier) / (1.0 if divisor is None else divisor)

    @property
    def logit_bias(self) -> Float[Tensor, " vocab"] | None:
        """What is added to the logits after the unembedding, where the model adds something."""
        name = self.architecture.logit_bias
        return None if name is None else self.network.get_buffer(name).detach().flatten()

    @cached_property
    def unembedded_scale(self) -> float:
        """What the stream is multiplied by between its final norm and the unembedding."""
        names = self.architecture.decoder.scaled_by_width
        scaled = names is not None and next(
            (getattr(self.config, name) for name in names.split("|") if name in vars(self.config)), False
        )
        return float(self.project(self.unembedding).read ** -0.5) if scaled else 1.0

    @cached_property
    def logit_cap(self) -> float | None:
        """The largest logit, where the model has one."""
        return self.number(self.architecture.logit_cap)

    def multiplier_of(self, sublayer: Sublayer) -> float:
        """Return the factor that multiplies what a sub-layer writes."""
        multiplier = self.number(sublayer.multiplier)
        return 1.0 if multiplier is None else multiplier

    def number(self, attribute: str | None) -> float | None:
        """Read a number that the description names from the config; None where there is none."""
        if attribute is None:
            return None
        try:
            number = getattr(self.config, attribute)
        except AttributeError:
            raise ModelError(
                f"The config of {self.name} has no attribute {attribute!r}.",
                "Name an existing one in the description.",
            ) from None
        return None if number is None else float(number)


def stack_module(network: Any) -> nn.Module:
    """Find the module that holds the decoder's blocks."""
    decoder = network.get_decoder()
    return cast(nn.Module, network.base_model if decoder is network else decoder)


def find_experts(block: nn.Module, mlp: Mlp) -> nn.Module | None:
    """Find the experts of a block's MLP; None where it is not a mixture."""
    return optional_module(module_at(block, mlp.output), mlp.experts.module)


def find_down(module: nn.Module, mlp: Mlp) -> nn.Module:
    """Find the projection through which the neurons of an MLP, or of one expert, write."""
    children = [name for name, _ in module.named_children()]
    found = optional_module(module, mlp.down) if children else module
    if found is None:
        raise ModelError(
            f"{type(module).__name__} has no module {mlp.down!r} that its neurons write through; it has "
            f"{', '.join(children)}.",
            "Name it in the description: Mlp(down=...).",
        )
    return found
