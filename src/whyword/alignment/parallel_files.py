"""Parallel files: one sentence per line, words separated by spaces."""

from pathlib import Path

from ..errors import InputError

__all__ = ["read_lines", "read_words"]


def read_lines(path: Path) -> list[str]:
    """Read the lines of a file; only a line feed ends a line."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path} cannot be read: {error}.", "Pass a text file with one sentence per line."
        ) from None
    lines = text.split("\n")
    return [line.rstrip("\r") for line in (lines[:-1] if lines[-1] == "" else lines)]


def read_words(source: Path | None, target: Path | None) -> list[tuple[list[str], list[str]]]:
    """Read the words of parallel files."""
    if source is None or target is None:
        missing = "source" if source is None else "target"
        raise InputError(
            f"There is no --{missing}.", "Pass both --source and --target, parallel line by line."
        )
    sources, targets = read_lines(source), read_lines(target)
    if len(sources) != len(targets):
        raise InputError(
            f"{source} has {len(sources)} lines, but {target} has {len(targets)}.",
            "Pass files that are parallel line by line; an empty line is an empty sentence.",
        )
    return [(own.split(), other.split()) for own, other in zip(sources, targets, strict=True)]
