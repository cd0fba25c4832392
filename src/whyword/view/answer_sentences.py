"""The answer of an explanation in two sentences: what made the logit (difference), and which words did."""

from collections.abc import Sequence
from itertools import zip_longest

from ..document.kinds import Document, read_measure
from .quoting import Sentence, capitalise, join, quote, separate, write_plain, write_signed

__all__ = [
    "START",
    "count_start",
    "decide",
    "favour",
    "group_words",
    "name_quantity",
    "name_strongest",
    "warn_of_sink",
    "word_texts",
]

START = "start"
"""What the start of text is called where words are listed."""

_SINK = 0.3
"""The share of attention from which a first token is a sink, if it is twice what a token gets on average."""
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
        one, other = (favour(document, value) for value in (attention, mlps))
        attended = join("Attention speaks ", one, f" ({write_signed(attention, 2)})")
        return join(attended, ", the MLPs speak ", other, f" ({write_signed(mlps, 2)}): the MLPs decide.")
    first, second, third = (f"({write_signed(value, 2)})" for value in (attention, mlps, rest))
    whole = f"the {quantity} of {write_signed(total, 2)}"
    if abs(rest) <= _SLIGHT * abs(total):
        return [f"Attention {first} and the MLPs {second} make up most of {whole}."]
    return [f"Attention {first}, the MLPs {second}, embedding and biases {third} add up to {whole}."]


def favour(document: Document, value: float) -> Sentence:
    """Say which of target and foils a number speaks for."""
    target, foils = document["target"], document["foils"]
    if value > 0:
        return join("for ", quote(target["text"]))
    if len(foils) > 1:
        return ["for the foils"]
    return join("for ", quote(foils[0]["text"])) if foils else join("against ", quote(target["text"]))


def name_strongest(document: Document) -> Sentence | None:
    """Name the words with the highest and the lowest scores."""
    measure, groups = read_measure(document), group_words(document)
    scores = [float(sum(document["scores"][place] for place in places)) for places in groups]
    begun = count_start(document) > 0
    words = list(zip(word_texts(document), scores, strict=True))[begun:]
    least = _SMALL * max((abs(score) for _, score in words), default=0.0)
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
            name = join("" if said else f"{whose} words ", favour(document, sign))
        else:
            name = ["highest scores" if sign > 0 else "lowest scores"]
        listed = [join(quote(text), f" {write(score, 2)}") for text, score in side]
        said = join(said, "; " if said else "", name, ": ", separate(listed))
    if said:
        said = join(said, f" ({measure.unit}).")
        said = [capitalise(said[0]), *said[1:]]
    if begun:
        said = join(said, f"{' ' if said else ''}{capitalise(START)}: {write(scores[0], 2)}.")
    return said or None


def count_start(document: Document) -> int:
    """Count the tokens of the start of text."""
    return int((document.get("start") or {"tokens": 0})["tokens"])


def warn_of_sink(document: Document) -> Sentence | None:
    """Say that the strongest score is on the first token and why, where it is a sink without a start."""
    parts = document.get("explanations") or [document]
    last, shares = parts[-1], [part.get("first_attention") or 0.0 for part in parts]
    share, tokens = sum(shares) / len(shares), last["tokens"]
    if count_start(last) or share < max(_SINK, 2 / len(tokens)):
        return None
    rows = [each["scores"] for each in last.get("methods") or [last]]
    if len(parts) > 1:
        rows = [[sum(each) for each in zip_longest(*(part["scores"] for part in parts), fillvalue=0.0)]]
    if not any(abs(row[0]) >= max(map(abs, row)) for row in rows):
        return None
    attended = f" is an attention sink ({100 * share:.0f} % of the attention goes there)"
    return join(
        "The strongest score is on the first token: ",
        quote(tokens[0]["text"]),
        f"{attended}, since no start of text stands before it. Its score says little about the word.",
    )


def word_texts(document: Document) -> list[str]:
    """Give the text of every word, in order: what its tokens cover, since several may share a character.

    The start of text stands before them.
    """
    groups, begun = group_words(document), count_start(document) > 0
    return [*([START] if begun else []), *(_cover(document, places) for places in groups[begun:])]


def group_words(document: Document) -> list[list[int]]:
    """Give the places of every word's tokens, after those of the start of text."""
    first, words = count_start(document), dict[int, list[int]]()
    for place, token in enumerate(document["tokens"]):
        words.setdefault(-1 if place < first else token["word"], []).append(place)
    return list(words.values())


def _cover(document: Document, places: Sequence[int]) -> str:
    tokens = [document["tokens"][place] for place in places]
    if tokens[0]["special"]:
        return str(tokens[0]["text"])
    covered: str = document["text"][tokens[0]["start"] : max(token["end"] for token in tokens)]
    return covered.strip() or covered
