"""Routes as a list: in the terminal and as CSV; and flow at every depth as CSV."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from ..document.kinds import Document
from .flow_grid import list_routes, require_flow
from .wording import signed

__all__ = ["list_depth_records", "render_depth_csv", "render_route_csv", "render_routes"]

_WIDEST = 18
"""Cells of the longest name that is shown whole."""


def render_routes(document: Document, width: int, top: int | None) -> Iterator[Text]:
    """List what heads move from position to position, strongest first, with bars."""
    routes, kept = list_routes(document, top), len(require_flow(document, "routes")["routes"])
    if not routes:
        yield Text("Attention moves nothing between positions.")
        return
    names = [name for route in routes for name in (route.source_name, route.destination_name)]
    room = min(_WIDEST, max(4, *map(cell_len, names)))
    last = max(2, *(len(f"{route.block}.{route.head}") for route in routes))
    bars = max(0, min(24, width - last - 2 * room - 20))
    strongest = abs(routes[0].amount)
    yield Text(
        f"{'head':>{max(4, last)}}  {set_cell_size('from', room)}   {set_cell_size('to', room)}", style="dim"
    )
    for route in routes:
        name = f"{route.block}.{route.head}".rjust(max(4, last))
        line = Text(
            f"{name}  {_fit(route.source_name, room)} → {_fit(route.destination_name, room)}", no_wrap=True
        )
        bar = ("▇" if route.amount > 0 else "░") * max(1, round(bars * abs(route.amount) / strongest))
        line.append(f"  {signed(route.amount):>6}  ").append(
            bar if bars else "", style="red" if route.amount > 0 else "blue"
        )
        yield line
    yield Text("")
    yield Text(
        f"head 3.5: block 3, head 5. The {len(routes)} strongest moves between positions, in logits, of "
        f"{kept} edges that are kept; -o routes.svg draws them.",
        style="dim",
    )


def _fit(name: str, room: int) -> str:
    return set_cell_size(name, room) if cell_len(name) <= room else set_cell_size(name, room - 1) + "…"


def render_route_csv(document: Document) -> str:
    """Give the routes of a document as CSV; blocks and heads count from 1, positions from 0."""
    tokens = document["tokens"]
    return _write(
        [
            {
                "block": route["block"] + 1,
                "head": route["head"] + 1,
                "from": route["source"],
                "from_text": tokens[route["source"]]["text"],
                "to": route["destination"],
                "to_text": tokens[route["destination"]]["text"],
                "amount": route["amount"],
            }
            for route in require_flow(document, "routes")["routes"]
        ],
        ["block", "head", "from", "from_text", "to", "to_text", "amount"],
    )


def render_depth_csv(document: Document) -> str:
    """Give flow as CSV: one line for each depth and token, and one for the biases above each depth."""
    records = list_depth_records(document)
    return _write(records, list(records[0]))


def list_depth_records(document: Document) -> list[dict[str, Any]]:
    """List flow at every depth and token, and what biases above every depth add, which have no token."""
    flow, records = require_flow(document), []
    nothing = dict.fromkeys(document["tokens"][0])
    for depth, (row, bias) in enumerate(zip(flow["by_depth"], flow["bias"], strict=True)):
        records += [
            {"depth": depth, "part": "token", "position": position, **token, "score": score}
            for position, (token, score) in enumerate(zip(document["tokens"], row, strict=True))
        ]
        records.append({"depth": depth, "part": "bias", "position": None, **nothing, "score": bias})
    return records


def _write(records: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    text = StringIO()
    writer = csv.DictWriter(text, fieldnames=columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()
