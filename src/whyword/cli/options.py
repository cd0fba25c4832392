"""Options that several commands have."""

from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from ..attribute.methods import METHODS
from .help_layout import OPTIONAL_ADDRESS, SEVERAL
from .reporting import refuse

__all__ = [
    "METHOD_HELP",
    "DataFolder",
    "DatasetNames",
    "Depth",
    "DocumentFiles",
    "FoilWords",
    "Ids",
    "Limit",
    "MaxMemory",
    "MethodName",
    "NoFoil",
    "OldBos",
    "OldNoBos",
    "Output",
    "PromptFile",
    "PromptText",
    "QuestionText",
    "RunFolder",
    "ServerAddress",
    "SomePromptText",
    "SourceFile",
    "SourceLanguage",
    "SplitText",
    "TargetFile",
    "TargetLanguage",
    "TargetWord",
    "Top",
    "TranslationModel",
    "UnitOutput",
    "moved",
]


MethodName = Enum("MethodName", {name: name for name in METHODS}, type=str)  # type: ignore[misc]
"""The methods, as choices of an option."""

METHOD_HELP = f"{', '.join(each.value for each in MethodName)}; may be given several times."
PromptText = Annotated[
    str, typer.Argument(metavar="PROMPT", help="The text before the word; - reads it from stdin.")
]
SomePromptText = Annotated[
    str | None,
    typer.Argument(
        metavar="PROMPT",
        help="The text before the word; - reads it from stdin. With --documents, a template that has "
        "{documents} and {question}.",
        show_default=False,
    ),
]
PromptFile = Annotated[
    Path | None, typer.Option("--prompt-file", metavar="FILE", help="Read PROMPT from a file.")
]
DocumentFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--documents",
        metavar=SEVERAL,
        help="Text files to ask about; asked in a chat where the model has a template for it.",
    ),
]
QuestionText = Annotated[
    str | None, typer.Option("--question", metavar="TEXT", help="What is asked about the documents.")
]
Top = Annotated[int | None, typer.Option("--top", min=1, metavar="N", help="Show only the N strongest.")]
TargetWord = Annotated[
    str | None,
    typer.Option(
        "--target",
        "-t",
        metavar="WORD",
        help="The word to explain.",
        show_default="the model's first choice",
    ),
]
FoilWords = Annotated[
    list[str] | None,
    typer.Option(
        "--foil",
        "-f",
        metavar="WORD",
        help="The word it is compared with; of several, their mean. runner-up: the likeliest other token.",
        show_default="the best rival of its kind",
    ),
]
NoFoil = Annotated[
    bool, typer.Option("--no-foil", help="Explain the logit of the target itself, without a foil.")
]
Output = Annotated[
    list[Path] | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Save as .json, .html, .tex, .png, .svg or .csv; may be given several times.",
    ),
]
UnitOutput = Annotated[
    list[Path] | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Save as .json, .html, .png, .svg or .csv; may be given several times.",
    ),
]
Ids = Annotated[bool, typer.Option("--ids", help="The prompt, target and foils are token ids.")]
Depth = Annotated[
    int | None,
    typer.Option(
        "--depth",
        metavar="N",
        help="Where flow is read: 0 is before block 1.",
        show_default="a tenth of the blocks",
    ),
]
MaxMemory = Annotated[
    str | None,
    typer.Option(
        "--max-memory",
        metavar="SIZE",
        help="Memory it may take beyond the forward pass: 2GB, 500MB.",
        show_default="what is free",
    ),
]
ServerAddress = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar=OPTIONAL_ADDRESS,
        help="Ask a running `whyword serve`, whose models are loaded already: that of this user, or at URL.",
    ),
]
TranslationModel = Annotated[
    str | None,
    typer.Option("--model", "-m", metavar="MODEL", help="A translation model: hub name or folder."),
]
SourceFile = Annotated[
    Path | None,
    typer.Option("--source", metavar="FILE", help="Sentences, one per line, spaces between words."),
]
TargetFile = Annotated[Path | None, typer.Option("--target", metavar="FILE", help="Their translations.")]
SourceLanguage = Annotated[
    str | None,
    typer.Option(
        "--source-language",
        metavar="CODE",
        help="Language of the source, where a model knows many: zho_Hans.",
    ),
]
TargetLanguage = Annotated[
    str | None,
    typer.Option("--target-language", metavar="CODE", help="Language of the translation: eng_Latn."),
]
DatasetNames = Annotated[
    list[str],
    typer.Argument(
        metavar="DATASETS",
        help="Names: blimp, sva, ioi, builtin, or single ones: aga, sva-2, builtin-npi …",
    ),
]
DataFolder = Annotated[
    str | None,
    typer.Option(
        "--data", metavar="FOLDER", help="Where their files are, or builtin.", show_default="the hub"
    ),
]
Limit = Annotated[
    int | None, typer.Option("--limit", min=1, metavar="N", help="Use only the first N examples.")
]
SplitText = Annotated[
    str | None,
    typer.Option(
        "--split",
        metavar="GROUPS",
        help="Groups of examples: by words of the prefix (this,that|these,those) or by a column (number).",
    ),
]
RunFolder = Annotated[
    Path, typer.Option("--out", metavar="RUN", help="Folder of the run; a run that was stopped is resumed.")
]


def moved(flag: str, wrong: str, remedy: Callable[[Any], str]) -> Any:
    """Return an option that is now elsewhere: it is not in the help, and says where."""

    def say(value: Any) -> Any:
        if value:
            refuse(wrong, remedy(value))
            raise typer.Exit(2)
        return value

    return typer.Option(flag, hidden=True, is_eager=True, callback=say)


OldBos = Annotated[bool, moved("--bos", "--bos is no option any more.", lambda _: "Give --start bos.")]
OldNoBos = Annotated[
    bool, moved("--no-bos", "--no-bos is no option any more.", lambda _: "Give --start none.")
]
