"""The application: its commands, and what is the same for all of them."""

import io
import os
import sys
from typing import Annotated

import typer

from .. import __version__
from .commands.ablate import ablate
from .commands.aer import aer
from .commands.align import align
from .commands.compare import compare
from .commands.datasets import datasets
from .commands.doctor import doctor
from .commands.evaluate import evaluate
from .commands.evaluate_alignment import evaluate_alignment
from .commands.evidence import evidence
from .commands.explain import explain
from .commands.models import models
from .commands.neurons import neurons
from .commands.predict import predict
from .commands.run import run
from .commands.serve import serve
from .commands.survey import survey
from .commands.table_and_figures import figures, table
from .commands.translate import translate
from .help_layout import Command, Commands
from .interruption import say_stopped
from .reporting import tell

__all__ = ["application", "main"]

application = typer.Typer(
    name="whyword",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    explain,
    compare,
    neurons,
    survey,
    ablate,
    predict,
    translate,
    align,
    run,
    serve,
    models,
    doctor,
    datasets,
    evidence,
    evaluate,
    evaluate_alignment,
    table,
    figures,
    aer,
):
    application.command(command.__name__.replace("_", " "), cls=Command)(command)


def _show_version(wanted: bool) -> bool:
    if wanted:
        print(f"whyword {__version__}")
        raise typer.Exit
    return wanted


@application.callback(epilog='Try: whyword explain "A report about the Impressionists" -t has -f have')
def _about(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Why this word and not that one? Exact explanations of a language model's predictions."""


def main() -> None:
    """Run the command; closed pipes and characters that cannot be encoded are not errors."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        application()
    except KeyboardInterrupt as interrupt:  # before a command began
        tell(say_stopped(interrupt))
        sys.exit(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
