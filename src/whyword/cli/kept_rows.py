"""`whyword explain --from DIR --id X`: a row of a run, in every view."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from .reporting import print_json, print_view, tell
from .saved_files import save_files

if TYPE_CHECKING:
    from ..corpus.kept_explanations import KeptExplanation

__all__ = ["require_row", "show_row"]


def require_row(folder: Path | None, id_: str | None, prompt: Any) -> bool:
    """Tell whether a row of a run is asked for; refuse half of the question, and a prompt beside it."""
    if folder is None and id_ is None:
        return False
    if folder is None or id_ is None:
        missing = "--from DIR" if folder is None else "--id ID"
        raise InputError(f"A row of a run was asked for without {missing}.", "Give both: --from DIR --id ID.")
    if prompt is not None:
        raise InputError(
            "A prompt was given with --from.", "A row of a run has its own prompt: leave one of them out."
        )
    return True


def show_row(
    folder: Path | None,
    id_: str | None,
    methods: Sequence[str],
    view: tuple[str, int | None],
    output: Sequence[Path] | None,
    json: bool,
) -> None:
    """Show a row by some methods, by default the first of the run; save it where files are named."""
    from ..corpus.opened_run import open_run
    from ..document.kinds import PARTS_SCHEMA

    run = open_run(str(folder))
    found: list[KeptExplanation] = [run[str(id_), method] for method in methods or run.methods[:1]]
    made = [each.describe(view[0]) for each in found]
    saved = save_files(made, output, *view)
    if json:
        print_json(made[0] if len(made) == 1 else made)
    for document in () if json else made:
        print_view(document, None if document["schema"] == PARTS_SCHEMA else view[0], view[1])
    for line in saved:
        tell(line)
