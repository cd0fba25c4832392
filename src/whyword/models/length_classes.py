"""Prompt lengths at which a model may change what it does: sliding windows, the reach of its positions …

Every whole number in a config may be such a threshold, unless its name says that it is something else: it is
not asked what a model does with it. Lengths on the same side of all thresholds are one class.
"""

import re
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

__all__ = ["LengthClasses", "find_thresholds"]

_NO_LENGTH = re.compile(
    r".*_(token_ids?|token_index|dims?|heads?|layers?|experts?(_per_tok)?|rank|inner|embd|groups?|interval|version)"
    r"|(hidden|intermediate|moe_intermediate|vocab)_size(_per_layer_input)?|head_dim|n_inner|d_(model|kv|ff)"
    r"|(word_embed_proj|ffn|encoder_ffn|decoder_ffn|rotary)_dim|layer_types|architectures"
)
"""Names of sizes and ids, which no length is compared with."""
_SELECTED = re.compile(r"index(er)?_(top_?k|budget)")
"""Names of how many sources are selected: which ones of equal score depends on the whole length."""


def find_thresholds(config: Any) -> tuple[int, ...]:
    """Find the whole numbers of a config that a length could be compared with, in order."""
    return tuple(sorted({number for number in _list_numbers("", config) if number > 1}))


def _list_numbers(name: str, entry: Any) -> Iterator[int]:
    """List the whole numbers of a config that may be lengths, and of what is inside it."""
    return (number for name, number in _list_named(name, entry) if not _NO_LENGTH.fullmatch(name))


def _list_named(name: str, entry: Any) -> Iterator[tuple[str, int]]:
    """List the whole numbers of a config, and of what is inside it, with their names."""
    if isinstance(entry, int) and not isinstance(entry, bool):
        yield name, entry
    elif isinstance(entry, Mapping):
        for inner, each in entry.items():
            yield from _list_named(str(inner), each)
    elif isinstance(entry, Sequence) and not isinstance(entry, str):
        for each in entry:
            yield from _list_named(name, each)
    elif hasattr(entry, "to_dict"):
        yield from _list_named(name, vars(entry))


class LengthClasses:
    """The thresholds of a config, and the kinds of run that were compared with an untouched run."""

    def __init__(self, config: Any) -> None:
        self.state: Any = None
        """What the network was when they were compared; None: nothing is known yet."""
        self.read(config)

    def read(self, config: Any) -> None:
        """Read a config, and forget what was compared before."""
        self.thresholds = find_thresholds(config)
        self._grows = any(type_ == "dynamic" for type_ in _list_rope_types(config))
        """Whether positions are stretched by the whole length, padding included."""
        selected = (number for name, number in _list_named("", config) if _SELECTED.fullmatch(name))
        self._selected = min(selected, default=sys.maxsize)
        """The least number of sources that are selected; every longer prompt is a class of its own."""
        self.compared: set[Hashable] = set()

    def find(self, tokens: int) -> Hashable:
        """Return the class of a length: its place between the thresholds."""
        place = bisect_left(self.thresholds, tokens), bisect_right(self.thresholds, tokens)
        return (*place, tokens) if self._grows or tokens > self._selected else place


def _list_rope_types(config: Any) -> Iterator[Any]:
    """List how positions are encoded, of all kinds of block."""
    for name in ("rope_parameters", "rope_scaling"):
        found = getattr(config, name, None)
        if isinstance(found, Mapping):
            for each in (found, *(inner for inner in found.values() if isinstance(inner, Mapping))):
                yield each.get("rope_type", each.get("type"))
