"""Options of the commands that explain a prediction."""

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from ..attribute.methods import METHODS

__all__ = [
    "FoilWords",
    "Ids",
    "MaxMemory",
    "MethodName",
    "NoFoil",
    "Output",
    "SourceLanguage",
    "TargetLanguage",
    "TargetWord",
]


MethodName = Enum("MethodName", {name: name for name in METHODS}, type=str)  # type: ignore[misc]
"""The methods, as choices of an option."""

TargetWord = Annotated[
    str | None,
    typer.Option("--target", "-t", help="The word to explain. Default: the model's first choice."),
]
FoilWords = Annotated[
    list[str] | None,
    typer.Option(
        "--foil", "-f", help="The word it is compared with; several: their mean. Default: runner-up."
    ),
]
NoFoil = Annotated[
    bool, typer.Option("--no-foil", help="Explain the logit of the target itself, without a foil.")
]
Output = Annotated[
    list[Path] | None,
    typer.Option("--output", "-o", metavar="FILE", help="Save as .json, .html, .tex, .png, .svg or .csv."),
]
Ids = Annotated[bool, typer.Option("--ids", help="Prompt, target and foils are token ids.")]
MaxMemory = Annotated[
    str | None,
    typer.Option(
        "--max-memory", metavar="SIZE", help="What it may take beyond the forward pass: 2GB, 500MB."
    ),
]
SourceLanguage = Annotated[
    str | None,
    typer.Option("--source-language", metavar="CODE", help="Of a model that knows many: zho_Hans."),
]
TargetLanguage = Annotated[
    str | None, typer.Option("--target-language", metavar="CODE", help="The same: eng_Latn.")
]
