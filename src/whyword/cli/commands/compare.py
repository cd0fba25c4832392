"""whyword compare: what all methods say of one prediction."""

from enum import Enum
from typing import Annotated, Any

import typer

from ..options import (
    METHOD_HELP,
    Depth,
    DocumentFiles,
    FoilWords,
    Ids,
    MaxMemory,
    MethodName,
    NoFoil,
    OldBos,
    OldNoBos,
    Output,
    PromptFile,
    QuestionText,
    SomePromptText,
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
    """What a column of the table is, or a part of the prompt."""

    token = "token"
    word = "word"
    sentence = "sentence"
    line = "line"
    paragraph = "paragraph"
    turn = "turn"
    part = "part"


@reporting
def compare(
    prompt: SomePromptText = None,
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
            show_default="every kind once, erasure as published; by part flow, logit, erasure, gradient",
        ),
    ] = None,
    depth: Depth = None,
    by: Annotated[
        Columns | None,
        typer.Option(
            "--by",
            metavar="VIEW",
            help="Show it by token or word; or by sentence, line, paragraph, turn or part (document) of the "
            "prompt, which erasure then erases whole.",
            show_default="token; with --documents part",
        ),
    ] = None,
    top: Top = None,
    output: Output = None,
    prompt_file: PromptFile = None,
    documents: DocumentFiles = None,
    question: QuestionText = None,
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
    source = read_source(
        prompt,
        start=start,
        chat=chat,
        ids=ids,
        prompt_file=prompt_file,
        documents=documents,
        question=question,
    )  # before what takes seconds to import
    wanted, named = read_word(target, ids), [read_word(word, ids) for word in foil or []]
    by = by or (Columns.part if documents else Columns.token)
    divided = by not in (Columns.token, Columns.word)
    from ...document.kinds import COMPARED_PARTS_SCHEMA, COMPARISON_SCHEMA
    from ...pipeline import compared_by_part, one_prompt
    from ...runs.memory_size import read_size
    from ...view.saving import require_format

    for path in output or []:
        require_format(path, COMPARED_PARTS_SCHEMA if divided else COMPARISON_SCHEMA)
    if max_memory is not None:
        read_size(max_memory)
    asked: dict[str, Any] = {
        "target": wanted,
        "foil": None if no_foil else named or "auto",
        "methods": [each.value for each in method] if method else None,
        "depth": depth,
        "max_memory": max_memory,
    }
    made: list[dict[str, Any]] = []
    for loaded in open_models(model, dtype=dtype, allow=allow or (), start=start):
        with show_progress(f"Comparing methods with {loaded.name} …"):
            read = source.prompt(loaded)
            if divided:
                made.append(compared_by_part.compare_parts(loaded, read, by.value, **asked).to_dict())
            else:
                made.append(one_prompt.compare(loaded, read, **asked).to_dict())
    # Files first: who reads stdout may leave.
    saved = save_files(made, output)
    if json:
        print_json(made[0] if len(made) == 1 else made)
    else:
        for document in made:
            print_view(document, by.value, top)
    for line in saved:
        tell(line)
