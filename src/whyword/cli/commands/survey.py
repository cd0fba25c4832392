"""whyword survey: what neurons, or heads, add on average over datasets."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...errors import InputError
from ..engine_options import ClusterAddress, EngineChoice, EngineName, Resources, WorkerCount
from ..interruption import keeping_interrupts, name_command, say_kept, when_stopped
from ..options import DataFolder, DatasetNames, Limit, SplitText, UnitOutput
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

if TYPE_CHECKING:
    from ...data import Dataset
    from ...models import Model
    from ...pipeline.model_source import ModelSource
    from ...runs.engine import Workers

__all__ = ["survey"]


@reporting
def survey(
    datasets: DatasetNames,
    data: DataFolder = None,
    model: ModelName = None,
    split: SplitText = None,
    heads: Annotated[bool, typer.Option("--heads", help="Attention heads instead of neurons.")] = False,
    neuron: Annotated[
        str | None,
        typer.Option(
            "--neuron",
            metavar="NAME",
            help="Show the examples where this neuron (12.383) is most active instead.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="RUN",
            help="Folder for sums, tables and figures; a run that was stopped is resumed.",
        ),
    ] = None,
    limit: Limit = None,
    top: Annotated[int, typer.Option("--top", min=1, metavar="N", help="Show the N strongest.")] = 10,
    output: UnitOutput = None,
    engine: EngineChoice = EngineName.local,
    workers: WorkerCount = 1,
    address: ClusterAddress = None,
    resources: Resources = None,
    start: StartToken = "auto",
    dtype: Dtype = None,
    allow: Allow = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Show what neurons (or heads) add on average over datasets, by group; or when one neuron is active."""
    from rich.console import Console

    from ...document.kinds import ANSWERS_SCHEMA, SURVEY_SCHEMA
    from ...inside.split import read_split
    from ...pipeline.model_source import find_model
    from ...runs.engine import Workers, read_resources
    from ...view.saving import require_format
    from ...view.showing import print_by_kind

    if neuron is not None and (out or heads or split):
        raise InputError(
            "--neuron was given with --out, --heads or --split.", "It needs none of them: leave them out."
        )
    for path in output or []:
        require_format(path, SURVEY_SCHEMA if neuron is None else ANSWERS_SCHEMA)
    crew = Workers(workers, address=address, resources=read_resources(resources))
    groups, read = read_split(split), read_dataset_files(datasets, data)
    (loaded,) = open_models(None if model is None else [model], dtype=dtype, allow=allow or (), start=start)
    if neuron is None:
        document = _survey(
            (loaded, find_model(model, crew, dtype=dtype, allow=allow or (), start=start)),
            read,
            groups,
            "heads" if heads else "neurons",
            (out, limit, top),
            (engine.value, crew),
        )
    else:
        from ...inside.top_examples import find_answers

        with show_progress(f"Looking into {loaded.name} …"):
            document = find_answers(loaded, read, neuron, top=top, limit=limit).to_dict()
    saved = save_files([document], output)
    if json:
        print_json(document)
    else:
        print_by_kind(document, Console(highlight=False))
    for line in saved:
        tell(line)


def _survey(
    model: "tuple[Model, ModelSource]",
    datasets: "list[Dataset]",
    split: Any,
    part: str,
    asked: tuple[Path | None, int | None, int],
    where: "tuple[str, Workers]",
) -> dict[str, Any]:
    from ...inside.survey import survey
    from ...inside.survey_files import save_survey
    from ...inside.tally import count_examples

    out, limit, top = asked

    def say() -> str:
        if out is None:
            return f"nothing was kept. A run that can be resumed: {name_command()} --out RUN"
        return say_kept(out, count_examples(out / f"{part}.safetensors"), "examples")

    with when_stopped(say), keeping_interrupts(), show_progress(f"Looking into {model[0].name} …"):
        document = survey(
            model[0],
            datasets,
            part=part,
            split=split,
            folder=out,
            limit=limit,
            engine=where[0],
            workers=where[1],
            source=model[1],
        ).to_dict(top)
        if out is not None:
            save_survey(document, out)
    if out is not None:
        tell(f"Saved {out}")
    return document
