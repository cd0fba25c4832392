"""How the command speaks: results on stdout, all else on stderr, errors in two lines and exit code 2."""

import json
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec, TypeVar

import typer

from ..errors import WhywordError
from .interruption import say_stopped
from .remedies import list_options, word_for_command

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = [
    "Allow",
    "Chat",
    "Debug",
    "Dtype",
    "Json",
    "ModelName",
    "ModelNames",
    "StartToken",
    "print_json",
    "print_view",
    "refuse",
    "reporting",
    "show_progress",
    "tell",
]

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")

Debug = Annotated[
    bool, typer.Option("--debug", help="Show the traceback of an error.", envvar="WHYWORD_DEBUG")
]
Json = Annotated[bool, typer.Option("--json", help="Print the JSON document and nothing else.")]
StartToken = Annotated[
    str,
    typer.Option(
        "--start",
        metavar="TOKEN",
        help="What stands before a text: auto (found by the model's own likelihood), none, bos, tokenizer "
        "(what it adds), or a token.",
    ),
]
Chat = Annotated[
    bool, typer.Option("--chat", help="The prompt is the user's turn of a chat, or a .json file of turns.")
]
Allow = Annotated[
    list[str] | None,
    typer.Option("--allow", metavar="WHAT", help="pickle or remote-code, which are refused otherwise."),
]
Dtype = Annotated[
    str | None,
    typer.Option(
        "--dtype",
        metavar="TYPE",
        help="Type of the weights: float32, float64, float16 or bfloat16.",
        show_default="that of the checkpoint",
    ),
]
_MODEL = "Hub name, folder or .gguf file"
_DEFAULT_MODEL = "SmolLM2-135M-Instruct"
ModelName = Annotated[
    str | None,
    typer.Option("--model", "-m", metavar="MODEL", help=f"{_MODEL}.", show_default=_DEFAULT_MODEL),
]
ModelNames = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        "-m",
        metavar="MODEL",
        help=f"{_MODEL}; may be given several times.",
        show_default=_DEFAULT_MODEL,
    ),
]


def reporting(command: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """Tell the user of an error in its two lines, and leave with exit code 2; on Ctrl-C with 130."""

    @wraps(command)
    def run(*arguments: _Parameters.args, **options: _Parameters.kwargs) -> _Result:
        try:
            return command(*arguments, **options)
        except WhywordError as error:
            if options.get("debug"):
                raise
            known = list_options(command)
            refuse(word_for_command(error.wrong, known), word_for_command(error.remedy, known))
            raise typer.Exit(2) from None
        except KeyboardInterrupt as interrupt:
            tell(_plain(say_stopped(interrupt)))
            raise typer.Exit(130) from None

    return run


def refuse(wrong: str, remedy: str) -> None:
    """Print an error in its two lines to stderr."""
    tell(f"[bold red]error:[/] {_plain(wrong)}\n{_plain(remedy)}")


def tell(message: str) -> None:
    """Print a message to stderr."""
    from rich.console import Console

    Console(stderr=True, soft_wrap=True, highlight=False).print(message)


def print_json(document: Any) -> None:
    """Print a JSON document to stdout."""
    print(json.dumps(document, ensure_ascii=True))


def print_view(document: dict[str, Any], by: str | None, top: int | None) -> None:
    """Print the terminal view of a document to stdout; `by`: None where there is but one."""
    from rich.console import Console

    from ..view.showing import print_by_kind

    print_by_kind(document, Console(highlight=False), by, top)
    sys.stdout.flush()


@contextmanager
def show_progress(doing: str) -> Iterator[None]:
    """Show on stderr what is being done, how far it is, and what the library logs meanwhile."""
    from ..runs import progress

    logger = logging.getLogger("whyword")
    with progress.show_progress(_plain(doing)) as display:
        handler = _Teller(display)
        logger.addHandler(handler)
        level = logger.level
        logger.setLevel(logging.INFO)
        try:
            yield
        finally:
            logger.setLevel(level)
            logger.removeHandler(handler)


class _Teller(logging.Handler):
    """Shows what is logged beside the bar; warnings, and all where there is no terminal, as lines."""

    def __init__(self, display: "Progress") -> None:
        super().__init__()
        self.display = display

    def emit(self, record: logging.LogRecord) -> None:
        message = _plain(record.getMessage())
        if self.display.disable or record.levelno >= logging.WARNING:
            tell(message)
        else:
            self.display.update(self.display.task_ids[0], description=message)


def _plain(text: str) -> str:
    """Keep text from being read as markup, and control characters from the terminal."""
    from rich.markup import escape

    from ..view.wording import label

    return escape("\n".join(label(line) if line.strip() else line for line in text.split("\n")))
