"""whyword compare: what all methods say of one prediction."""

from enum import Enum
from typing import Annotated, Any

import typer

from ..options import (
    METHOD_HELP,
    Depth,
    FoilWords,
    Ids,
    MaxMemory,
    MethodName,
    NoFoil,
    OldBos,
    OldNoBos,
    Output,
    PromptText,
    TargetWord,
    Top,
)
from ..reporting import (
    Allow,
    Chat,
    Debug,
    Dtype,
    Json,
    ModelNames,
    StartToken,
    print_json,
    print_view,
    reporting,
    show_progress,
    tell,
)
from ..saved_files import save_files
from ..sources import open_models, read_source, read_word

__all__ = ["compare"]


class Columns(str, Enum):
    """What a column of the table is."""

    token = "token"
    word = "word"


@reporting
def compare(
    prompt: PromptText,
    target: TargetWord = None,
    foil: FoilWords = None,
    no_foil: NoFoil = False,
    model: ModelNames = None,
    method: Annotated[
        list[MethodName] | None,
        typer.Option(
            "--method",
            metavar="METHOD",
            help=METHOD_HELP,
            show_default="every kind once, erasure as published",
        ),
    ] = None,
    depth: Depth = None,
    by: Annotated[
        Columns, typer.Option("--by", metavar="VIEW", help="Show it by token or word.")
    ] = Columns.token,
    top: Top = None,
    output: Output = None,
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
) -> None:
    """Compare methods on one prediction: one row each, in its own unit."""
    source = read_source(prompt, start=start, chat=chat, ids=ids)  # before what takes seconds to import
    wanted, named = read_word(target, ids), [read_word(word, ids) for word in foil or []]
    from ...document.kinds import COMPARISON_SCHEMA
    from ...pipeline import one_prompt as pipeline
    from ...trace.memory_plan import read_size
    from ...view.saving import require_format

    for path in output or []:
        require_format(path, COMPARISON_SCHEMA)
    if max_memory is not None:
        read_size(max_memory)
    foils: Any = None if no_foil else named or "auto"
    documents: list[dict[str, Any]] = []
    for loaded in open_models(model, dtype=dtype, allow=allow or (), start=start):
        with show_progress(f"Comparing methods with {loaded.name} …"):
            compared = pipeline.compare(
                loaded,
                source.prompt(loaded),
                target=wanted,
                foil=foils,
                methods=[each.value for each in method] if method else None,
                depth=depth,
                max_memory=max_memory,
            )
        documents.append(compared.to_dict())
    # Files first: who reads stdout may leave.
    saved = save_files(documents, output)
    if json:
        print_json(documents[0] if len(documents) == 1 else documents)
    else:
        for document in documents:
            print_view(document, by.value, top)
    for line in saved:
        tell(line)
