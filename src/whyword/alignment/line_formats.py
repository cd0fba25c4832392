"""Alignments of a corpus, line by line: how each format writes one.

pharaoh     0-0 1-2                      words counted from 0
pharaoh-1   1-1 2-3                      words counted from 1
talp        1-1 2-3                      the same; files of others may have possible links too: 4p5
naacl       18 1 2 S 0.97                sentence, words counted from 1, sure; the last is the confidence
jsonl       {"line": 18, "links": …}     words counted from 0, with scores and confidences
"""

import json
from collections.abc import Callable, Mapping

from .alignment import Alignment
from .links import Links, write_links

__all__ = ["LINE_FORMATS"]

_DIGITS = 4


def _write_pharaoh(_: int, alignment: Alignment | None, wrong: str | None) -> str:
    return _write(alignment, 0)


def _write_from_one(_: int, alignment: Alignment | None, wrong: str | None) -> str:
    return _write(alignment, 1)


def _write(alignment: Alignment | None, base: int) -> str:
    links = frozenset(() if alignment is None else alignment.links)
    return write_links([Links(links)], "pharaoh", base)


def _write_naacl(number: int, alignment: Alignment | None, wrong: str | None) -> str:
    if alignment is None:
        return ""
    confidences = alignment.confidence or (None,) * len(alignment.links)
    return "".join(
        f"{number} {source + 1} {target + 1} S{'' if likely is None else f' {likely:.{_DIGITS}f}'}\n"
        for (source, target), likely in zip(alignment.links, confidences, strict=True)
    )


def _write_jsonl(number: int, alignment: Alignment | None, wrong: str | None) -> str:
    links = () if alignment is None else alignment.links
    said: dict[str, object] = {"line": number, "links": [list(link) for link in links]}
    if alignment is not None:
        said["scores"] = [round(float(alignment.scores[target, source]), _DIGITS) for source, target in links]
        if alignment.confidence is not None:
            said["confidence"] = [round(likely, _DIGITS) for likely in alignment.confidence]
    if wrong is not None:
        said["skipped"] = wrong
    return json.dumps(said, ensure_ascii=False) + "\n"


LINE_FORMATS: Mapping[str, Callable[[int, Alignment | None, str | None], str]] = {
    "pharaoh": _write_pharaoh,
    "pharaoh-1": _write_from_one,
    "talp": _write_from_one,
    "naacl": _write_naacl,
    "jsonl": _write_jsonl,
}
"""Writes the number of a line, its alignment, and why it has none."""
