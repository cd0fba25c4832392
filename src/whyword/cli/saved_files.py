"""Files that commands write: several `-o` write several files, and every line says what is in which."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["save_files"]


def save_files(
    documents: Sequence[Mapping[str, Any]],
    outputs: Sequence[Path] | None,
    by: str = "block",
    top: int | None = None,
) -> list[str]:
    """Save documents to every output, and return a line for each file that was written."""
    from rich.markup import escape

    from ..view.saving import save_documents

    lines = []
    for output in outputs or ():
        paths = save_documents(documents, output, by, top)
        if len(documents) == 1:
            lines += [f"Saved {path}" for path in paths]
        elif len(paths) == 1:
            lines.append(f"Saved {paths[0]}: all {len(documents)} of them")
        else:
            lines += [
                f"Saved {path}: {_name(document)}" for path, document in zip(paths, documents, strict=True)
            ]
    return [escape(line) for line in lines]  # a name is no markup


def _name(document: Mapping[str, Any]) -> str:
    """Name what tells a document from others of the same command: its model, method, neuron."""
    # A continuation has its model and method in its explanations.
    inner = (document.get("explanations") or [document])[0]
    named = [inner.get(field) for field in ("model", "method", "neuron")]
    return ", ".join(text for text in named if isinstance(text, str))
