"""A source and its translation, as encoder and decoder read them.

The decoder reads a start token, what its tokenizer puts before every text (a language code, BOS), and the
translation; it predicts the translation and the token that ends it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import index
from typing import Any

from ..errors import InputError
from ..models.model import Model
from ..tokens import Tokens, spell
from ..tokens.encoding import encode
from ..tokens.languages import speak
from ..trace.running import generate_translation
from .prompt import extend_prompt, require_tokens, spell_offsets, spell_pieces

__all__ = ["Pair", "Text", "encode_target", "pair_up"]

Text = str | Sequence[int] | Tokens
"""Text, token ids, or tokens."""


@dataclass(frozen=True)
class Pair:
    """What encoder and decoder read, and what is explained."""

    source: Tokens
    target: Tokens
    """From the start token to the end; the decoder reads all but the last."""
    first: int
    """Index of the first target token that is explained; those before it are forced."""

    @property
    def prompt(self) -> list[int]:
        """What the decoder reads."""
        return self.target.ids[:-1]

    @property
    def explained(self) -> list[int]:
        """The tokens that are explained."""
        return self.target.ids[self.first :]


def pair_up(
    model: Model,
    source: Text,
    translation: Text | None = None,
    languages: tuple[str | None, str | None] = (None, None),
) -> Pair:
    """Read a source and its translation, or let the model translate. `languages`: of source and target."""
    if model.tokenizer is None:
        for code, what in zip(languages, ("source", "target"), strict=True):
            if code is not None:
                raise InputError(
                    f"The {what} language is {code!r}, but {model.name} was loaded without a tokenizer.",
                    "Pass token ids with their language codes, or load it with a tokenizer.",
                )
        read = _read_tokens(model, source, "source")
        return _follow(model, read, [_start(model)], translation)
    with speak(model.tokenizer, *languages) as known:
        read = _read_source(model, source, known.mark(languages[1]))
        start, forced = _template(model)
        return _follow(model, read, [start, *forced], translation)


def _follow(model: Model, source: Tokens, start: list[int], translation: Text | None) -> Pair:
    """Return the pair of a source and a translation, after the forced tokens `start`."""
    _require_room(model, source, "source")
    if translation is None:
        room = 2 * len(source) + 50
        if model.most_tokens is not None:
            room = min(room, model.most_tokens - len(start) + 1)
        ids = generate_translation(model, source.ids, start, room)
        target = _spell_target(model, start, ids)
    elif isinstance(translation, str):
        target = _encode_target(model, start, translation)
    elif isinstance(translation, Tokens):
        target = _put(model, start, translation.text, list(translation))
    else:
        target = _spell_target(model, start, _read_ids(model, translation, "translation"))
    if len(target) <= len(start):
        raise InputError("The translation is empty.", "Pass a text of at least one token, or None.")
    _require_room(model, target.first(len(target) - 1), "translation")
    return Pair(source, target, len(start))


def _read_source(model: Model, source: Text, mark: str) -> Tokens:
    """Read a source; `mark` names the target language and is not text."""
    if not isinstance(source, str):
        return _read_tokens(model, source, "source")
    if not source.strip():
        raise InputError("The source is empty.", "Pass a text of at least one token.")
    tokens = _encode(model, mark + source, "text")
    if not mark:
        return tokens
    moved = [(max(0, token.start - len(mark)), max(0, token.end - len(mark))) for token in tokens]
    names = [token.text.strip() if token.special or token.end <= len(mark) else None for token in tokens]
    return spell(source, tokens.ids, moved, names)


def encode_target(model: Model, pair: Pair, text: str, languages: tuple[str | None, str | None]) -> Tokens:
    """Read another translation of a pair's source."""
    start = pair.target.ids[: pair.first]
    if model.tokenizer is None:
        return _spell_target(model, start, _read_ids(model, text, "foil"))
    with speak(model.tokenizer, *languages):
        return _encode_target(model, start, text)


def _encode_target(model: Model, start: Sequence[int], text: str) -> Tokens:
    """Read a translation, after forced tokens and up to the token that ends it."""
    if not text.strip():
        raise InputError("The translation is empty.", "Pass a text of at least one token, or None.")
    tokens = _encode(model, text, "text_target")
    records = list(tokens)
    while records and records[0].special:
        records = records[1:]
    tail = [token for token in records if token.special and token.id == _end(model)]
    plain = [token for token in records if not token.special]
    return _put(model, start, text, [*plain, *tail[:1]])


def _put(model: Model, start: Sequence[int], text: str, records: Sequence[Any]) -> Tokens:
    """Put forced tokens before others."""
    reader = model.tokenizer
    names = [str(id_ if reader is None else reader.convert_ids_to_tokens(id_)) for id_ in start]
    return spell(
        text,
        [*start, *(token.id for token in records)],
        [*[(0, 0)] * len(start), *((token.start, token.end) for token in records)],
        [*names, *(token.text if token.special else None for token in records)],
    )


def _spell_target(model: Model, start: list[int], ids: list[int]) -> Tokens:
    """Find the text that the ids of a translation stand for."""
    if model.tokenizer is None:
        return extend_prompt(model, Tokens("", ()), [*start, *ids])
    end = _end(model)
    plain = [id_ for id_ in ids if id_ not in model.special_ids]
    text = str(model.tokenizer.decode(plain, clean_up_tokenization_spaces=False)).strip()
    if text:
        again = _encode_target(model, start, text)
        if again.ids in ([*start, *ids], [*start, *ids, end]):
            return again.first(len(start) + len(ids))
    if model.tokenizer.is_fast:
        return _put(model, start, "", list(extend_prompt(model, Tokens("", ()), ids)))
    return _put(model, start, text, list(spell_pieces(model, text, ids)))


def _encode(model: Model, text: str, side: str) -> Tokens:
    """Tokenize a source (`side` text) or a translation (text_target)."""
    tokenizer = model.tokenizer
    assert tokenizer is not None
    if not tokenizer.is_fast:
        return spell_pieces(model, text, encode(tokenizer, text, side).input_ids)
    return spell_offsets(
        model, text, encode(tokenizer, text, side, return_offsets_mapping=True, verbose=False)
    )


def _template(model: Model) -> tuple[int, list[int]]:
    """Find the token that a decoder starts with, and those that its tokenizer puts before every text.

    mBART's tokenizer puts the language code last; the decoder starts with it.
    """
    assert model.tokenizer is not None
    ids, end = list(model.tokenizer(text_target="").input_ids), _end(model)
    if end in ids:
        around = ids.index(end)
        after = ids[around + 1 :]
        return (after[-1], ids[:around]) if after else (_start(model), ids[:around])
    return _start(model), ids


def _start(model: Model) -> int:
    """Return the token that the decoder starts with."""
    for config in (model.network.generation_config, model.config):
        for name in ("decoder_start_token_id", "bos_token_id"):
            id_ = getattr(config, name, None)
            if id_ is not None:
                return int(id_)
    raise InputError(
        f"{model.name} does not say what its decoder starts with.",
        "Set decoder_start_token_id in its config.",
    )


def _end(model: Model) -> int | None:
    assert model.tokenizer is not None
    id_: int | None = model.tokenizer.eos_token_id
    return id_


def _read_tokens(model: Model, text: Any, what: str) -> Tokens:
    """Read ids or tokens unchanged."""
    return (
        text
        if isinstance(text, Tokens)
        else extend_prompt(model, Tokens("", ()), _read_ids(model, text, what))
    )


def _read_ids(model: Model, text: Any, what: str) -> list[int]:
    if isinstance(text, str):
        raise InputError(
            f"{model.name} was loaded without a tokenizer, so the {what} {text[:40]!r} cannot be read.",
            "Pass token ids, or load it with whyword.load(..., tokenizer=...).",
        )
    try:
        ids = [index(id_) for id_ in text]
    except TypeError:
        raise InputError(f"The {what} is {text!r}.", "Pass a text or a list of token ids.") from None
    if not ids:
        raise InputError(f"The {what} is empty.", "Pass at least one token.")
    require_tokens(model, ids)
    return ids


def _require_room(model: Model, tokens: Tokens, what: str) -> None:
    if model.most_tokens is not None and len(tokens) > model.most_tokens:
        raise InputError(
            f"The {what} has {len(tokens)} tokens, {model.name} has positions for {model.most_tokens}.",
            f"Shorten it by {len(tokens) - model.most_tokens} tokens.",
        )
