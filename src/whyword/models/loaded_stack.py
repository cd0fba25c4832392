"""A stack of blocks of a loaded network: a decoder or an encoder."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

from torch import nn

from .architecture import Stack
from .paths import module_at

__all__ = ["LoadedStack", "blocks_of"]


@dataclass(frozen=True, eq=False, repr=False)
class LoadedStack:
    """A stack of a network: its description, and its modules."""

    stack: Stack
    module: nn.Module
    """The module that holds the blocks."""
    blocks: tuple[nn.Module, ...]
    causal: bool
    """Whether a position sees only itself and those before it: in a decoder, not in an encoder."""

    def in_blocks(self, path: str) -> list[nn.Module]:
        """Find a module in every block."""
        return [module_at(block, path) for block in self.blocks]

    def name_block(self, index: int) -> str:
        """Name a block for people, who count from 1."""
        return f"{'' if self.causal else 'encoder '}block {index + 1}"

    def name_blocks(self) -> list[str]:
        """Name all blocks."""
        return [self.name_block(index) for index in range(len(self.blocks))]


def blocks_of(module: nn.Module, stack: Stack) -> tuple[nn.Module, ...]:
    """List the blocks of a stack."""
    return tuple(cast(Iterable[nn.Module], module_at(module, stack.blocks)))
