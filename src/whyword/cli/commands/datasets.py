"""whyword datasets: what there is to evaluate on, and what is in a folder."""

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...errors import InputError
from ..reporting import Debug, Json, print_json, reporting, tell

if TYPE_CHECKING:
    from ...data import Dataset

__all__ = ["datasets"]


@reporting
def datasets(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="DATASETS", help="Names of datasets or groups.", show_default="all that are there"
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option("--data", metavar="FOLDER", help="Where the files are, at any depth; or builtin."),
    ] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """List datasets: examples, rows left out and why, where the files are, and an example of each."""
    document = {"schema": "whyword.datasets/1", "datasets": [_describe(each) for each in _read(names, data)]}
    if json:
        print_json(document)
    else:
        _print(document)


def _read(names: list[str] | None, data: str | None) -> "list[Dataset]":
    """Read what was named; else whatever is in the folder, and the built-in suite."""
    from pathlib import Path

    from ...data import PUBLISHED, read_datasets
    from ...data.dataset_names import BUILTIN
    from ...data.file_layouts import holds_file

    if names or data == BUILTIN:
        return read_datasets(names or [BUILTIN], data)
    there = [] if data is None else [n for n, known in PUBLISHED.items() if holds_file(known, Path(data))]
    found: list[Dataset] = []
    for name in there:
        try:
            found += read_datasets([name], data)
        except InputError as error:  # the other files are still worth a look
            tell(error.wrong)
    return [*found, *read_datasets([BUILTIN])]


def _describe(dataset: "Dataset") -> dict[str, Any]:
    example = dataset.examples[0]
    return {
        "name": dataset.name,
        "title": dataset.title,
        "group": dataset.group,
        "phenomenon": dataset.phenomenon,
        "examples": len(dataset),
        "skipped": dict(Counter(each.reason for each in dataset.skipped)),
        "evidence": dataset.has_evidence,
        "hash": dataset.hash,
        "source": dataset.source,
        "example": {
            "prefix": example.prefix,
            "target": example.target,
            "foil": example.foil,
            "word": example.word,
            "phrase": example.phrase,
        },
    }


def _print(document: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    for each in document["datasets"]:
        left_out = ", ".join(f"{count} left out: {reason}" for reason, count in each["skipped"].items())
        facts = [
            f"{each['examples']} example{'s' if each['examples'] != 1 else ''}",
            *([left_out] if left_out else []),
            *([] if each["evidence"] else ["no evidence columns"]),
            each["source"],
        ]
        console.print(Text.assemble((each["name"], "bold"), f"  {each['title']}"))
        console.print(Text(f"    {'; '.join(facts)}", style="dim"))
        console.print(Text(f"    {_show(each['example'])}"))


def _show(example: dict[str, Any]) -> str:
    """Write an example on a line, its evidence in brackets."""
    prefix = example["prefix"]
    for start, end in reversed(example["word"]):
        prefix = f"{prefix[:start]}[{prefix[start:end]}]{prefix[end:]}"
    return f"{prefix} … {example['target']} / {example['foil']}"
