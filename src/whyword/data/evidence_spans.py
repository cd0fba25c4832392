"""Evidence by characters: from words of a file to spans of the prefix, from spans to tokens."""

import re
from collections.abc import Sequence

from ..errors import InputError
from ..tokens import Tokens
from .examples import Example, Span, Spans

__all__ = ["EVIDENCE_KINDS", "choose_evidence", "find_in_prefix", "locate_tokens"]

EVIDENCE_KINDS = ("word", "phrase", "paper")
"""Which words count as evidence.

word: the one word that decides, in every dataset (the default). phrase: the phrase it heads, where one is
known. paper: as in the published table, the phrase where the file has one, but the word for SVA, darn, ipsv
and rpsv.
"""

_HEAD_ONLY = re.compile(r"(builtin-)?(sva-\d|darn|ipsv|rpsv)")
"""Datasets whose phrase is often the whole prefix, so that every rank would be 1."""


def choose_evidence(example: Example, kind: str) -> Spans:
    """Return the spans that count as evidence; empty where none are known."""
    if kind not in EVIDENCE_KINDS:
        raise InputError(f"There is no evidence {kind!r}.", f"There is: {', '.join(EVIDENCE_KINDS)}.")
    if kind == "word":
        return example.word
    if kind == "phrase":
        return example.phrase or example.word
    if _HEAD_ONLY.fullmatch(example.dataset):
        return example.word
    # A published phrase that runs past the prefix is not replaced by the word: the paper skipped such rows.
    return example.phrase if example.phrase or "target_phrase" in example.columns else example.word


def locate_tokens(tokens: Tokens, spans: Sequence[Span]) -> tuple[int, ...]:
    """Return the indices of all tokens that have a visible character of a span.

    A token that covers only the space next to a word does not count; nor does a BOS token.
    """
    return tuple(
        index
        for index, token in enumerate(tokens)
        if not token.special
        and any(
            tokens.text[max(token.start, start) : min(token.end, end)].strip()
            for start, end in spans
            if token.start < end and start < token.end
        )
    )


def find_in_prefix(prefix: str, text: str, within: Spans = (), last: bool = False) -> Spans:
    """Find whole words, case-sensitively: "painting" is not in "paintings", "this" is not "This".

    Of several occurrences the one inside `within` is taken; otherwise the last or the first.
    """
    if not text.strip():
        return ()
    found = [match.span() for match in re.finditer(rf"(?<!\w){re.escape(text.strip())}(?!\w)", prefix)]
    inside = [span for span in found if any(start <= span[0] and span[1] <= end for start, end in within)]
    found = inside or found
    return (found[-1 if last else 0],) if found else ()
