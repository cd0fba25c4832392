"""Align files line by line, in runs that can be stopped and resumed.

Lines are collected in a file next to the output, after a line with the settings; when it is complete it is
renamed. So the output is complete or absent, and results of different settings are never mixed.
"""

import hashlib
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..models.model import Model
from ..pipeline.one_translation import require_translator
from ..runs.fingerprint import fingerprint_weights
from ..runs.journal import append_lines, repair, require_same
from ..runs.progress import report
from ..runs.single_writer import write_file_alone
from ..runs.whole_files import write_file
from .aligner import Settings, align_all
from .links import FORMATS, Link, Links, write_links
from .symmetry import symmetrise

__all__ = ["Reverse", "align_files"]

_logger = logging.getLogger("whyword")


@dataclass(frozen=True)
class Reverse:
    """A model for the reverse direction, and how the alignments of both are symmetrised."""

    model: Model
    settings: Settings
    way: str
    """One of SYMMETRISATIONS."""
    languages: tuple[str | None, str | None] = (None, None)
    """Language codes of its source and target."""


def align_files(
    model: Model,
    words: Sequence[tuple[list[str], list[str]]],
    output: Path,
    settings: Settings,
    *,
    form: str = "pharaoh",
    languages: tuple[str | None, str | None] = (None, None),
    reverse: Reverse | None = None,
) -> int:
    """Align parallel sentences and write a line of links for each; return how many there are."""
    if form not in FORMATS[:2]:
        raise InputError(
            f"The format is {form!r}.", f"Links are written line by line as {' or '.join(FORMATS[:2])}."
        )
    require_translator(model)
    about = _describe(model, words, settings, form, languages, reverse)
    part = output.with_name(f"{output.name}.part")
    with write_file_alone(output):
        try:
            done = _resume(part, about)
            if done:
                _logger.info(f"{part}: {done} of {len(words)} lines are done, resuming.")
            for links in _link_all(model, words[done:], settings, languages, reverse, done):
                append_lines(part, [write_links([Links(frozenset(links))], form).rstrip("\n")])
                done += 1
                report("pairs", done, len(words))
            write_file(output, part.read_text(encoding="utf-8").partition("\n")[2])
            part.unlink()
        except OSError as error:
            raise InputError(
                f"{output} cannot be written: {error.strerror}.",
                "Choose a place that you may write to and that has free space.",
            ) from None
    return done


def _link_all(
    model: Model,
    words: Sequence[tuple[list[str], list[str]]],
    settings: Settings,
    languages: tuple[str | None, str | None],
    reverse: Reverse | None,
    first: int,
) -> Iterator[Sequence[Link]]:
    forward = align_all(model, words, settings, languages, first=first)
    if reverse is None:
        yield from (alignment.links for alignment in forward)
        return
    turned = [(target, source) for source, target in words]
    backward = align_all(reverse.model, turned, reverse.settings, reverse.languages, first=first)
    for own, other in zip(forward, backward, strict=True):
        links = [(source, target) for target, source in other.links]
        yield sorted(symmetrise(own.links, links, reverse.way))


def _describe(
    model: Model,
    words: Sequence[tuple[list[str], list[str]]],
    settings: Settings,
    form: str,
    languages: tuple[str | None, str | None],
    reverse: Reverse | None,
) -> dict[str, Any]:
    """Describe a run: it is only resumed with the same settings."""
    return {
        "model": model.name,
        "weights": fingerprint_weights(model.network)[:12],
        "dtype": str(model.dtype),
        **asdict(settings),
        "format": form,
        "languages": languages,
        "sentences": hashlib.sha256(json.dumps(words).encode()).hexdigest(),
        "reverse": None
        if reverse is None
        else [
            reverse.model.name,
            fingerprint_weights(reverse.model.network)[:12],
            asdict(reverse.settings),
            reverse.way,
            reverse.languages,
        ],
    }


def _resume(part: Path, about: Mapping[str, Any]) -> int:
    """Count the finished lines, after the first, which has the settings; write that where there is none."""
    repair(part)
    lines = part.read_bytes().split(b"\n")[:-1] if part.exists() else []
    if not lines:
        append_lines(part, [json.dumps(about)])
        return 0
    try:
        found = {**json.loads(lines[0])}
        for line in lines[1:]:
            line.decode("ascii")
    except (ValueError, TypeError, RecursionError) as error:
        raise InputError(
            f"{part} cannot be read: {error}.", "Delete it, or name another output: -o FILE."
        ) from None
    require_same(part, found, about)
    return len(lines) - 1
