"""whyword evidence: which words decide, found in parses and written into a file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...errors import InputError
from ..reporting import Debug, Json, print_json, reporting, show_progress, tell

if TYPE_CHECKING:
    from rich.console import Console

    from ...data.evidence_columns import Agreement

__all__ = ["evidence"]

_SHOWN = 20


@reporting
def evidence(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A dataset: csv, tsv or jsonl.", show_default=False)
    ],
    phenomenon: Annotated[
        str | None,
        typer.Option(
            "--phenomenon",
            "-p",
            metavar="NAME",
            help="anaphor, passive, determiner, npi, subject, name; or a dataset's name.",
            show_default="by the file's name",
        ),
    ] = None,
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE2",
            help="Where to write the file with evidence columns; may be given several times.",
        ),
    ] = None,
    pipeline: Annotated[
        str | None,
        typer.Option(
            "--pipeline", metavar="NAME", help="A spaCy pipeline.", show_default="one that is installed"
        ),
    ] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Find the words that decide between target and foil; compare with evidence columns already there."""
    from ...data.evidence_columns import annotate, guess_phenomenon
    from ...data.evidence_rules import PHENOMENA
    from ...data.file_layouts import SUFFIXES, read_table, render_table
    from ...runs.whole_files import write_file

    phenomenon = phenomenon or guess_phenomenon(file)
    if phenomenon is None:
        raise InputError(
            f"{file.name} is not the name of a dataset.",
            f"Say what it tests with --phenomenon: {', '.join(PHENOMENA)}.",
        )
    for path in output or []:
        if path.suffix.lower() not in SUFFIXES:
            raise InputError(
                f"{path.name!r} does not end in a known format.", f"Known endings: {', '.join(SUFFIXES)}."
            )
    table = read_table(file)
    with show_progress("Parsing"):
        table, agreement = annotate(table, phenomenon, pipeline)
    for path in output or []:
        write_file(path, render_table(table, path.suffix.lower()))
        found = agreement.rows - len(agreement.skipped)
        tell(f"Saved {path}: {agreement.rows} rows, {found} with evidence")
    if json:
        print_json(agreement.to_dict())
    else:
        _print(agreement)


def _print(agreement: "Agreement") -> None:
    from rich.console import Console
    from rich.text import Text

    from ...data.evidence_rules import PHENOMENA

    console = Console(highlight=False, soft_wrap=True)
    count = agreement.rows - len(agreement.skipped)
    console.print(Text(f"{agreement.phenomenon}: {PHENOMENA[agreement.phenomenon].about}"))
    console.print(Text(f"found in {count} of {agreement.rows} rows"))
    for skipped in agreement.skipped[:_SHOWN]:
        console.print(Text(f"  row {skipped.row}: {skipped.reason}", style="dim"))
    _print_rest(console, len(agreement.skipped))
    for column in agreement.comparisons:
        agree = column.rows - len(column.disagreements)
        console.print(Text(f"{column.column}: agrees in {agree} of {column.rows} rows, {column.share:.1%}"))
        for other in column.disagreements[:_SHOWN]:
            found = repr(other.found) if other.found else "nothing"
            said = f"file {other.published!r}, rule {found}"
            console.print(Text(f"  row {other.row}: {other.prefix} | {said}", style="dim"))
        _print_rest(console, len(column.disagreements))


def _print_rest(console: "Console", count: int) -> None:
    from rich.text import Text

    if count > _SHOWN:
        console.print(Text(f"  and {count - _SHOWN} more: --json lists them all", style="dim"))
