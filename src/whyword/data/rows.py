"""From a row of a published file to an example, or to the reason why it cannot be used."""

import re
from collections.abc import Mapping

from .dataset_names import Published
from .evidence_spans import find_in_prefix
from .examples import Example, Skipped, Spans

__all__ = ["MASK", "cut_pair", "is_missing", "read_row"]

MASK = "***mask***"
"""Stands for the verb in the files of SVA."""
_MISSING = {"", "NA", "NaN", "nan"}
_LAST_WORD = re.compile(r"^(.*\S)\s+([^\s.,;!?]+)[.,;!?\"']*$", flags=re.DOTALL)


def is_missing(value: str | None) -> bool:
    """Whether an evidence column says that nothing was found."""
    return value is None or value.strip() in _MISSING


def read_row(known: Published, row: int, columns: Mapping[str, str]) -> Example | Skipped:
    """Turn a row into an example, with its evidence where the row has evidence columns."""
    pair = _pair_of(known, columns)
    if isinstance(pair, str):
        return Skipped(known.name, row, pair)
    prefix, target, foil = pair
    if not prefix:
        return Skipped(known.name, row, "no prefix")
    if not target or not foil:
        return Skipped(known.name, row, "no target" if not target else "no foil")
    if target == foil:
        return Skipped(known.name, row, "target and foil are the same")
    kept = {name: value for name, value in columns.items() if name}
    if "target" not in columns and "target_phrase" not in columns:
        return Example(known.name, row, prefix, target, foil, columns=kept)
    evidence = _evidence_of(known, prefix, columns)
    if isinstance(evidence, str):
        return Skipped(known.name, row, evidence)
    return Example(known.name, row, prefix, target, foil, *evidence, kept)


def cut_pair(good: str, bad: str) -> tuple[str, str, str] | str:
    """Cut two sentences before the first word in which they differ; return the prefix and both words."""
    rights, wrongs = good.split(), bad.split()
    for index, (right, wrong) in enumerate(zip(rights, wrongs, strict=False)):
        if right != wrong:
            return " ".join(rights[:index]), _bare(right), _bare(wrong)
    return "the sentences do not differ"


def _pair_of(known: Published, columns: Mapping[str, str]) -> tuple[str, str, str] | str:
    """Return prefix, target and foil, or what is missing."""
    if "one_prefix_prefix" in columns:
        prefix = columns["one_prefix_prefix"]
        if known.group == "SVA" and MASK not in prefix:
            return f"no {MASK}"
        words = (columns.get(f"one_prefix_word_{kind}", "").strip() for kind in ("good", "bad"))
        return prefix.split(MASK)[0].strip(), *words  # type: ignore[return-value]
    if "ioi_sentences" in columns:
        return _pair_of_names(columns["ioi_sentences"])
    return cut_pair(columns.get("sentence_good", ""), columns.get("sentence_bad", ""))


def _pair_of_names(sentence: str) -> tuple[str, str, str] | str:
    """Cut an IOI sentence before its last name; the foil is the other name, which occurs twice."""
    match = _LAST_WORD.match(sentence.strip())
    if match is None:
        return "no prefix"
    prefix, target = match.groups()
    names = re.findall(r"(?<!\w)[A-Z][\w'-]*", prefix)
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1 and name != target]
    return (prefix, target, twice[0]) if len(twice) == 1 else "no name that comes twice"


def _evidence_of(known: Published, prefix: str, columns: Mapping[str, str]) -> tuple[Spans, Spans] | str:
    """Find the text of the evidence columns in the prefix, or return what is wrong."""
    word, phrase = columns.get("target"), columns.get("target_phrase")
    if is_missing(word) and is_missing(phrase):
        return "no evidence (NA)"
    last = known.phenomenon == "determiner"  # "That student remembered that": the one before the noun
    phrase_at = () if is_missing(phrase) else _spans_of(prefix, columns, "target_phrase", (), last)
    word_at = () if is_missing(word) else _spans_of(prefix, columns, "target", phrase_at, last)
    return (word_at, phrase_at) if word_at or phrase_at else "evidence is not in the prefix"


def _spans_of(prefix: str, columns: Mapping[str, str], name: str, within: Spans, last: bool) -> Spans:
    """Return the span of a column's text: as the file gives it, or by search."""
    stated = re.fullmatch(r"(\d+):(\d+)", columns.get(f"{name}_span", "").strip())
    if stated is not None and prefix[int(stated[1]) : int(stated[2])] == columns[name]:
        return ((int(stated[1]), int(stated[2])),)
    return find_in_prefix(prefix, columns[name], within, last)


def _bare(word: str) -> str:
    """Strip the punctuation after a word."""
    return re.sub(r"[.,;:!?\"”]+$", "", word)
