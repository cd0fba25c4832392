"""A translation depth by depth: where the logit of a word is, down the decoder and then down the encoder.

In a row of the decoder the source has what blocks above read of the encoder's output; in one of the encoder
it has what is in the encoder's own residual stream, and the prefix what it had where it entered the decoder.
Every row, with what biases add above it, adds up to the whole logit.
"""

from collections.abc import Sequence
from math import ceil

from ..attribute.methods import METHODS, TRANSLATION_METHODS
from ..document.kinds import Document
from ..errors import InputError
from .flow_grid import choose_depths
from .grid_rows import Grid, Row
from .translation_columns import Groups, group_tokens

__all__ = ["at_word", "lay_out_translation_depths"]

_MOST_ROWS = 8
"""Depths of each stack that are shown unless a number is given."""


def at_word(document: Document, word: int | None) -> Document:
    """Return the document with one explained word chosen, counted from 1.

    None: the word that is contrasted with another; where there is none, the whole translation.
    """
    first, tokens = document["first"], document["target"]["tokens"]
    words = group_tokens(document["target"], range(first, len(tokens)), "word")
    contrasted = [place for place, foil in enumerate(document["foils"]) if foil is not None]
    if word is not None and not 1 <= word <= len(words):
        raise InputError(f"word is {word}.", f"The translation has words 1 to {len(words)}.")
    if word is None and not contrasted:
        return {**document, "chosen": list(range(len(tokens) - first)), "chosen_name": None}
    chosen = next(
        own
        for index, own in enumerate(words)
        if (index + 1 == word if word is not None else contrasted[0] + first in own[1])
    )
    return {**document, "chosen": [place - first for place in chosen[1]], "chosen_name": chosen[0]}


def lay_out_translation_depths(document: Document, top: int | None = None) -> Grid:
    """Lay out the chosen word by depth: the decoder from the top, below it the encoder, biases last.

    `top`: how many depths of each stack at most.
    """
    if document.get("joint_flow") is None:
        having = [name for name in TRANSLATION_METHODS if METHODS[name].frozen]
        raise InputError(
            f"The method {document['method']} has no flow.", f"Methods that have: {', '.join(having)}."
        )
    if top is not None and top < 1:
        raise InputError(f"top is {top}.", "Show at least one.")
    document = document if "chosen" in document else at_word(document, None)
    sources = group_tokens(document["source"], range(len(document["source"]["tokens"])), "word")
    last = document["first"] + max(document["chosen"])  # what comes later is not seen
    prefix = group_tokens(document["target"], range(last), "word")
    decoder, encoder = _add_up(document, sources, prefix)
    rows: list[Row] = []
    for name, amounts, read in (("decoder", decoder, 0), ("encoder", encoder, ceil((len(encoder) - 1) / 10))):
        for depth in reversed(choose_depths(amounts, read, top or _MOST_ROWS)):
            note = "◂ scores" if name == "encoder" and depth == read else ""
            rows.append(Row(f"{name} {depth}", tuple(amounts[depth]), note=note))
    return Grid(
        "depth",
        (*(name for name, _ in (*sources, *prefix)), "bias"),
        tuple(rows),
        None,
        split=len(sources),
        hidden=len(decoder) + len(encoder) - len(rows),
        kept=(len(sources) + len(prefix),),
    )


def _add_up(
    document: Document, sources: Groups, prefix: Groups
) -> tuple[list[list[float]], list[list[float]]]:
    """Add up the chosen tokens: of both stacks every depth, over words of source and prefix, and biases."""
    flow, chosen = document["joint_flow"], document["chosen"]

    def over(amounts: Sequence[Sequence[Sequence[float]]], depth: int, groups: Groups) -> list[float]:
        return [sum(amounts[step][depth][place] for step in chosen for place in own) for _, own in groups]

    bias = [sum(flow["bias"][step][depth] for step in chosen) for depth in range(len(flow["bias"][0]))]
    decoder = [
        [*over(flow["read"], depth, sources), *over(flow["prefix"], depth, prefix), added]
        for depth, added in enumerate(bias)
    ]
    encoder = [
        [
            *over(flow["source"], depth, sources),
            *over(flow["prefix"], 0, prefix),
            bias[0] + sum(flow["encoder_bias"][step][depth] for step in chosen),
        ]
        for depth in range(len(flow["encoder_bias"][0]))
    ]
    return decoder, encoder
