"""whyword translate: which words of the source, and of what was already written, made each word."""

import re
import sys
from enum import Enum
from typing import Annotated, Any

import typer

from ...attribute.methods import DEFAULT_METHOD, TRANSLATION_METHODS
from ...errors import InputError
from ..options import MaxMemory, Output, SourceLanguage, TargetLanguage
from ..reporting import Allow, Debug, Dtype, Json, print_json, reporting, show_progress, tell
from ..saved_files import save_files
from ..sources import open_models, read_text

__all__ = ["translate"]


class TranslationBy(str, Enum):
    """What a row and a column is."""

    word = "word"
    token = "token"
    depth = "depth"


TranslationMethod = Enum(  # type: ignore[misc]
    "TranslationMethod", {name: name for name in TRANSLATION_METHODS}, type=str
)
"""The methods that explain translations, as choices of an option."""
_DEFAULT = TranslationMethod(DEFAULT_METHOD)


@reporting
def translate(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="The text to translate; - reads it from stdin.")
    ],
    translation: Annotated[
        str | None,
        typer.Argument(metavar="TRANSLATION", help="Its translation.", show_default="the model's own"),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            "-m",
            metavar="MODEL",
            help="A translation model: hub name or folder; may be given several times.",
        ),
    ] = None,
    foil: Annotated[
        str | None,
        typer.Option(
            "--foil",
            "-f",
            metavar="WORD@POSITION",
            help="Compare one word of the translation with another: shore@3 is the third.",
            show_default="no foil",
        ),
    ] = None,
    method: Annotated[
        TranslationMethod,
        typer.Option("--method", metavar="METHOD", help=f"{', '.join(TRANSLATION_METHODS)}."),
    ] = _DEFAULT,
    source_language: SourceLanguage = None,
    target_language: TargetLanguage = None,
    by: Annotated[
        TranslationBy,
        typer.Option("--by", metavar="VIEW", help="Show it by word or token, or where flow is by depth."),
    ] = TranslationBy.word,
    word: Annotated[
        int | None,
        typer.Option(
            "--word",
            min=1,
            metavar="N",
            help="With --by depth: which word of the translation.",
            show_default="that with a foil, or all together",
        ),
    ] = None,
    block: Annotated[
        int | None,
        typer.Option(
            "--block", min=1, metavar="N", help="Show one decoder block.", show_default="all of them"
        ),
    ] = None,
    top: Annotated[
        int | None,
        typer.Option(
            "--top", min=1, metavar="N", help="Show only the N strongest columns; with --by depth, N depths."
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            "--threshold",
            min=0.0,
            max=1.0,
            metavar="SHARE",
            help="Flag words with a smaller share of the source.",
            show_default="0.25",
        ),
    ] = None,
    output: Output = None,
    dtype: Dtype = None,
    max_memory: MaxMemory = None,
    allow: Allow = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Explain every word of a translation by the source and by what was already written, with the proof."""
    text = read_text(source)  # before what takes seconds to import
    from ...document.kinds import TRANSLATION_SCHEMA
    from ...pipeline.one_translation import THRESHOLD, explain_translation
    from ...runs.memory_size import read_size
    from ...view.saving import require_format
    from ...view.translation_depths import at_word
    from ...view.translation_grid import at_block

    for path in output or []:
        require_format(path, TRANSLATION_SCHEMA)
    if max_memory is not None:
        read_size(max_memory)
    if not text.strip():
        raise InputError("The source is empty.", "Give a text of at least one token.")
    if not model:
        raise InputError(
            "No model was named.", "Name a translation model, such as -m Helsinki-NLP/opus-mt-zh-en."
        )
    if word is not None and by is not TranslationBy.depth:
        raise InputError(f"--word {word} was given without --by depth.", "Add --by depth, or leave it out.")
    placed = _read_foil(foil)
    documents: list[dict[str, Any]] = []
    for loaded in open_models(model, dtype=dtype, allow=allow or ()):
        with show_progress(f"Translating with {loaded.name} …"):
            explained = explain_translation(
                loaded,
                text,
                translation,
                foil=placed,
                method=method.value,
                source_language=source_language,
                target_language=target_language,
                threshold=THRESHOLD if threshold is None else threshold,
                max_memory=max_memory,
            )
        documents.append(explained.to_dict())
    shown = [at_block(document, block) for document in documents]
    # Files first: who reads stdout may leave. A JSON file holds all blocks, whichever is shown.
    for path in output or []:
        saved = documents if path.suffix.lower() in (".json", ".html") else shown
        for line in save_files(saved, [path]):
            tell(line)
    if json:
        print_json(documents[0] if len(documents) == 1 else documents)
        return
    for document in shown:
        _print(at_word(document, word) if by is TranslationBy.depth else document, by.value, top)


def _read_foil(foil: str | None) -> tuple[str, int] | None:
    if foil is None:
        return None
    found = re.fullmatch(r"(.+)@(\d+)", foil)
    if found is None:
        raise InputError(
            f"The foil is {foil!r}.", "Give a word and its place in the translation, from 1: shore@3."
        )
    return found[1], int(found[2])


def _print(document: Any, by: str, top: int | None) -> None:
    from rich.console import Console

    from ...view.terminal import print_document

    print_document(document, Console(highlight=False), by, top)
    sys.stdout.flush()
