"""The files that a survey writes: the document, a table, and the figures."""

import json
from pathlib import Path

from ..document.kinds import Document
from ..runs.whole_files import write_file
from ..view.plots import has_plots
from ..view.unit_plots import render_heads, render_neurons, strongest_block
from ..view.unit_tables import render_unit_csv

__all__ = ["save_survey"]


def save_survey(document: Document, folder: Path) -> None:
    """Save a survey; one of neurons with a figure for every block, and a copy of the strongest block's.

    Without matplotlib there are no figures.
    """
    part = document["part"]
    folder.mkdir(parents=True, exist_ok=True)
    write_file(folder / f"{part}.json", json.dumps(document, ensure_ascii=False) + "\n")
    write_file(folder / f"{part}.csv", render_unit_csv(document))
    if not has_plots():
        return
    if part == "heads":
        write_file(folder / "heads.png", render_heads(document, "png"))
        return
    write_file(folder / "neurons.png", render_neurons(document, "png", strongest_block(document)))
    blocks = len(document["groups"][0]["update"])
    for block in range(blocks):
        write_file(folder / f"block-{block + 1:02}.png", render_neurons(document, "png", block))
