"""The answer of an explanation in two sentences: what made the logit (difference), and which words did."""

from collections.abc import Sequence

from ..document.kinds import Document, read_measure
from .quoting import Sentence, capitalise, join, quote, separate, write_plain, write_signed

__all__ = ["decide", "name_quantity", "name_strongest", "word_texts"]

_NAMED = 3
"""Words that an answer names for each side."""
_SMALL = 0.05
"""The part of the strongest word's score below which a word is not named."""
_SLIGHT = 0.1
"""The part of the total up to which embedding and biases are not named."""


def name_quantity(foils: Sequence[Document]) -> str:
    """Name what the numbers are about."""
    return "logit difference" if foils else "logit"


def decide(document: Document) -> Sentence | None:
    """Say what attention, the MLPs and the rest make, and that the MLPs decide where attention disagrees."""
    ledger, quantity = document["ledger"], name_quantity(document["foils"])
    attention, mlps = float(sum(ledger["attention"])), float(sum(ledger["mlp"]))
    total, rest = ledger["total"], ledger["total"] - attention - mlps
    if attention == 0 and mlps == 0:
        return None
    if attention * total < 0 and attention * mlps < 0 and (attention + mlps) * total >= 0:
        one, other = (_favour(document, value) for value in (attention, mlps))
        attended = join("Attention speaks ", one, f" ({write_signed(attention, 2)})")
        return join(attended, ", the MLPs speak ", other, f" ({write_signed(mlps, 2)}): the MLPs decide.")
    first, second, third = (f"({write_signed(value, 2)})" for value in (attention, mlps, rest))
    whole = f"the {quantity} of {write_signed(total, 2)}"
    if abs(rest) <= _SLIGHT * abs(total):
        return [f"Attention {first} and the MLPs {second} make up most of {whole}."]
    return [f"Attention {first}, the MLPs {second}, embedding and biases {third} add up to {whole}."]


def _favour(document: Document, value: float) -> Sentence:
    """Say which of target and foils a number speaks for."""
    target, foils = document["target"], document["foils"]
    if value > 0:
        return join("for ", quote(target["text"]))
    if len(foils) > 1:
        return ["for the foils"]
    return join("for ", quote(foils[0]["text"])) if foils else join("against ", quote(target["text"]))


def name_strongest(document: Document) -> Sentence | None:
    """Name the words with the highest and the lowest scores."""
    measure, groups = read_measure(document), _group_words(document)
    scores = [sum(document["scores"][place] for place in places) for places in groups]
    words = list(zip(word_texts(document), scores, strict=True))
    least = _SMALL * max(abs(score) for _, score in words)
    ranked = sorted(words, key=lambda word: -word[1])
    high = [word for word in ranked if word[1] > least][:_NAMED]
    low = [word for word in reversed(ranked) if word[1] < -least][:_NAMED]
    write = write_signed if measure.contrastive else write_plain
    said: Sentence = []
    for sign, side in ((1.0, high), (-1.0, low)):
        if not side:
            continue
        if measure.adds_up:
            whose = "Attention’s strongest" if measure.sum_of == "attention" else "The strongest"
            name = join("" if said else f"{whose} words ", _favour(document, sign))
        else:
            name = ["highest scores" if sign > 0 else "lowest scores"]
        listed = [join(quote(text), f" {write(score, 2)}") for text, score in side]
        said = join(said, "; " if said else "", name, ": ", separate(listed))
    if not said:
        return None
    said = join(said, f" ({measure.unit}).")
    return [capitalise(said[0]), *said[1:]]


def word_texts(document: Document) -> list[str]:
    """Return the text of every word, in order: what its tokens cover, since several may share a character."""
    return [_cover(document, places) for places in _group_words(document)]


def _group_words(document: Document) -> list[list[int]]:
    """Return the places of every word's tokens."""
    words: dict[int, list[int]] = {}
    for place, token in enumerate(document["tokens"]):
        words.setdefault(token["word"], []).append(place)
    return list(words.values())


def _cover(document: Document, places: Sequence[int]) -> str:
    tokens = [document["tokens"][place] for place in places]
    if tokens[0]["special"]:
        return str(tokens[0]["text"])
    covered: str = document["text"][tokens[0]["start"] : max(token["end"] for token in tokens)]
    return covered.strip() or covered
