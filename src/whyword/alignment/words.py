"""Words of a sentence, in the text that the model reads, and the tokens that they consist of.

Given words are kept. Words of scripts without spaces (Han, Kana, Thai) are joined without spaces, as the
model saw them in training; a token that covers several words is shared between them by characters.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import regex
import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import InputError
from ..tokens import Tokens

__all__ = ["WORDS", "Sentence", "read_sentence", "share_tokens", "spell_words"]

WORDS = ("auto", "spaces", "characters")
"""How texts are split into words: by their looks, at spaces, or by character where a script has none."""
_UNSPACED = r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]"
_LETTER = r"\p{L}\p{M}\p{N}"
_HAS_LETTER, _HAS_UNSPACED = regex.compile(r"\p{L}"), regex.compile(_UNSPACED)
_IS_SPACED = regex.compile(rf"(?!{_UNSPACED})[{_LETTER}]")
_ATTACHED = regex.compile(rf"(?<=[{_LETTER}])[.,!?;:…\"”’)\]»]+(?!\S)|(?<!\S)[\"“‘(\[«¿¡]+(?=[{_LETTER}])")
"""Punctuation attached to a word: the text was not cut into words."""
_ALONE = regex.compile(rf"(?<!\S)[^\s{_LETTER}]+(?!\S)")
"""Punctuation separated by spaces: the text was cut into words."""
_LONG = 4
"""Most characters that words of an unspaced script have on average; longer pieces are clauses."""


@dataclass(frozen=True)
class Sentence:
    """A text and, where they are given, the words in it."""

    text: str
    """What the model reads."""
    words: tuple[tuple[int, int], ...] | None
    """Where each word starts and ends; None: to be found with the tokens."""


def spell_words(words: Sequence[str]) -> Sentence:
    """Write given words as a text: with spaces between them, without in unspaced scripts."""
    unspaced = _is_unspaced(words)
    text, spans = "", list[tuple[int, int]]()
    for word in words:
        if text and not (unspaced and _touches(text[-1], word[:1])):
            text += " "
        spans.append((len(text), len(text) + len(word)))
        text += word
    return Sentence(text, tuple(spans))


def read_sentence(text: str | Sequence[Any], what: str, words_by: str = "auto") -> Sentence:
    """Read a sentence: words, text that is cut into words by spaces, or text as people write it.

    `words_by`: one of WORDS; "spaces" always cuts text there, "characters" makes every character of an
    unspaced script a word.
    """
    if words_by not in WORDS:
        raise InputError(f"words is {words_by!r}.", f"Words: {', '.join(WORDS)}.")
    if not isinstance(text, str):
        words = list(text)
        if not all(isinstance(word, str) for word in words):
            raise InputError(f"The {what} is {text!r}.", "Pass a text or a list of words.")
        empty = [index for index, word in enumerate(words, 1) if not word or word.strip() != word]
        if empty:
            raise InputError(
                f"Word {empty[0]} of the {what} is {words[empty[0] - 1]!r}.",
                "Pass non-empty words without spaces around them.",
            )
        return spell_words(_split_characters(words) if words_by == "characters" else words)
    if words_by == "characters":
        return spell_words(_split_characters(text.split()))
    return (
        spell_words(text.split()) if words_by == "spaces" or _is_cut(text) else Sentence(text.strip(), None)
    )


def share_tokens(
    sentence: Sentence, tokens: Tokens, first: int = 0
) -> tuple[tuple[str, ...], Float[Tensor, "word token"]]:
    """Return the words of a sentence and the share that each has of every token, by characters.

    Special tokens (BOS, language codes, EOS), those before `first`, and those without a character of their
    own (the marker for a space) belong to no word.
    """
    spans = _find_words(tokens, first) if sentence.words is None else sentence.words
    words = torch.tensor(spans, dtype=torch.float64, device="cpu").view(-1, 2, 1)
    own = [
        (token.start, 0 if place < first or token.special else token.end)
        for place, token in enumerate(tokens)
    ]
    covered = torch.tensor(own, dtype=torch.float64, device="cpu").view(-1, 2).T
    shares = (torch.minimum(words[:, 1], covered[1]) - torch.maximum(words[:, 0], covered[0])).clamp(min=0)
    return tuple(tokens.text[start:end] for start, end in spans), shares / shares.sum(0).clamp(min=1)


def _find_words(tokens: Tokens, first: int) -> list[tuple[int, int]]:
    """Find words by the tokens that they consist of; tokens without text form none."""
    found: dict[int, tuple[int, int]] = {}
    for place, token in enumerate(tokens):
        if place >= first and not token.special and token.start < token.end:
            start, end = found.get(token.word, (token.start, token.end))
            found[token.word] = (min(start, token.start), max(end, token.end))
    return list(found.values())


def _is_cut(text: str) -> bool:
    """Tell whether spaces separate all words, including punctuation and words of unspaced scripts."""
    if _is_unspaced(words := text.split()):
        return len(words) > 1 and _LONG * len(words) >= len(regex.findall(_UNSPACED, text))
    return _ALONE.search(text) is not None or _ATTACHED.search(text) is None


def _is_unspaced(words: Sequence[str]) -> bool:
    """Tell whether most words have letters of unspaced scripts."""
    lettered = [word for word in words if _HAS_LETTER.search(word)]
    return 2 * sum(_HAS_UNSPACED.search(word) is not None for word in lettered) > len(lettered)


def _touches(before: str, after: str) -> bool:
    """Tell whether two characters of an unspaced script follow each other without a space."""
    return not all(_IS_SPACED.match(each) for each in (before, after))


def _split_characters(words: Sequence[str]) -> list[str]:
    """Split words at every character of an unspaced script, with the marks that belong to it."""
    piece = regex.compile(rf"{_UNSPACED}\p{{M}}*|\p{{P}}|(?:(?!{_UNSPACED}|\p{{P}}).)+")
    return [
        own for word in words for own in (piece.findall(word) if regex.search(_UNSPACED, word) else [word])
    ]
