"""whyword explain: which words made the model prefer one word over another."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InputError
from .loading import Source, open_models, read_source
from .reporting import (
    Allow,
    Bos,
    Chat,
    Debug,
    Dtype,
    Json,
    ModelNames,
    print_json,
    reporting,
    show_progress,
    tell,
)
from .words import read_word

if TYPE_CHECKING:
    from ..explanation import Continuation, Explanation
    from ..models import Model

__all__ = ["explain"]


class By(str, Enum):
    """What a row of the table is."""

    block = "block"
    head = "head"
    token = "token"
    word = "word"


class MethodName(str, Enum):
    """The names of attribute.METHODS, which is not imported for --help."""

    alti_logit = "alti-logit"
    logit = "logit"


@reporting
def explain(
    prompt: Annotated[str, typer.Argument(help="The text before the word; - reads it from stdin.")],
    target: Annotated[
        str | None,
        typer.Option("--target", "-t", help="The word to explain. Default: the model's first choice."),
    ] = None,
    foil: Annotated[
        list[str] | None,
        typer.Option(
            "--foil", "-f", help="The word it is compared with; several: their mean. Default: runner-up."
        ),
    ] = None,
    no_foil: Annotated[
        bool, typer.Option("--no-foil", help="Explain the logit of the target itself, without a foil.")
    ] = False,
    model: ModelNames = None,
    method: Annotated[
        list[MethodName] | None,
        typer.Option("--method", help="May be given several times.", show_default="alti-logit"),
    ] = None,
    by: Annotated[By, typer.Option("--by", help="What to show the numbers by.")] = By.block,
    top: Annotated[int | None, typer.Option("--top", min=1, help="Show only the strongest so many.")] = None,
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Save as .json, .html, .tex, .png, .svg or .csv."
        ),
    ] = None,
    account: Annotated[
        bool, typer.Option("--account", help="Put MLPs and embedding on tokens too (heuristic).")
    ] = False,
    continue_: Annotated[
        int | None,
        typer.Option(
            "--continue", min=1, metavar="N", help="Generate N tokens and explain every one of them."
        ),
    ] = None,
    bos: Bos = None,
    chat: Chat = False,
    ids: Annotated[bool, typer.Option("--ids", help="Prompt, target and foils are token ids.")] = False,
    dtype: Dtype = None,
    max_memory: Annotated[
        str | None,
        typer.Option(
            "--max-memory", metavar="SIZE", help="What it may take beyond the forward pass: 2GB, 500MB."
        ),
    ] = None,
    allow: Allow = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Explain which words made the model prefer one word over another, block by block, with the proof."""
    from ..memory import read_size
    from ..view.files import require_format, save_documents

    for path in output or []:
        require_format(path)
    if max_memory is not None:
        read_size(max_memory)
    if continue_ is not None and (target or foil):
        raise InputError(
            "--continue was given with a target or foil.",
            "Every generated token is its own target: leave them out.",
        )
    if account and (continue_ is not None or MethodName.logit in (method or [])):
        raise InputError(
            "--account was given with --continue or --method logit.",
            "It is of one token, by alti-logit: leave them out.",
        )
    question = _Question(
        read_source(prompt, bos=bos, chat=chat, ids=ids),
        read_word(target, ids),
        None if no_foil else [read_word(word, ids) for word in foil] if foil else "auto",
        [each.value for each in method] if method else ["alti-logit"],
        continue_,
        max_memory,
    )
    documents: list[dict[str, Any]] = []
    for loaded in open_models(model, dtype=dtype, allow=allow or ()):
        for explained in question.answer(loaded):
            documents.append(_describe(explained, account))
            if not json and not output:
                _print(documents[-1], by.value, top)
    # Files first: who reads stdout may leave.
    saved = [each for path in output or [] for each in save_documents(documents, path, by.value)]
    if json:
        print_json(documents[0] if len(documents) == 1 else documents)
    elif output:
        for document in documents:
            _print(document, by.value, top)
    for path in saved:
        tell(f"Saved {path}")


@dataclass(frozen=True)
class _Question:
    """What is asked of every model."""

    source: Source
    target: str | int | None
    foil: Any
    """A list of words or ids, "auto", or None."""
    methods: Sequence[str]
    new_tokens: int | None
    """None: explain the next token only."""
    max_memory: str | None

    def answer(self, model: "Model") -> "Iterator[Explanation | Continuation]":
        """Explain by every method."""
        from ..pipeline import explain, explain_continuation

        for method in self.methods:
            with show_progress(f"Explaining with {model.name} …"):
                prompt = self.source.prompt(model)
                found: Explanation | Continuation
                if self.new_tokens is None:
                    found = explain(
                        model,
                        prompt,
                        target=self.target,
                        foil=self.foil,
                        method=method,
                        max_memory=self.max_memory,
                    )
                else:
                    found = explain_continuation(
                        model,
                        prompt,
                        foil=self.foil,
                        method=method,
                        new_tokens=self.new_tokens,
                        max_memory=self.max_memory,
                    )
            yield found


def _describe(explained: "Explanation | Continuation", account: bool) -> dict[str, Any]:
    """Give the document, with the full account where it is asked for."""
    from ..accounting import account as account_for
    from ..explanation import Continuation

    if not account or isinstance(explained, Continuation):
        return explained.to_dict()
    return {**explained.to_dict(), "account": account_for(explained).to_dict()}


def _print(document: dict[str, Any], by: str, top: int | None) -> None:
    from rich.console import Console

    from ..view.terminal import print_document

    print_document(document, Console(highlight=False), by, top)
    sys.stdout.flush()
