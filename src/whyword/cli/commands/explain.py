"""whyword explain: which words made the model prefer one word over another."""

from collections.abc import Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...ask.foil_names import AUTO, RUNNER_UP
from ...attribute.methods import DEFAULT_METHOD, METHODS
from ...errors import InputError
from ..asked_question import OWN_ANSWER, AskedQuestion
from ..kept_rows import require_row, show_row
from ..options import (
    METHOD_HELP,
    Depth,
    DocumentFiles,
    FoilWords,
    Ids,
    MaxMemory,
    MethodName,
    NoFoil,
    OldBos,
    OldNoBos,
    Output,
    PromptFile,
    QuestionText,
    ServerAddress,
    SomePromptText,
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
    tell,
)
from ..saved_files import save_files
from ..served_question import ask_server, find_server, require_servable
from ..sources import open_models, read_ids, read_source, read_text, read_word
from ..two_questions import explain_two, require_two

if TYPE_CHECKING:
    from ...results.shown import Shown

__all__ = ["explain"]


class By(str, Enum):
    """What a row of the table is, or a part of the prompt."""

    block = "block"
    head = "head"
    depth = "depth"
    token = "token"
    word = "word"
    sentence = "sentence"
    line = "line"
    paragraph = "paragraph"
    turn = "turn"
    part = "part"


_PARTS = (By.sentence, By.line, By.paragraph, By.turn, By.part)
"""What scores are added up by; an answer is shown as a table of its sentences × these."""


@reporting
def explain(
    prompt: SomePromptText = None,
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
        By | None,
        typer.Option(
            "--by",
            metavar="VIEW",
            help="Show it by word, token, block, head or depth; or add up scores by sentence, line, "
            "paragraph, turn or part (document) of the prompt.",
            show_default="word; with --documents part",
        ),
    ] = None,
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
    answer: Annotated[
        str | None,
        typer.Option(
            "--answer",
            metavar="TEXT",
            help="Explain this continuation; with --by part, sentence by sentence.",
            show_default="with --documents the model's own",
        ),
    ] = None,
    from_run: Annotated[
        Path | None, typer.Option("--from", metavar="DIR", help="Show a row of a run: --from DIR --id ID.")
    ] = None,
    row: Annotated[str | None, typer.Option("--id", metavar="ID", help="The id of that row.")] = None,
    prompt_file: PromptFile = None,
    documents: DocumentFiles = None,
    question: QuestionText = None,
    start: StartToken = "auto",
    chat: Chat = False,
    ids: Ids = False,
    server: ServerAddress = None,
    dtype: Dtype = None,
    max_memory: MaxMemory = None,
    allow: Allow = None,
    json: Json = False,
    debug: Debug = False,
    bos: OldBos = False,
    no_bos: OldNoBos = False,
) -> None:
    """Explain which words made the model prefer one word over another, block by block, with the proof."""
    if require_row(from_run, row, prompt or prompt_file or documents):
        wanted_view = ("routes", routes) if routes is not None else (by.value if by else "word", top)
        show_row(from_run, row, [each.value for each in method or []], wanted_view, output, json)
        return
    source = read_source(
        prompt,
        start=start,
        chat=chat,
        ids=ids,
        prompt_file=prompt_file,
        documents=documents,
        question=question,
    )  # before what takes seconds to import
    if server is not None:
        require_servable(dtype=dtype, allow=allow, max_memory=max_memory, start=start.replace("auto", ""))
    wanted, foils = read_word(target, ids), [read_word(word, ids) for word in foil or []]
    said = None if answer is None else read_ids(answer) if ids else read_text(answer)
    one_token = said is None and continue_ is None
    if one_token and documents and not (target or foil):
        continue_, one_token = OWN_ANSWER, False
        tell("The model's own answer is explained; --answer TEXT explains another, --target WORD one word.")
    by = by or (By.part if documents else By.turn if source.turns and not one_token else By.word)
    from ...document.kinds import DIFFERENCE_SCHEMA, PARTS_SCHEMA, SCHEMA, SUPPORT_SCHEMA
    from ...view.saving import require_format

    view, shown = (by.value, top) if routes is None else ("routes", routes)
    schema = SCHEMA if by not in _PARTS else PARTS_SCHEMA if one_token else SUPPORT_SCHEMA
    two = versus is not None or difference
    if two:
        require_two(versus, model, difference=difference)
        _require_plain(view, plain=one_token and not account)
        schema = DIFFERENCE_SCHEMA
    for path in output or []:
        require_format(path, schema, by=view)
    if view in ("depth", "routes"):
        _require_flow(method, view, one_token)
    if max_memory is not None:
        from ...runs.memory_size import read_size

        read_size(max_memory)
    words = target or (foil if foil not in (None, [AUTO], [RUNNER_UP]) else None)
    _require_one_question(words, said is not None, continue_)
    if account and (
        not one_token or by in _PARTS or not all(METHODS[each.value].keeps_mixing for each in method or ())
    ):
        raise InputError(
            "--account was given with --continue, --answer or parts, or with a method that keeps no mixing.",
            "It is of one token, by alti-logit: leave them out.",
        )
    asked = AskedQuestion(
        source,
        wanted,
        None if no_foil else foils or (None if by in _PARTS and not one_token else AUTO),
        [each.value for each in method] if method else ["alti-logit" if account else DEFAULT_METHOD],
        depth,
        continue_,
        said,
        view if by in _PARTS else None,
        max_memory,
    )
    printed = None if by in _PARTS else view
    other = None if versus is None else read_source(versus, start=start, chat=chat, ids=ids)
    if server is not None:
        extra = {"account": account, "versus": other, "versus_model": difference}
        answered = ask_server(find_server(server, model), asked, model, extra)
    else:
        models = open_models(model, dtype=dtype, allow=allow or (), start=start)
        answers: Iterator[Shown] = (explained for loaded in models for explained in asked.answer(loaded))
        if two:
            answers = explain_two(asked, models, other)
        answered = (_describe(explained, account) for explained in answers)
    made: list[dict[str, Any]] = []
    for document in answered:
        made.append(document)
        if not json and not output:
            print_view(document, printed, shown)
    # Files first: who reads stdout may leave.
    saved = save_files(made, output, view, shown)
    if json:
        print_json(made[0] if len(made) == 1 else made)
    elif output:
        for document in made:
            print_view(document, printed, shown)
    for line in saved:
        tell(line)


def _require_one_question(words: Any, answer: bool, new_tokens: int | None) -> None:
    """Refuse a target or foil beside a continuation, and two continuations."""
    if answer and new_tokens is not None:
        raise InputError("--answer was given with --continue.", "Give the answer, or let the model write it.")
    if words and (answer or new_tokens is not None):
        raise InputError(
            f"{'--answer' if answer else '--continue'} was given with a target or foil.",
            f"Every token of the continuation is its own target: leave them out, or give --foil {RUNNER_UP}.",
        )


def _require_flow(methods: Sequence[MethodName] | None, view: str, one_token: bool) -> None:
    """Refuse a view of flow for what has none, before anything is computed."""
    names = [each.value for each in methods] if methods else [DEFAULT_METHOD]
    without = [name for name in names if not METHODS[name].frozen]
    if without:
        having = ", ".join(name for name, method in METHODS.items() if method.frozen)
        raise InputError(f"The method {without[0]} has no flow to show.", f"Methods that have: {having}.")
    if not one_token:
        raise InputError(
            f"A continuation is not shown by {view}.", "Leave it out to see one token's flow: give --target."
        )


def _require_plain(view: str, *, plain: bool) -> None:
    """Refuse what a difference does not have."""
    if view != By.word.value or not plain:
        raise InputError(
            "A difference was asked for with --by, --routes, --account, --continue, --answer or --documents.",
            "It is shown word by word, of one token: leave them out.",
        )


def _describe(explained: "Shown", account: bool) -> dict[str, Any]:
    """Return the document, with the full account where it is asked for."""
    from ...results.account import describe_fully
    from ...results.explanation import Explanation

    if account and isinstance(explained, Explanation):
        return describe_fully(explained)
    return explained.to_dict()
