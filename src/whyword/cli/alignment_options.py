"""Options of whyword align: how words are scored and linked, and what is written of files."""

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "AlignedFiles",
    "AlignmentMethod",
    "BlockNumber",
    "Choice",
    "FileThreads",
    "FormatChoice",
    "LineFormat",
    "LinkChoice",
    "MethodChoice",
    "NullShare",
    "RecallShare",
    "ReverseModel",
    "SourceFile",
    "Step",
    "StepChoice",
    "TargetFile",
    "Way",
    "WayChoice",
    "WordChoice",
    "Words",
]


class AlignmentMethod(str, Enum):
    """The names of alignment.method_choice.ALIGNMENT_METHODS, which is not imported for --help."""

    combined = "combined"
    attention = "attention"
    vector_norms = "vector-norms"
    distance = "distance"
    smoothgrad = "smoothgrad"
    logit = "logit"
    logit_raw = "logit-raw"
    alti_logit = "alti-logit"


class Step(str, Enum):
    """The names of alignment.token_scores.STEPS."""

    output = "output"
    input = "input"


class Way(str, Enum):
    """The names of alignment.symmetry.SYMMETRISATIONS."""

    scores = "scores"
    intersection = "intersection"
    union = "union"
    grow_diag = "grow-diag"
    grow_diag_final = "grow-diag-final"


class Choice(str, Enum):
    """The names of alignment.linking.CHOICES."""

    mutual = "mutual"
    best = "best"


class Words(str, Enum):
    """The names of alignment.words.WORDS."""

    auto = "auto"
    spaces = "spaces"
    characters = "characters"


class LineFormat(str, Enum):
    """The names of alignment.line_formats.LINE_FORMATS."""

    pharaoh = "pharaoh"
    pharaoh_1 = "pharaoh-1"
    talp = "talp"
    naacl = "naacl"
    jsonl = "jsonl"


SourceFile = Annotated[
    Path | None,
    typer.Option("--source", metavar="FILE", help="Sentences, one per line; - is standard input."),
]
TargetFile = Annotated[
    Path | None,
    typer.Option("--target", metavar="FILE", help="Their translations; if both are -, with a tab between."),
]
AlignedFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Links of files, - is standard output; one pair as .json, .html, .png, .svg, .csv, .talp or "
        ".pharaoh. May be given several times.",
    ),
]
MethodChoice = Annotated[
    AlignmentMethod,
    typer.Option(
        "--method",
        metavar="METHOD",
        help="combined, attention, vector-norms, distance, smoothgrad, logit, logit-raw or alti-logit.",
    ),
]
BlockNumber = Annotated[
    int | None,
    typer.Option(
        "--block", min=1, metavar="N", help="Read one decoder block.", show_default="all, or the best"
    ),
]
StepChoice = Annotated[
    Step,
    typer.Option(
        "--step",
        metavar="output|input",
        help="Read attention where a word is produced, or where it is consumed.",
    ),
]
LinkChoice = Annotated[
    Choice,
    typer.Option(
        "--links",
        metavar="mutual|best",
        help="Link words that are each other's best, and more by --recall; or every word.",
    ),
]
RecallShare = Annotated[
    float | None,
    typer.Option(
        "--recall",
        metavar="R",
        help="From 0, only words that are each other's best, to 1: more links, fewer of them right.",
        show_default="0.6",
    ),
]
NullShare = Annotated[
    float | None,
    typer.Option(
        "--null",
        metavar="N",
        help="Words with less evidence than this, 0 to 1, have no counterpart.",
        show_default="0.2",
    ),
]
WordChoice = Annotated[
    Words | None,
    typer.Option(
        "--words",
        metavar="auto|spaces|characters",
        help="Where words end: by what a text looks like, at spaces, or after each character of scripts "
        "without spaces.",
        show_default="auto, of files spaces",
    ),
]
FormatChoice = Annotated[
    LineFormat,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help="Of links of files: pharaoh (words count from 0), pharaoh-1, talp, naacl (from 1) or jsonl.",
    ),
]
FileThreads = Annotated[
    int | None,
    typer.Option(
        "--threads",
        min=1,
        metavar="N",
        help="Threads of each worker; another number changes last digits.",
        show_default="one; of a single local worker, as many as torch takes",
    ),
]
ReverseModel = Annotated[
    str | None,
    typer.Option("--reverse-model", metavar="MODEL", help="One of the other direction, to symmetrise with."),
]
WayChoice = Annotated[
    Way,
    typer.Option(
        "--symmetrise",
        metavar="WAY",
        help="How both directions are symmetrised: by scores, or by links (intersection, union, "
        "grow-diag, grow-diag-final).",
    ),
]
