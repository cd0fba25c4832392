"""The built-in suite: balanced examples from the grammar, reproducible by seed."""

import random
from collections.abc import Sequence

from ..errors import InputError
from .dataset_names import SUITE
from .examples import Dataset, Example, hash_examples
from .grammar import GRAMMAR, Draft, unmark

__all__ = ["COUNT", "make_builtin"]

COUNT = 200
"""Default number of examples of each phenomenon."""
_TRIES = 200
"""How many draws in a row may bring nothing new before the grammar counts as exhausted."""


def make_builtin(name: str, count: int = COUNT, seed: int = 0) -> Dataset:
    """Make a dataset of the built-in suite; examples 0 and 1, 2 and 3, … form pairs."""
    if count < 2 or count % 2:
        raise InputError(f"{count} examples were requested.", "They come in pairs: ask for 2, 4, 6, …")
    known, draw = SUITE[name], GRAMMAR[name]
    dealer = _Dealer(f"{seed} {name}")
    drafts: dict[tuple[str, str], Draft] = {}
    tries = 0
    while len(drafts) < count:
        pair = draw(dealer.deal)
        keys = [(draft.marked, draft.target) for draft in pair]
        tries = tries + 1 if any(key in drafts for key in keys) else 0
        if tries > _TRIES:
            raise InputError(
                f"{name} has {len(drafts)} different examples, {count} were requested.", "Ask for fewer."
            )
        if tries == 0:
            drafts.update(zip(keys, pair, strict=True))
    examples = tuple(_number(name, row, draft) for row, draft in enumerate(drafts.values()))
    return Dataset(
        name=name,
        title=known.title,
        group=known.group,
        phenomenon=known.phenomenon,
        examples=examples,
        skipped=(),
        hash=hash_examples(examples),
        source=f"built-in suite, seed {seed}",
    )


class _Dealer:
    """Deals words like cards: each slot has its own pack, shuffled again when all of it was dealt."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)
        self.packs: dict[str, list[str]] = {}

    def deal(self, slot: str, words: Sequence[str]) -> str:
        if not self.packs.get(slot):
            pack = list(words)
            self.random.shuffle(pack)
            self.packs[slot] = pack
        return self.packs[slot].pop()


def _number(name: str, row: int, draft: Draft) -> Example:
    prefix, word, phrase = unmark(draft.marked)
    columns = {**draft.columns, "pair": str(row // 2)}
    return Example(name, row, prefix, draft.target, draft.foil, word, phrase, columns)
