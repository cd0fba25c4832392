"""Neurons in the terminal and as CSV: of one prediction, over a dataset, of one neuron."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from ..document.kinds import SURVEY_SCHEMA, Document
from ..errors import InputError
from .data_frames import frame_of
from .head_matrix import list_matrices, render_matrix
from .terminal_colour import colouring, paint_ground
from .wording import headline, label, prediction, signed

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = [
    "make_unit_frame",
    "print_ablation",
    "print_answers",
    "print_neurons",
    "print_survey",
    "render_unit_csv",
]

_SHOWN = 4
"""Tokens that are shown of those that a value vector promotes."""


def print_neurons(
    document: Document, console: Console, by: str | None = None, top: int | None = None
) -> None:
    """Print the neurons of one prediction; `top`: only the N that raise most and the N that lower most."""
    if by not in (None, "neuron"):
        raise InputError(f"by is {by!r}.", "Neurons are shown by neuron; heads with explain(...).show.")
    raising = [each for each in document["named"] if each["update"] >= 0][:top]
    lowering = [each for each in document["named"] if each["update"] < 0][:top]
    shown = {**document, "named": [*raising, *lowering]}
    with colouring(console):
        console.print(Group(*_render_neurons(shown, console)))


def _render_neurons(document: Document, console: Console) -> Iterator[RenderableType]:
    yield Text(headline(document), style="bold")
    yield Text(prediction(document))
    count = sum(len(block["update"]) for block in document["blocks"])
    last = label(document["tokens"][document["position"]]["text"])
    yield Text(f"{document['model']}, {count:,} MLP neurons at “{last}”", style="dim")
    yield Text("")
    colour = console.color_system is not None
    strongest = document["named"]
    largest = max((abs(each["update"]) for each in strongest), default=1.0)
    table = Table(box=None, pad_edge=False, expand=False)
    names = max((len(each["label"]) for each in strongest), default=6)
    for heading, width in (("neuron", max(6, names)), ("update", 6), ("activation", 10)):
        table.add_column(heading, justify="right", no_wrap=True, min_width=width)
    room = max(12, (console.width - max(6, names) - 6 - 10 - 4) // 2)
    for heading in ("its value vector promotes", "and suppresses"):
        table.add_column(heading, max_width=min(34, room), no_wrap=True, overflow="ellipsis")
    lowering = False
    for each in strongest:
        if each["update"] < 0 and not lowering:
            lowering = True
            table.add_row()
        style = paint_ground(each["update"], largest) if colour else None
        table.add_row(
            Text(each["label"], style="bold"),
            Text(signed(each["update"]), style=style or ""),
            f"{each['activation'] * each['gate']:+.2f}",
            Text(_tokens(each["promotes"])),
            Text(_tokens(each["suppresses"])),
        )
    yield table
    yield Text("")
    biases, mlps = sum(block["bias"] for block in document["blocks"]), sum(document["ledger"]["mlp"])
    updates = sum(sum(block["update"]) for block in document["blocks"])
    error = max(block["error"] for block in document["blocks"])
    entries = f"neurons {updates:+.3f}" + (f", biases {biases:+.3f}" if biases else "")
    yield Text(f"{entries} = {mlps:+.3f} = MLPs in the ledger, error {error:.0e}")
    yield Text("exact: sums · direct effects only · activation < 0 turns the two around", style="dim")
    yield Text("")


def _tokens(texts: Sequence[str]) -> str:
    return " ".join(label(text) for text in texts[:_SHOWN])


def _refuse_ways(by: str | None) -> None:
    if by is not None:
        raise InputError(f"by is {by!r}.", "There is one way to show this: leave it out.")


def print_survey(document: Document, console: Console, by: str | None = None, top: int | None = None) -> None:
    """Print the ranking of a survey; of heads, the heat map too; `top`: only the N strongest."""
    _refuse_ways(by)
    with colouring(console):
        console.print(Group(*_render_survey({**document, "ranked": document["ranked"][:top]}, console)))


def _render_survey(document: Document, console: Console) -> Iterator[RenderableType]:
    data = ", ".join(name for name, _ in document["data"])
    what = document["part"]
    yield Text(f"Which {what} decide? {data}", style="bold")
    groups = document["groups"]
    for group in groups:
        yield Text(f"{group['name']}: {group['examples']:,} examples, difference {group['logit']:+.2f}")
    yield Text(f"{document['model']}, mean update of every {what[:-1]} at the last token", style="dim")
    if document["skipped"]:
        yield Text(f"{sum(document['skipped'].values()):,} examples left out", style="dim")
    yield Text("")
    colour = console.color_system is not None
    means = [abs(value) for each in document["ranked"] for value in each["mean"].values()]
    largest = max(means, default=0.0) or 1.0
    table = Table(box=None, pad_edge=False)
    table.add_column(what[:-1], justify="right", no_wrap=True)
    for group in groups:
        table.add_column(group["name"], justify="right", no_wrap=True)
    if len(groups) == 1:
        table.add_column("deviation", justify="right", no_wrap=True)
    for each in document["ranked"]:
        cells = [
            Text(f"{value:+.3f}", style=(paint_ground(value, largest) if colour else None) or "")
            for value in (each["mean"][group["name"]] for group in groups)
        ]
        if len(groups) == 1:
            cells.append(Text(f"{each['deviation'][groups[0]['name']]:.3f}", style="dim"))
        table.add_row(Text(each["label"], style="bold"), *cells)
    yield table
    yield Text("")
    if what == "heads":
        for name, matrix in list_matrices(document):
            if len(groups) > 1:
                yield Text(name, style="bold")
            yield from render_matrix(matrix, console.width, numbers=not colour)
            yield Text("")
    named = [group["name"] for group in groups if group["name"] != "other"]
    order = "ranked by how much groups differ" if len(named) > 1 else "ranked by strength"
    yield Text(f"{order} · exact: sums · direct effects only", style="dim")
    yield Text("")


def print_answers(
    document: Document, console: Console, by: str | None = None, top: int | None = None
) -> None:
    """Print the examples where a neuron is most active; `top`: only N at each end."""
    _refuse_ways(by)
    console.print(Text(f"Which inputs does neuron {document['label']} answer to?", style="bold"))
    looked = f"{document['model']}, {document['examples']:,} examples"
    console.print(Text(f"{looked}; target and foil behind the prefix", style="dim"))
    for ends in ("highest", "lowest"):
        console.print()
        table = Table(box=None, pad_edge=False)
        for heading in ("activation", "update"):
            table.add_column(heading, justify="right", no_wrap=True)
        table.add_column(f"{ends} activation")
        for each in document[ends][:top]:
            text = Text(label(each["prefix"])).append(f"  {each['target']}", style="bold")
            text.append(f" / {each['foil']}", style="dim")
            table.add_row(f"{each['activation']:+.2f}", signed(each["update"]), text)
        console.print(table)


def print_ablation(
    document: Document, console: Console, by: str | None = None, top: int | None = None
) -> None:
    """Print what setting a neuron to its mean did; `top`: only the first N groups."""
    _refuse_ways(by)
    console.print(
        Text(f"What if neuron {document['label']} stayed at its mean, {document['mean']:+.2f}?", style="bold")
    )
    console.print(Text(f"{document['model']}; the mean is that of other examples than these", style="dim"))
    console.print()
    table = Table(box=None, pad_edge=False)
    table.add_column("held-out examples")
    for heading in ("n", "difference", "update", "predicted", "measured", "as predicted"):
        table.add_column(heading, justify="right", no_wrap=True)
    for effect in document["effects"][:top]:
        numbers = [signed(effect[name]) for name in ("logit", "update", "predicted", "measured")]
        table.add_row(Text(effect["group"]), str(effect["examples"]), *numbers, f"{effect['agreement']:.0%}")
    console.print(table)


def render_unit_csv(document: Document) -> str:
    """Write one row per neuron (or head): of a survey its mean in every group, else its update."""
    text = StringIO()
    rows = _list_rows(document)
    writer: Any = None
    for row in rows:
        if writer is None:
            writer = csv.DictWriter(text, fieldnames=list(row), lineterminator="\n")
            writer.writeheader()
        writer.writerow(row)
    return text.getvalue()


def make_unit_frame(document: Document) -> "DataFrame":
    """Return the same as a data frame (needs pandas, the extra `pandas`)."""
    return frame_of(list(_list_rows(document)))


def _list_rows(document: Document) -> Iterator[Mapping[str, Any]]:
    return _survey_rows(document) if document["schema"] == SURVEY_SCHEMA else _neuron_rows(document)


def _neuron_rows(document: Document) -> Iterator[Mapping[str, Any]]:
    for index, block in enumerate(document["blocks"]):
        place = 0
        for group in block["experts"]:
            for neuron in range(group["neurons"]):
                yield {
                    "block": index + 1,
                    "expert": "" if group["expert"] is None else group["expert"],
                    "neuron": neuron,
                    "gate": group["gate"],
                    "activation": block["activation"][place],
                    "update": block["update"][place],
                }
                place += 1


def _survey_rows(document: Document) -> Iterator[Mapping[str, Any]]:
    heads = document["part"] == "heads"
    for index in range(len(document["groups"][0]["update"])):
        groups = document["experts"][index] or [[None, len(document["groups"][0]["update"][index])]]
        place = 0
        for expert, size in groups:
            for neuron in range(size):
                own = {"head": neuron + 1} if heads else {"expert": expert, "neuron": neuron}
                means = {group["name"]: group["update"][index][place] for group in document["groups"]}
                yield {"block": index + 1, **own, **means}
                place += 1
