"""Tiny models of every catalogued family, as the doctor makes them, and prompts for them."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from whyword.models.testing.shrink import randomise
from whyword.models.testing.tiny_families import FAMILIES, build

__all__ = ["DISTINCT", "FAMILIES", "build", "other_weights", "prompt_of", "randomise"]

DISTINCT = (
    "bloom",
    "deepseek-v3",
    "falcon-multi-query",
    "gemma2",
    "gpt-neo",
    "gpt-neox-parallel",
    "gpt-oss",
    "gpt2",
    "granite",
    "llama",
    "mistral",
    "opt-post-norm-projected",
)
"""Families of which no two are described alike, for what does not depend on more than the description."""


def prompt_of(length: int, seed: int = 0) -> list[int]:
    """Make a prompt of token ids."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(3, 97, (length,), generator=generator).tolist()


@contextmanager
def other_weights(network: torch.nn.Module) -> Iterator[None]:
    """Change the last number of a network's last parameter for a while, unseen by torch's own count."""
    weight = list(network.parameters())[-1].data.view(-1)
    kept = weight[-1].clone()
    weight[-1] += 1
    try:
        yield
    finally:
        weight[-1] = kept
