"""whyword explain: which words made the model prefer one word over another."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...ask.foil_names import AUTO, RUNNER_UP
from ...attribute.methods import DEFAULT_METHOD, METHODS
from ...errors import InputError
from ..options import (
    METHOD_HELP,
    Depth,
    FoilWords,
    Ids,
    MaxMemory,
    MethodName,
    NoFoil,
    OldBos,
    OldNoBos,
    Output,
    PromptText,
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
from ..sources import Source, open_models, read_source, read_word
from ..two_questions import explain_two, require_two

if TYPE_CHECKING:
    from ...models import Model
    from ...results.continuation import Continuation
    from ...results.explanation import Explanation
    from ...results.two_explanations import Difference

__all__ = ["explain"]


class By(str, Enum):
    """What a row of the table is."""

    block = "block"
    head = "head"
    depth = "depth"
    token = "token"
    word = "word"


@reporting
def explain(
    prompt: PromptText,
    target: TargetWord = None,
    foil: FoilWords = None,
    no_foil: NoFoil = False,
    model: ModelNames = None,
    method: Annotated[
        list[MethodName] | None,
        typer.Option("--method", metavar="METHOD", help=METHOD_HELP, show_default=DEFAULT_METHOD),
    ] = None,
    depth: Depth = None,
    by: Annotated[
        By, typer.Option("--by", metavar="VIEW", help="Show it by block, head, depth, token or word.")
    ] = By.word,
    top: Top = None,
    routes: Annotated[
        int | None,
        typer.Option(
            "--routes", min=1, metavar="N", help="Show the N strongest routes between positions (flow)."
        ),
    ] = None,
    output: Output = None,
    account: Annotated[
        bool, typer.Option("--account", help="Put MLPs and embedding on tokens too (heuristic).")
    ] = False,
    versus: Annotated[
        str | None,
        typer.Option("--versus", metavar="PROMPT2", help="Another prompt: what it changes, word by word."),
    ] = None,
    difference: Annotated[
        bool, typer.Option("--difference", help="Of two models: what the second changes, word by word.")
    ] = False,
    continue_: Annotated[
        int | None,
        typer.Option("--continue", min=1, metavar="N", help="Generate N tokens and explain each of them."),
    ] = None,
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
    """Explain which words made the model prefer one word over another, block by block, with the proof."""
    source = read_source(prompt, start=start, chat=chat, ids=ids)  # before what takes seconds to import
    wanted, foils = read_word(target, ids), [read_word(word, ids) for word in foil or []]
    from ...document.kinds import DIFFERENCE_SCHEMA, SCHEMA
    from ...trace.memory_plan import read_size
    from ...view.saving import require_format

    view, shown = (by.value, top) if routes is None else ("routes", routes)
    two = versus is not None or difference
    if two:
        require_two(versus, model, difference=difference)
        _require_plain(view, account, continue_)
    for path in output or []:
        require_format(path, *((DIFFERENCE_SCHEMA,) if two else (SCHEMA, view)))
    if view in ("depth", "routes"):
        _require_flow(method, view, continue_)
    if max_memory is not None:
        read_size(max_memory)
    if continue_ is not None and (target or foil not in (None, [AUTO], [RUNNER_UP])):
        raise InputError(
            "--continue was given with a target or foil.",
            f"Every generated token is its own target: leave them out, or give --foil {RUNNER_UP}.",
        )
    if account and (
        continue_ is not None or not all(METHODS[each.value].keeps_mixing for each in method or ())
    ):
        raise InputError(
            "--account was given with --continue, or with a method that keeps no mixing.",
            "It is of one token, by alti-logit: leave them out.",
        )
    question = _Question(
        source,
        wanted,
        None if no_foil else foils or "auto",
        [each.value for each in method] if method else ["alti-logit" if account else DEFAULT_METHOD],
        depth,
        continue_,
        max_memory,
    )
    models = open_models(model, dtype=dtype, allow=allow or (), start=start)
    answers: Iterator[Explanation | Continuation | Difference]
    if two:
        other = None if versus is None else read_source(versus, start=start, chat=chat, ids=ids)
        answers, view = explain_two(question, models, other), "word"
    else:
        answers = (explained for loaded in models for explained in question.answer(loaded))
    documents: list[dict[str, Any]] = []
    for explained in answers:
        documents.append(_describe(explained, account))
        if not json and not output:
            print_view(documents[-1], view, shown)
    # Files first: who reads stdout may leave.
    saved = save_files(documents, output, view, shown)
    if json:
        print_json(documents[0] if len(documents) == 1 else documents)
    elif output:
        for document in documents:
            print_view(document, view, shown)
    for line in saved:
        tell(line)


@dataclass(frozen=True)
class _Question:
    """What is asked of every model."""

    source: Source
    target: str | int | None
    foil: Any
    """A list of words or ids, "auto", or None."""
    methods: Sequence[str]
    depth: int | None
    new_tokens: int | None
    """None: explain the next token only."""
    max_memory: str | None

    def answer(self, model: "Model") -> "Iterator[Explanation | Continuation]":
        """Explain by every method."""
        from ...pipeline.one_continuation import explain_continuation
        from ...pipeline.one_prompt import compare

        doing = f"Explaining with {model.name} …"
        if self.new_tokens is None:
            with show_progress(doing):
                compared = compare(
                    model,
                    self.source.prompt(model),
                    target=self.target,
                    foil=self.foil,
                    methods=self.methods,
                    depth=self.depth,
                    max_memory=self.max_memory,
                )
            yield from (compared[method] for method in self.methods)
            return
        for method in self.methods:
            with show_progress(doing):
                found = explain_continuation(
                    model,
                    self.source.prompt(model),
                    foil=self.foil[0] if isinstance(self.foil, list) else self.foil,
                    method=method,
                    depth=self.depth,
                    new_tokens=self.new_tokens,
                    max_memory=self.max_memory,
                ).complete()
            yield found


def _require_flow(methods: Sequence[MethodName] | None, view: str, new_tokens: int | None) -> None:
    """Refuse a view of flow for what has none, before anything is computed."""
    names = [each.value for each in methods] if methods else [DEFAULT_METHOD]
    without = [name for name in names if not METHODS[name].frozen]
    if without:
        having = ", ".join(name for name, method in METHODS.items() if method.frozen)
        raise InputError(f"The method {without[0]} has no flow to show.", f"Methods that have: {having}.")
    if new_tokens is not None:
        raise InputError(
            f"A continuation is not shown by {view}.", "Leave --continue out to see one token's flow."
        )


def _require_plain(view: str, account: bool, new_tokens: int | None) -> None:
    """Refuse what a difference does not have."""
    if view != By.word.value or account or new_tokens is not None:
        raise InputError(
            "A difference was asked for with --by, --routes, --account or --continue.",
            "It is shown word by word, of one token: leave them out.",
        )


def _describe(explained: "Explanation | Continuation | Difference", account: bool) -> dict[str, Any]:
    """Return the document, with the full account where it is asked for."""
    from ...results.account import describe_fully
    from ...results.explanation import Explanation

    if not account or not isinstance(explained, Explanation):
        return explained.to_dict()
    return describe_fully(explained)
