"""Sentence pairs as encoder and decoder read them, with their words."""

from collections.abc import Sequence
from dataclasses import dataclass

from jaxtyping import Bool, Float
from torch import Tensor

from ..ask.sentence_pair import Pair, pair_up
from ..errors import InputError
from ..models.model import Model
from .words import Sentence, read_sentence, share_tokens

__all__ = ["Prepared", "SentenceText", "prepare"]

SentenceText = str | Sequence[str]
"""A text, or its words."""


@dataclass(frozen=True)
class Prepared:
    """A pair with its words."""

    pair: Pair
    read: tuple[int, ...]
    """What the decoder reads: up to the last token of the last word, so that every word is consumed too."""
    source_words: tuple[str, ...]
    target_words: tuple[str, ...]
    source_shares: Float[Tensor, "source_word source"]
    target_shares: Float[Tensor, "target_word step"]
    """The words' shares of the tokens that the decoder predicts, one per step."""

    @property
    def written(self) -> tuple[Bool[Tensor, " target_word"], Bool[Tensor, " source_word"]]:
        """Which words of translation and source tokens stand for; others cannot be aligned."""
        return self.target_shares.sum(1) > 0, self.source_shares.sum(1) > 0


def prepare(
    model: Model,
    source: SentenceText,
    target: SentenceText,
    languages: tuple[str | None, str | None] = (None, None),
    words: str = "auto",
) -> Prepared | None:
    """Read a pair and find its words; None where one side is empty, so that there is nothing to align."""
    sentences = read_sentence(source, "source", words), read_sentence(target, "translation", words)
    if not all(sentence.text.strip() for sentence in sentences):
        return None
    return _prepare_read(model, *sentences, languages)


def _prepare_read(
    model: Model, source: Sentence, target: Sentence, languages: tuple[str | None, str | None]
) -> Prepared:
    pair = pair_up(model, source.text, target.text, languages)
    source_words, source_shares = share_tokens(source, pair.source)
    target_words, target_shares = share_tokens(target, pair.target, pair.first)
    last = max(place for place in range(len(pair.target)) if target_shares[:, place].any())
    read = pair.target.ids[: last + 1]
    if model.most_tokens is not None and len(read) > model.most_tokens:
        raise InputError(
            f"The translation has {len(read)} tokens, {model.name} has positions for {model.most_tokens}.",
            f"Shorten it by {len(read) - model.most_tokens} tokens.",
        )
    return Prepared(
        pair,
        tuple(read),
        source_words,
        target_words,
        source_shares.to(model.compute_dtype),
        target_shares[:, pair.first : last + 1].to(model.compute_dtype),
    )
