"""The answer of an explanation whose words add up to the whole logit (difference), in one sentence or two."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..document.kinds import Document
from .answer_sentences import count_start, favour, group_words, name_quantity, word_texts
from .quoting import Sentence, join, quote, tell_apart, write_signed

__all__ = ["Parts", "find_reading_depth", "give_verdict", "list_parts"]

_NAMED = 3
"""Words that are named for each side."""
_SMALL = 0.05
"""The part of the strongest word's score below which a word is not named."""
_FAR_DOWN = 1000
"""The rank from which a foil is far down the list."""


@dataclass(frozen=True)
class Parts:
    """What adds up to the logit (difference)."""

    words: tuple[tuple[str, float], ...]
    """The text of every word and its score, in order."""
    start: float | None
    """The score of the start of text, where there is one."""
    bias: float
    """What biases add above the depth that scores are read at."""
    total: float
    """The logit (difference)."""


def list_parts(document: Document) -> Parts:
    """List what adds up to the logit (difference) of a document with flow: words, start and biases."""
    groups, scores, flow = group_words(document), document["scores"], document["flow"]
    words = [
        (text, float(sum(scores[place] for place in places)))
        for text, places in zip(word_texts(document), groups, strict=True)
    ]
    begun = count_start(document) > 0
    return Parts(
        tuple(words[begun:]),
        words[0][1] if begun else None,
        float(flow["bias"][find_reading_depth(document)]),  # a browser writes 0 for 0.0
        float(document["ledger"]["logit"]),
    )


def find_reading_depth(document: Document) -> int:
    """Find the depth whose row the scores are."""
    flow, scores = document["flow"], document["scores"]
    if "depth" in flow:
        return int(flow["depth"])

    def differ(depth: int) -> float:
        row: Sequence[float] = flow["by_depth"][depth]
        return max(abs(float(one - other)) for one, other in zip(row, scores, strict=True))

    return min(range(len(flow["by_depth"])), key=differ)


def give_verdict(document: Document) -> Sentence:
    """Say which words decide and by how much of what, and then what is notable."""
    parts = list_parts(document)
    said = _name_words(document, parts)
    for notable in _list_notable(document, parts):
        said = join(said, " " if said else "", notable)
    return said


def _name_words(document: Document, parts: Parts) -> Sentence:
    """Name the strongest word and what else is on its side; then what is on the other side."""
    ranked = sorted(_quote_words(parts), key=lambda word: -abs(word[1]))
    if not ranked or ranked[0][1] == 0:
        quantity = name_quantity(document["foils"])
        return [f"No word makes a difference; the {quantity} is {_write(parts.total)}."]
    strongest, least = ranked[0], _SMALL * abs(ranked[0][1])
    with_it = [word for word in ranked[1:] if word[1] * strongest[1] > 0 and abs(word[1]) > least]
    against = [word for word in ranked[1:] if word[1] * strongest[1] < 0 and abs(word[1]) > least]
    said = join(strongest[0], " speaks ", favour(document, strongest[1]), f": {_write(strongest[1])} ")
    said = join(said, f"of {_write(parts.total)}")
    for quoted, score in with_it[: _NAMED - 1]:
        said = join(said, ", ", quoted, f" {_write(score)}")
    if against:
        said = join(said, "; ", _enumerate([quoted for quoted, _ in against[:_NAMED]]), " against")
    return join(said, ".")


def _quote_words(parts: Parts) -> list[tuple[Sentence, float]]:
    """Quote every word, with its score; those that occur more than once have a number behind them."""
    told = tell_apart([text for text, _ in parts.words])
    named = zip(parts.words, told, strict=True)
    return [(join(quote(text), name[len(text) :]), score) for (text, score), name in named]


def _list_notable(document: Document, parts: Parts) -> Iterator[Sentence]:
    """Say what a reader should not miss: who else decides, and what the model itself would choose."""
    words = sum(score for _, score in parts.words)
    strongest = max((abs(score) for _, score in parts.words), default=0.0)
    if parts.start is not None and abs(parts.start) > strongest:
        amount = _write(parts.start)
        yield [f"The start carries most ({amount}): what the model expects before it has read a word."]
    elif parts.start is not None:
        yield [f"Start: {_write(parts.start)}."]
    if abs(parts.bias) > max(strongest, abs(parts.start or 0.0)):
        yield [f"Biases carry most ({_write(parts.bias)}), whatever the prompt says."]
    if words * parts.total < 0:
        yield [f"All words together speak for the other side ({_write(words)})."]
    yield from _compare_attention_and_mlps(document)
    yield from _rank_choices(document)


def _compare_attention_and_mlps(document: Document) -> Iterator[Sentence]:
    """Say that the MLPs decide, where attention writes against what the model prefers."""
    ledger = document["ledger"]
    attention, mlps, total = sum(ledger["attention"]), sum(ledger["mlp"]), ledger["total"]
    if attention * total < 0 < mlps * total and (attention + mlps) * total >= 0:
        yield [f"The MLPs ({_write(mlps)}) decide against attention ({_write(attention)})."]


def _rank_choices(document: Document) -> Iterator[Sentence]:
    """Say where target and foil stand in the model's own list, where that is far down."""
    target, foils = document["target"], document["foils"]
    best = max(foils, key=lambda foil: float(foil["logit"]), default=target)
    rank = target.get("rank")
    if best["logit"] > target["logit"]:
        yield join("The model itself prefers ", quote(best["text"]), ".")
    elif rank is not None and rank > 1:
        choice = f": it is its {_ordinal(rank)} choice."
        yield join("The model would not choose ", quote(target["text"]), choice)
    if len(foils) == 1 and (foils[0].get("rank") or 0) >= _FAR_DOWN:
        yield join(quote(foils[0]["text"]), f" is far down its list, at place {foils[0]['rank']:,}.")


def _enumerate(names: Sequence[Sentence]) -> Sentence:
    """Put names together: A, B and C."""
    said = names[0]
    for place, name in enumerate(names[1:], 2):
        said = join(said, " and " if place == len(names) else ", ", name)
    return said


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{ending}"


def _write(number: float) -> str:
    return write_signed(number, 2)
