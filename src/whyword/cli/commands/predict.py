"""whyword predict: the likeliest next tokens."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ..options import OldBos, OldNoBos
from ..reporting import (
    Allow,
    Chat,
    Debug,
    Dtype,
    Json,
    ModelNames,
    StartToken,
    print_json,
    reporting,
    show_progress,
    tell,
)
from ..saved_files import save_files
from ..sources import open_models, read_source

__all__ = ["predict"]


@reporting
def predict(
    prompt: Annotated[
        str, typer.Argument(metavar="PROMPT", help="The text to continue; - reads it from stdin.")
    ],
    top: Annotated[int, typer.Option("--top", min=1, metavar="N", help="How many tokens to show.")] = 10,
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Save as .json or .csv; may be given several times."
        ),
    ] = None,
    model: ModelNames = None,
    start: StartToken = "auto",
    chat: Chat = False,
    ids: Annotated[bool, typer.Option("--ids", help="The prompt is token ids.")] = False,
    dtype: Dtype = None,
    allow: Allow = None,
    json: Json = False,
    debug: Debug = False,
    bos: OldBos = False,
    no_bos: OldNoBos = False,
) -> None:
    """List the tokens that the model would continue with, with logits and probabilities."""
    source = read_source(prompt, start=start, chat=chat, ids=ids)  # before what takes seconds to import
    from ...document.kinds import PREDICTION_SCHEMA
    from ...pipeline.one_prompt import predict
    from ...view.saving import require_format

    for path in output or []:
        require_format(path, PREDICTION_SCHEMA)
    documents: list[dict[str, Any]] = []
    for loaded in open_models(model, dtype=dtype, allow=allow or (), start=start):
        with show_progress(f"Running {loaded.name} …"):
            predicted = predict(loaded, source.prompt(loaded), top=top)
        documents.append(predicted.to_dict())
        if not json:
            predicted.show()
    saved = save_files(documents, output)
    if json:
        print_json(documents[0] if len(documents) == 1 else documents)
    for line in saved:
        tell(line)
