"""Flow as rows of depth over columns of tokens, and the routes that it takes between positions.

Depth d is after block d; 0 is before block 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ..attribute.methods import METHODS
from ..document.kinds import Document, is_comparison, is_continuation, is_translation
from ..errors import InputError
from .grid_rows import Grid, Row
from .quoting import tell_apart
from .verdict import find_reading_depth
from .wording import token_labels

__all__ = [
    "NamedRoute",
    "choose_depths",
    "cut_routes",
    "lay_out_depths",
    "list_routes",
    "measure_moves",
    "require_flow",
]

_MOST_ROWS = 13
"""Depths that are shown unless a number is given: they fit a screen with what stands around them."""
_BUSIEST = 3
"""Blocks that are always shown from both sides, because they move most."""
ROUTES = 40
"""Routes that are shown unless a number is given."""


def require_flow(document: Document, by: str = "depth") -> Document:
    """Give what a document says about flow; refuse one that has none."""
    kind = "continuation" if is_continuation(document) else "comparison" if is_comparison(document) else None
    if is_translation(document):
        kind = "translation"
    if kind is not None:
        raise InputError(
            f"A {kind} is not shown by {by}.", "Explain one token by one method to see where it comes from."
        )
    flow: Document | None = document.get("flow")
    if flow is None:
        having = ", ".join(name for name, method in METHODS.items() if method.frozen)
        raise InputError(f"The method {document['method']} has no flow.", f"Methods that have: {having}.")
    return flow


def lay_out_depths(document: Document, top: int | None = None, *, all_depths: bool = False) -> Grid:
    """Lay out flow: depths from the top, few enough to fit a screen; biases are the last column.

    `top`: how many depths at most; the first, the last and those where most moves are always shown.
    """
    flow = require_flow(document)
    by_depth, bias = flow["by_depth"], flow["bias"]
    biased = any(bias)
    amounts = [[*row, added] if biased else list(row) for row, added in zip(by_depth, bias, strict=True)]
    read = find_reading_depth(document)
    chosen = range(len(amounts)) if all_depths else choose_depths(amounts, read, top or _MOST_ROWS)
    columns = token_labels(document)
    rows = {
        depth: Row(str(depth), tuple(amounts[depth]), note="◂ scores" if depth == read else "")
        for depth in chosen
    }
    return Grid(
        "depth",
        (*columns, "bias") if biased else tuple(columns),
        tuple(rows[depth] for depth in sorted(rows, reverse=True)),
        None,
        hidden=len(amounts) - len(rows),
        kept=(len(columns),) if biased else (),
        tint=Row("scores", (*document["scores"], *([bias[read]] if biased else []))),
    )


def measure_moves(amounts: Sequence[Sequence[float]]) -> list[float]:
    """Say how much moves between each depth and the next: half of what changes, as it leaves and arrives."""
    return [
        sum(abs(above - below) for below, above in zip(row, after, strict=True)) / 2
        for row, after in pairwise(amounts)
    ]


def choose_depths(amounts: Sequence[Sequence[float]], read: int, most: int) -> list[int]:
    """Choose first and last, the one that is read, both sides of where most moves, and every n-th."""
    last, moves = len(amounts) - 1, measure_moves(amounts)
    busiest = sorted(range(last), key=lambda block: -moves[block])
    always = [last, 0, read, *(depth for block in busiest[:_BUSIEST] for depth in (block + 1, block))]
    chosen = list(dict.fromkeys(always))[:most]
    for step in range(1, last + 1):
        spread = sorted({*chosen, *range(last, -1, -step)})
        if len(spread) <= most:
            return spread
    return sorted(chosen)


@dataclass(frozen=True)
class NamedRoute:
    """What one attention head moves from one position to another; blocks and heads count from 1."""

    block: int
    head: int
    source: int
    destination: int
    source_name: str
    destination_name: str
    amount: float


def list_routes(document: Document, top: int | None = None) -> list[NamedRoute]:
    """List what heads move between positions, strongest first; what stays at its position does not move."""
    if top is not None and top < 1:
        raise InputError(f"routes is {top}.", "Show at least one.")
    flow = require_flow(document, "routes")
    names = tell_apart(token_labels(document))
    moving = [route for route in flow["routes"] if route["source"] != route["destination"]]
    return [
        NamedRoute(
            route["block"] + 1,
            route["head"] + 1,
            route["source"],
            route["destination"],
            names[route["source"]],
            names[route["destination"]],
            route["amount"],
        )
        for route in moving[: ROUTES if top is None else top]
    ]


def cut_routes(document: Document, top: int | None) -> dict[str, Any]:
    """Give a document with the strongest routes between positions alone."""
    flow = require_flow(document, "routes")
    moving = [route for route in flow["routes"] if route["source"] != route["destination"]]
    return {**document, "flow": {**flow, "routes": moving[: ROUTES if top is None else top]}}
