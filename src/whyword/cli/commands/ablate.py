"""whyword ablate: what setting a neuron to its mean does."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ..options import DataFolder, DatasetNames, Limit, SplitText
from ..reporting import (
    Allow,
    Debug,
    Dtype,
    Json,
    ModelName,
    StartToken,
    print_json,
    reporting,
    show_progress,
    tell,
)
from ..saved_files import save_files
from ..sources import open_models, read_dataset_files

__all__ = ["ablate"]


@reporting
def ablate(
    datasets: DatasetNames,
    neuron: Annotated[
        list[str],
        typer.Option(
            "--neuron",
            metavar="NAME",
            help="The neuron: 12.383 is neuron 383 of block 12; may be given several times.",
        ),
    ],
    data: DataFolder = None,
    model: ModelName = None,
    split: SplitText = None,
    limit: Limit = None,
    output: Annotated[
        list[Path] | None,
        typer.Option("--output", "-o", metavar="FILE", help="Save as .json; may be given several times."),
    ] = None,
    start: StartToken = "auto",
    dtype: Dtype = None,
    allow: Allow = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Set neurons to their mean, one at a time, and measure what that does to examples held out."""
    from rich.console import Console

    from ...document.kinds import ABLATION_SCHEMA
    from ...inside.ablation import ablate
    from ...inside.split import read_split
    from ...view.saving import require_format
    from ...view.showing import print_by_kind

    for path in output or []:
        require_format(path, ABLATION_SCHEMA)

    groups, read = read_split(split), read_dataset_files(datasets, data)
    (loaded,) = open_models(None if model is None else [model], dtype=dtype, allow=allow or (), start=start)
    documents: list[dict[str, Any]] = []
    for name in (name for each in neuron for name in each.split(",")):
        with show_progress(f"Looking into {loaded.name} …"):
            documents.append(ablate(loaded, read, name, split=groups, limit=limit).to_dict())
        if not json:
            print("\n" if len(documents) > 1 else "", end="")
            print_by_kind(documents[-1], Console(highlight=False))
    saved = save_files(documents, output)
    if json:
        print_json(documents[0] if len(documents) == 1 else documents)
    for line in saved:
        tell(line)
