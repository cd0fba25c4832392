"""Routes as a graph of positions × depth: PNG and SVG (matplotlib), and LaTeX.

What stays at its position goes straight up; what a head moves goes from one position to another. Widths are
amounts, red raises and blue lowers.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from ..document.kinds import Document
from .flow_grid import NamedRoute, list_routes, require_flow
from .latex import escape_latex, write_latex
from .plots import drawing, require_plots, write_figure
from .quoting import tell_apart
from .wording import after, headline, prediction, proof, signed, small_print, token_labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Graph", "lay_out_routes", "render_route_latex", "render_route_plot"]

_MOST_POSITIONS = 24
"""Positions up to which all are shown; of more, those where something arrives or leaves."""
_WIDEST = 11.0
"""Width of the largest amount, in points."""
_NAMED = 8
"""Routes whose head is written beside them."""
_RED, _BLUE = "#b3001b", "#1a3fc4"


@dataclass(frozen=True)
class Graph:
    """Positions and what goes between them."""

    positions: tuple[int, ...]
    """Those that are shown, in order."""
    names: tuple[str, ...]
    """Their tokens."""
    stays: tuple[tuple[float, ...], ...]
    """Flow by depth and shown position."""
    routes: tuple[NamedRoute, ...]
    """Strongest first."""

    @property
    def largest(self) -> float:
        """The largest amount."""
        amounts = [abs(amount) for row in self.stays for amount in row]
        return max([*amounts, *(abs(route.amount) for route in self.routes)], default=0.0) or 1.0

    def place(self, position: int) -> int:
        """Give the column of a position."""
        return self.positions.index(position)

    def skips(self, column: int) -> bool:
        """Say whether positions are left out before a column."""
        before = self.positions[column - 1] if column else -1
        return self.positions[column] != before + 1


def lay_out_routes(document: Document) -> Graph:
    """Lay out all routes of a document; of a long prompt, the positions that they touch."""
    flow, routes = (
        require_flow(document, "routes"),
        list_routes(document, len(document["flow"]["routes"]) or 1),
    )
    by_depth, count = flow["by_depth"], len(document["tokens"])
    positions: list[int] = list(range(count))
    if count > _MOST_POSITIONS:
        touched = dict.fromkeys(
            [document["position"], *(each for route in routes for each in (route.source, route.destination))]
        )
        positions = sorted(list(touched)[:_MOST_POSITIONS])
        routes = [route for route in routes if {route.source, route.destination} <= set(positions)]
    names = tell_apart(token_labels(document))
    return Graph(
        tuple(positions),
        tuple(names[position] for position in positions),
        tuple(tuple(row[position] for position in positions) for row in by_depth),
        tuple(routes),
    )


def render_route_plot(document: Document, form: str) -> bytes:
    """Render the graph of routes: `form` is "png" or "svg"."""
    require_plots()
    from matplotlib.figure import Figure

    graph = lay_out_routes(document)
    width, height = max(6.2, 1.2 + 0.85 * len(graph.positions)), 2.2 + 0.17 * len(graph.stays)
    with drawing():
        figure = Figure(figsize=(width, height), dpi=160, layout="constrained")
        axes = figure.subplots()
        _draw_stays(axes, graph)
        _draw_routes(axes, graph)
        _draw_frame(axes, graph)
        title = [headline(document), prediction(document), after(document)]
        figure.suptitle("\n".join(title), fontsize=9, x=0.01, ha="left")
        foot = [*small_print(document, "logits", "routes"), _say(graph, document), proof(document)]
        figure.supxlabel("\n".join(foot), fontsize=6, x=0.01, ha="left")
        return write_figure(figure, form)


def _say(graph: Graph, document: Document) -> str:
    hidden = len(document["tokens"]) - len(graph.positions)
    left_out = f"; {hidden} tokens that none of them touches are left out" if hidden else ""
    return f"the {len(graph.routes)} strongest routes; block.head beside the first of them{left_out}"


def _draw_stays(axes: "Axes", graph: Graph) -> None:
    """Draw what is at each position, depth by depth."""
    from matplotlib.collections import LineCollection

    lines, widths, colours = [], [], []
    for depth, (row, above) in enumerate(pairwise(graph.stays)):
        for column, (one, other) in enumerate(zip(row, above, strict=True)):
            amount = (one + other) / 2
            lines.append([(column, depth), (column, depth + 1)])
            widths.append(_WIDEST * abs(amount) / graph.largest)
            colours.append(_RED if amount > 0 else _BLUE)
    axes.add_collection(LineCollection(lines, linewidths=widths, colors=colours, alpha=0.25, capstyle="butt"))


def _draw_routes(axes: "Axes", graph: Graph) -> None:
    """Draw what heads move, the strongest on top."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    for rank, route in reversed(list(enumerate(graph.routes))):
        start, end = graph.place(route.source), graph.place(route.destination)
        low, high = route.block - 1, route.block
        points = [(start, low), (start, low + 0.7), (end, high - 0.7), (end, high)]
        curve = Path(points, [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4])
        colour = _RED if route.amount > 0 else _BLUE
        thickness = max(0.4, _WIDEST * abs(route.amount) / graph.largest)
        axes.add_patch(PathPatch(curve, fill=False, edgecolor=colour, linewidth=thickness, alpha=0.85))
        if rank < _NAMED:
            axes.annotate(
                f"{route.block}.{route.head}",
                ((start + end) / 2, route.block - 0.5),
                fontsize=5.5,
                ha="center",
                va="center",
                bbox={
                    "boxstyle": "round,pad=0.15",
                    "facecolor": "white",
                    "edgecolor": colour,
                    "linewidth": 0.4,
                },
            )


def _draw_frame(axes: "Axes", graph: Graph) -> None:
    depths = len(graph.stays) - 1
    names = [f"… {name}" if graph.skips(column) else name for column, name in enumerate(graph.names)]
    axes.set_xticks(range(len(names)), names, fontsize=7, rotation=45, ha="right", rotation_mode="anchor")
    step = max(1, round(depths / 10))
    axes.set_yticks(
        range(0, depths + 1, step), [str(depth) for depth in range(0, depths + 1, step)], fontsize=7
    )
    axes.set_xlim(-0.6, len(names) - 0.4)
    axes.set_ylim(-0.3, depths + 0.3)
    axes.set_ylabel("depth", fontsize=8)
    axes.grid(axis="y", color="0.93", linewidth=0.5)
    axes.set_axisbelow(True)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


_PAGE = (170.0, 190.0)
"""Width and height of the graph in LaTeX, in millimetres, at most."""


def render_route_latex(document: Document) -> str:
    """Render the graph of routes as LaTeX, in a picture that needs no package."""
    graph = lay_out_routes(document)
    head = [headline(document), prediction(document), after(document)]
    foot = [*small_print(document, "logits", "routes"), _say(graph, document), proof(document)]
    return write_latex(head, list(_picture(graph)), foot)


def _picture(graph: Graph) -> Iterator[str]:
    depths = len(graph.stays) - 1
    wide = min(22.0, _PAGE[0] / max(1, len(graph.positions)))
    tall = min(12.0, _PAGE[1] / max(1, depths))
    width, height = wide * len(graph.positions), tall * depths
    yield r"{\setlength{\unitlength}{1mm}\renewcommand{\qbeziermax}{3000}\tiny"
    yield rf"\begin{{picture}}({width + 12:.1f},{height + 22:.1f})(-10,-20)"
    for depth in range(0, depths + 1, max(1, round(depths / 10))):
        yield rf"\put(-3,{tall * depth:.1f}){{\makebox(0,0)[r]{{{depth}}}}}"
    for column, name in enumerate(graph.names):
        shown = escape_latex(f"… {name}" if graph.skips(column) else name)
        place = f"{(column + 0.5) * wide:.1f},{-3 - 4 * (column % 3)}"
        yield rf"\put({place}){{\makebox(0,0)[t]{{{shown}}}}}"
    for depth, (row, above) in enumerate(pairwise(graph.stays)):
        for column, (one, other) in enumerate(zip(row, above, strict=True)):
            amount, across = (one + other) / 2, (column + 0.5) * wide
            if abs(amount) >= 0.01 * graph.largest:
                ends = ((across, tall * depth), (across, tall * (depth + 1)))
                yield _curve(ends, amount, graph.largest, faint=True)
    for rank, route in reversed(list(enumerate(graph.routes))):
        start, end = ((graph.place(each) + 0.5) * wide for each in (route.source, route.destination))
        ends = ((start, tall * (route.block - 1)), (end, tall * route.block))
        yield _curve(ends, route.amount, graph.largest, faint=False)
        if rank < _NAMED:
            middle = f"{(start + end) / 2:.1f},{tall * (route.block - 0.5):.1f}"
            named = f"{route.block}.{route.head} {signed(route.amount)}"
            yield rf"\put({middle}){{\makebox(0,0){{\colorbox{{white}}{{{escape_latex(named)}}}}}}}"
    yield r"\end{picture}\par}"


def _curve(
    ends: tuple[tuple[float, float], tuple[float, float]], amount: float, largest: float, *, faint: bool
) -> str:
    (left, low), (right, high) = ends
    shade = 0.75 if faint else 0.0
    colour = (
        f"{0.7 + 0.3 * shade:.2f},{shade:.2f},{shade:.2f}" if amount > 0 else f"{shade:.2f},{shade:.2f},0.9"
    )
    points = (
        f"({left:.2f},{low:.2f})({(left + right) / 2:.2f},{(low + high) / 2:.2f})({right:.2f},{high:.2f})"
    )
    thickness = max(0.3, 0.6 * _WIDEST * abs(amount) / largest)
    return rf"{{\color[rgb]{{{colour}}}\linethickness{{{thickness:.2f}pt}}\qbezier{points}}}%"
