"""whyword models: what can be explained, and what is already here."""

from typing import Annotated, Any

import typer

from ..reporting import Debug, Json, print_json, reporting, show_progress, tell

__all__ = ["models"]


@reporting
def models(
    fetch: Annotated[
        str | None,
        typer.Option("--fetch", metavar="NAME", help="Fetch a model that needs no hub, and keep it."),
    ] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """List catalogued families, models that need no hub, and those in the cache."""
    from ...models.bundled.fetch import fetch as fetch_model

    if fetch is not None:
        with show_progress(f"Fetching {fetch} …"):
            folder = fetch_model(fetch)
        tell(f"{fetch} is in {folder}")
        return
    document = _list()
    if json:
        print_json(document)
    else:
        _print(document)


def _list() -> dict[str, Any]:
    from ...models.bundled.fetch import DEFAULT, FETCHABLE, cached
    from ...models.bundled.starts import choose_start, list_records
    from ...models.catalogue import CATALOGUE

    here = {entry.name: entry for entry in cached()}
    return {
        "schema": "whyword.models/1",
        "families": sorted(CATALOGUE),
        "models": [
            {
                "name": name,
                "about": source.about,
                "licence": source.licence,
                "default": name == DEFAULT,
                "folder": str(here[name].folder) if name in here else None,
                "bytes": here[name].size if name in here else None,
                "intact": here[name].intact if name in here else None,
            }
            for name, source in FETCHABLE.items()
        ],
        "starts": [
            {name: record[name] for name in ("model", "weights", "likelihoods")}
            | {"start": choose_start(record["likelihoods"])}
            for record in list_records()
        ],
    }


def _print(document: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    console.print("[bold]Families[/] with an entry of their own; others are tried, and the proof decides:")
    console.print(Text("  " + ", ".join(document["families"])))
    console.print()
    console.print("[bold]Models[/] that need no hub (whyword models --fetch NAME):")
    for model in document["models"]:
        default = ", the default" if model["default"] else ""
        state = "not fetched yet"
        if model["folder"] is not None:
            state = f"cached, {model['bytes'] / 1e6:.0f} MB" + (
                "" if model["intact"] else ", DAMAGED: fetched again when used"
            )
        console.print(Text(f"  {model['name']}{default} ({state})"))
        console.print(Text(f"      {model['about']}; {model['licence']}", style="dim"))
    if document["starts"]:
        console.print()
        console.print("[bold]Starts of text[/] that were found, in nats per token of plain sentences:")
    for found in document["starts"]:
        ranked = sorted(found["likelihoods"].items(), key=lambda each: -each[1])
        listed = ", ".join(f"{name} {value:.2f}" for name, value in ranked)
        console.print(Text(f"  {found['model']} ({found['weights'][:12]}): {found['start']}"))
        console.print(Text(f"      {listed}", style="dim"))
    console.print()
    console.print("Any other model: -m with a name on the hub, a folder with safetensors, or a .gguf file.")
