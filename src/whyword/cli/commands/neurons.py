"""whyword neurons: which MLP neurons made the model prefer one word over another."""

from typing import Annotated, Any

import typer

from ..options import (
    FoilWords,
    Ids,
    MaxMemory,
    NoFoil,
    OldBos,
    OldNoBos,
    PromptText,
    TargetWord,
    UnitOutput,
    moved,
)
from ..reporting import (
    Allow,
    Chat,
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
from ..sources import open_models, read_source, read_word

__all__ = ["neurons"]

_ONE = "whyword neurons is about one prediction and has no"


def _over(option: str) -> Any:
    """Refuse an option that asks about datasets."""
    return moved(option, f"{_ONE} {option}.", lambda _: f"Over datasets: whyword survey DATASETS {option} …")


@reporting
def neurons(
    prompt: PromptText,
    target: TargetWord = None,
    foil: FoilWords = None,
    no_foil: NoFoil = False,
    model: ModelName = None,
    neuron: Annotated[
        list[str] | None,
        typer.Option(
            "--neuron",
            metavar="NAME",
            help="Show this neuron: 12.383 is neuron 383 of block 12; may be given several times.",
            show_default="the strongest",
        ),
    ] = None,
    top: Annotated[
        int,
        typer.Option(
            "--top", min=1, metavar="N", help="Show the N that raise it most, and that lower it most."
        ),
    ] = 10,
    output: UnitOutput = None,
    start: StartToken = "auto",
    chat: Chat = False,
    ids: Ids = False,
    dtype: Dtype = None,
    max_memory: MaxMemory = None,
    allow: Allow = None,
    json: Json = False,
    debug: Debug = False,
    bos: OldBos = False,
    no_bos: OldNoBos = False,
    data: Annotated[
        list[str] | None,
        moved(
            "--data",
            f"{_ONE} --data.",
            lambda names: "Over datasets: whyword survey {0}. At their mean: whyword ablate {0}.".format(
                " ".join(names)
            ),
        ),
    ] = None,
    folder: Annotated[
        str | None,
        moved(
            "--folder",
            f"{_ONE} --folder.",
            lambda path: f"Over datasets: whyword survey DATASETS --data {path}",
        ),
    ] = None,
    split: Annotated[str | None, _over("--split")] = None,
    heads: Annotated[bool, _over("--heads")] = False,
    out: Annotated[str | None, _over("--out")] = None,
    limit: Annotated[str | None, _over("--limit")] = None,
    ablate: Annotated[
        bool,
        moved(
            "--ablate",
            f"{_ONE} --ablate.",
            lambda _: "Set neurons to their mean: whyword ablate DATASETS --neuron NAME",
        ),
    ] = False,
) -> None:
    """Show which MLP neurons raise and lower a word, and what each of them promotes."""
    source = read_source(prompt, start=start, chat=chat, ids=ids)  # before what takes seconds to import
    wanted, named = read_word(target, ids), [read_word(word, ids) for word in foil or []]
    from rich.console import Console

    from ...document.kinds import NEURONS_SCHEMA
    from ...inside.neurons import neurons
    from ...runs.memory_size import read_size
    from ...view.saving import require_format
    from ...view.showing import print_by_kind

    for path in output or []:
        require_format(path, NEURONS_SCHEMA)
    if max_memory is not None:
        read_size(max_memory)
    foils: Any = None if no_foil else named or "auto"
    (loaded,) = open_models(None if model is None else [model], dtype=dtype, allow=allow or (), start=start)
    with show_progress(f"Looking into {loaded.name} …"):
        document = neurons(
            loaded,
            source.prompt(loaded),
            target=wanted,
            foil=foils,
            top=top,
            names=[name for each in neuron or [] for name in each.split(",")],
            max_memory=max_memory,
        ).to_dict()
    saved = save_files([document], output)
    if json:
        print_json(document)
    else:
        print_by_kind(document, Console(highlight=False))
    for line in saved:
        tell(line)
