"""Tokens: ids with the text they stand for; slow tokenizers; language codes."""

from .tokens import Token, Tokens, join_word, spell

__all__ = ["Token", "Tokens", "join_word", "spell"]
