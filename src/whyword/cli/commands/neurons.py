"""whyword neurons: which MLP neurons, or heads, made the model prefer one word over another."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...errors import InputError
from ..reporting import Allow, Bos, Chat, Debug, Dtype, Json, print_json, reporting, show_progress, tell
from ..sources import open_models, read_source, read_word

if TYPE_CHECKING:
    from ...data import Dataset
    from ...models import Model

__all__ = ["neurons"]


@reporting
def neurons(
    prompt: Annotated[
        str | None, typer.Argument(help="The text before the word; - reads it from stdin.")
    ] = None,
    target: Annotated[
        str | None, typer.Option("--target", "-t", help="The word. Default: the model's first choice.")
    ] = None,
    foil: Annotated[
        list[str] | None, typer.Option("--foil", "-f", help="What it is compared with. Default: runner-up.")
    ] = None,
    no_foil: Annotated[
        bool, typer.Option("--no-foil", help="Explain the logit itself, without a foil.")
    ] = False,
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", help="Hub name, folder or .gguf file. Default: SmolLM2-135M-Instruct."),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option("--data", help="Over a dataset instead: its name, such as builtin-dna or ioi."),
    ] = None,
    folder: Annotated[
        str | None, typer.Option("--folder", help="Where the files of the dataset are. Default: the hub.")
    ] = None,
    split: Annotated[
        str | None,
        typer.Option("--split", help="Groups: words of the prefix (this,that|these,those), or a column."),
    ] = None,
    heads: Annotated[bool, typer.Option("--heads", help="Attention heads instead of neurons.")] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="RUN", help="Folder for sums and pictures; a run goes on from there."),
    ] = None,
    neuron: Annotated[
        str | None,
        typer.Option("--neuron", help="This neuron (12.383); with --data, the examples it answers to."),
    ] = None,
    ablate: Annotated[
        bool, typer.Option("--ablate", help="With --neuron: set it to its mean in held-out examples.")
    ] = False,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Only so many examples.")] = None,
    top: Annotated[int, typer.Option("--top", min=1, help="Show the strongest so many.")] = 10,
    output: Annotated[
        list[Path] | None,
        typer.Option("--output", "-o", metavar="FILE", help="Save as .json, .html, .png, .svg or .csv."),
    ] = None,
    bos: Bos = None,
    chat: Chat = False,
    ids: Annotated[bool, typer.Option("--ids", help="Prompt, target and foils are token ids.")] = False,
    dtype: Dtype = None,
    allow: Allow = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Show which neurons (or heads) raise and lower a word, for a prompt or over a dataset."""
    from ...view.saving import require_format, save_documents

    _require_sense(
        prompt, data, target or foil or no_foil, neuron=neuron, ablate=ablate, out=out, heads=heads
    )
    for path in output or []:
        require_format(path, _name_schema(prompt, neuron, ablate))
    (loaded,) = open_models(None if model is None else [model], dtype=dtype, allow=allow or ())
    if prompt is not None:
        document = _of_prompt(
            loaded,
            read_source(prompt, bos=bos, chat=chat, ids=ids).prompt(loaded),
            read_word(target, ids),
            None if no_foil else [read_word(word, ids) for word in foil] if foil else "auto",
            top,
            neuron,
        )
    else:
        asked = _Asked(_read_data(data or [], folder), split, limit, top)
        document = (
            asked.survey(loaded, "heads" if heads else "neurons", out)
            if neuron is None
            else asked.ablate(loaded, neuron)
            if ablate
            else asked.find_answers(loaded, neuron)
        )
    saved = [each for path in output or [] for each in save_documents([document], path)]
    if json:
        print_json(document)
    else:
        _print(document)
    for path in saved:
        tell(f"Saved {path}")


def _require_sense(prompt: str | None, data: Any, words: Any, **options: Any) -> None:
    """Refuse what does not go together, before anything is loaded."""
    if (prompt is None) == (data is None):
        raise InputError(
            "A prompt and --data were given." if data else "There is no prompt.",
            'Give a text ("A report about the") or a dataset (--data builtin-dna).',
        )
    if data is not None and words:
        raise InputError(
            "--data was given with a target or foil.", "Every example has its own: leave them out."
        )
    given = [name for name, value in options.items() if value and name != "neuron"]
    if data is None and given:
        raise InputError(f"--{given[0]} was given without --data.", "Name a dataset, such as builtin-dna.")
    if options["ablate"] and options["neuron"] is None:
        raise InputError("--ablate was given without --neuron.", "Name the neuron: --neuron 12.383.")
    if options["neuron"] is not None and (options["out"] or options["heads"]):
        raise InputError("--neuron was given with --out or --heads.", "It needs neither: leave them out.")


def _of_prompt(
    model: "Model", prompt: Any, target: Any, foil: Any, top: int, neuron: str | None
) -> dict[str, Any]:
    from ...inside.neurons import neurons

    with show_progress(f"Looking into {model.name} …"):
        names = [] if neuron is None else neuron.split(",")
        return neurons(model, prompt, target=target, foil=foil, top=top, names=names).to_dict()


def _read_data(names: list[str], folder: str | None) -> "list[Dataset]":
    from ...data import read_datasets

    return read_datasets([name for each in names for name in each.split(",")], folder)


class _Asked:
    """What is asked of a dataset."""

    def __init__(self, datasets: "list[Dataset]", split: str | None, limit: int | None, top: int) -> None:
        from ...inside.split import read_split

        self.datasets, self.split, self.limit, self.top = datasets, read_split(split), limit, top

    def survey(self, model: "Model", part: str, out: Path | None) -> dict[str, Any]:
        from ...inside.survey import survey
        from ...inside.survey_files import save_survey

        with show_progress(f"Looking into {model.name} …"):
            found = survey(model, self.datasets, part=part, split=self.split, folder=out, limit=self.limit)
            document = found.to_dict(self.top)
            if out is not None:
                save_survey(document, out)
        if out is not None:
            tell(f"Saved {out}")
        return document

    def find_answers(self, model: "Model", neuron: str) -> dict[str, Any]:
        from ...inside.top_examples import find_answers

        with show_progress(f"Looking into {model.name} …"):
            return find_answers(model, self.datasets, neuron, top=self.top, limit=self.limit).to_dict()

    def ablate(self, model: "Model", neuron: str) -> dict[str, Any]:
        from ...inside.ablation import ablate

        with show_progress(f"Looking into {model.name} …"):
            return ablate(model, self.datasets, neuron, split=self.split, limit=self.limit).to_dict()


def _print(document: dict[str, Any]) -> None:
    from rich.console import Console

    from ...view.showing import print_by_kind

    print_by_kind(document, Console(highlight=False))


def _name_schema(prompt: str | None, neuron: str | None, ablate: bool) -> str:
    """Name what will be saved."""
    from ...document.kinds import ABLATION_SCHEMA, ANSWERS_SCHEMA, NEURONS_SCHEMA, SURVEY_SCHEMA

    if prompt is not None:
        return NEURONS_SCHEMA
    return SURVEY_SCHEMA if neuron is None else ABLATION_SCHEMA if ablate else ANSWERS_SCHEMA
