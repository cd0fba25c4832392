"""Align files line by line, in a way that can be stopped and goes on.

Lines are gathered beside the output, after a line that says what was asked for; when all are there the file
gets its name. So a file is whole or not there, and results of different settings are never mixed.
"""

import hashlib
import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ..errors import InputError
from ..models.model import Model
from ..pipeline.one_translation import require_translator
from ..runs.fingerprint import fingerprint_weights
from ..runs.journal import append_lines, repair
from ..runs.progress import report
from ..runs.whole_files import write_file
from .aligner import Settings, align_all
from .links import FORMATS, Link, Links, write_links
from .symmetry import symmetrise

__all__ = ["Reverse", "align_files"]

_logger = logging.getLogger("whyword")


@dataclass(frozen=True)
class Reverse:
    """A model of the other direction, and how what both say is made into one alignment."""

    model: Model
    settings: Settings
    way: str
    """One of SYMMETRISATIONS."""
    languages: tuple[str | None, str | None] = (None, None)
    """Of its source and target."""


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
    """Align parallel sentences and write a line of links for each; give how many there are."""
    if form not in FORMATS[:2]:
        raise InputError(
            f"The format is {form!r}.", f"Links are written line by line as {' or '.join(FORMATS[:2])}."
        )
    require_translator(model)
    header = _describe(model, words, settings, form, languages, reverse)
    part = output.with_name(f"{output.name}.part")
    try:
        done = _resume(part, header)
        if done:
            _logger.info(f"{part}: {done} of {len(words)} lines are there, going on.")
        for links in _link_all(model, words[done:], settings, languages, reverse, done):
            append_lines(part, [write_links([Links(frozenset(links))], form).rstrip("\n")])
            done += 1
            report("pairs", done, len(words))
        write_file(output, part.read_text(encoding="utf-8").partition("\n")[2])
        part.unlink()
    except OSError as error:
        raise InputError(
            f"{output} cannot be written: {error.strerror}.", "Write where you may, and where there is room."
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
) -> str:
    """Say in a line what was asked for."""
    said = {
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
    return json.dumps(said)


def _resume(part: Path, header: str) -> int:
    """Count the lines that are there after the first, which says what was asked for; else begin anew."""
    repair(part)
    lines = part.read_text(encoding="utf-8").split("\n") if part.exists() else [""]
    if lines[0] == header:
        return len(lines) - 2
    if lines != [""]:
        _logger.warning(f"{part} was begun with other settings or other sentences: starting anew.")
        part.unlink()
    append_lines(part, [header])
    return 0
