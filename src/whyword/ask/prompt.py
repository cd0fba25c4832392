"""From what a user passes (text, ids, chat turns, words) to the tokens that the model reads."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import index
from typing import Any
from weakref import WeakKeyDictionary

from torch import Tensor

from ..errors import InputError
from ..models.model import Model
from ..tokens import Tokens, join_word, spell
from ..tokens.encoding import encode
from ..tokens.slow_tokenizers import match_pieces
from ..tokens.tokens import Place, Token
from .chat_turns import Message, render_chat, shorten
from .filled_prompt import FilledPrompt
from .start_of_text import find_start

__all__ = [
    "ANSWER",
    "Prompt",
    "continue_prompt",
    "extend_prompt",
    "read_prompt",
    "require_tokens",
    "spell_offsets",
    "spell_pieces",
    "token_text",
    "token_texts",
    "tokenize",
]

Prompt = str | FilledPrompt | Sequence[int] | Tensor | Sequence[Message] | Tokens
"""Text, what `fill` gives, token ids, chat messages (role and content), or tokens."""
ANSWER = "answer"
"""What the part after a prompt with named parts is called."""

_HALF_CHARACTER = "\ufffd"
_PIECES: WeakKeyDictionary[Any, dict[str, str | None]] = WeakKeyDictionary()
"""The texts of pieces that were asked for, by slow tokenizer: they take their time."""
_CONTEXT = 8
"""How many preceding tokens are decoded together with one to see what text it adds."""


def tokenize(model: Model, text: str, start: str | None = None) -> Tokens:
    """Tokenize a text, with the start of text before it; `start` overrides that of the model: see `load`.

    A text that begins with a special token has its start already: nothing is found for it. A token that the
    tokenizer puts at the end (EOS) is left out: the model is asked how the text goes on.
    """
    _tokenizer_for(model, f"the text {shorten(text)}")
    if not isinstance(text, str) or not text:
        wrong = "The prompt is empty." if isinstance(text, str) else f"A text cannot be {shorten(text)}."
        raise InputError(wrong, "Pass a text of at least one token.")
    tokens, found = _leave_open(model, _encode(model, text, add_special=True)), find_start(model, start)
    if found.chosen == "tokenizer":
        return replace(tokens, chosen=found.chosen)
    added = next((place for place, token in enumerate(tokens) if not _is_added(token)), len(tokens))
    if added:
        tokens = tokens.last(len(tokens) - added)
    if tokens.start and (found.chosen == "found" or tokens.ids[: len(found.ids)] == list(found.ids)):
        return tokens
    names = [str(name or found.text) for name in _special_names(model, found.ids)]
    return replace(tokens.begin(found.ids, names), chosen=found.chosen)


def _leave_open(model: Model, tokens: Tokens) -> Tokens:
    """Leave out what a tokenizer puts after a text, except for a model that classifies whole texts."""
    if model.labels is not None:
        return tokens
    last = max((place for place, token in enumerate(tokens) if not _is_added(token)), default=len(tokens))
    return tokens.first(last + 1)


def read_prompt(model: Model, prompt: Prompt) -> Tokens:
    """Turn any kind of prompt into tokens that fit the model."""
    tokens = _tokens_of(model, prompt)
    require_tokens(model, tokens.ids)
    if len(tokens) == 0:
        raise InputError("The prompt is empty.", "Pass at least one token.")
    if model.most_tokens is not None and len(tokens) > model.most_tokens:
        raise InputError(
            f"The prompt has {len(tokens)} tokens, {model.name} has positions for {model.most_tokens}.",
            f"Shorten it by {len(tokens) - model.most_tokens} tokens.",
        )
    return tokens


def continue_prompt(model: Model, prompt: Tokens, text: str) -> list[int]:
    """Tokenize what comes after a prompt, so that " has" and "has" mean the same continuation."""
    _tokenizer_for(model, f"the word {text!r}")
    joined = join_word("" if prompt[-1].special else prompt.text, text)
    # In context first: the same characters may be other tokens at the start of a text.
    before = _encode(model, prompt.text, add_special=False).ids
    whole = _encode(model, prompt.text + joined, add_special=False).ids
    fits = whole[: len(before)] == before
    ids = whole[len(before) :] if fits else _encode_alone(model, joined)
    if not joined or not ids:
        raise InputError(f"{text!r} has no tokens.", "Pass a word or a token id.")
    return ids


def extend_prompt(model: Model, prompt: Tokens, ids: Sequence[int]) -> Tokens:
    """Append tokens to a prompt, with the text each of them adds."""
    every, text = [*prompt.ids, *ids], prompt.text
    spans = [(token.start, token.end) for token in prompt]
    names = [token.text if token.special else None for token in prompt]
    for place in range(len(prompt), len(every)):
        piece = _added_text(model, every[max(0, place - _CONTEXT) : place], every[place])
        spans.append((len(text), len(text) + len(piece)))
        text += piece
        names.append(piece if every[place] in model.special_ids else None)
    places = [token.place for token in prompt]
    spelt = replace(spell(text, every, spans, names), chosen=prompt.chosen)
    return spelt.place([*places, *[_place_answer(places)] * len(ids)])


def _place_answer(places: Sequence[Place]) -> Place:
    """Give the place of what comes after a prompt: a turn of its own, where the prompt has turns."""
    turns = [place.turn for place in places if place.turn is not None]
    last = places[-1] if places else Place()
    part = ANSWER if any(place.part is not None for place in places) else None
    if not turns or (last.turn is not None and last.role == "assistant"):
        return Place(last.role, last.turn, part)
    return Place("assistant", max(turns) + 1, part)


def token_text(model: Model, id_: int, before: Tokens) -> str:
    """Return the text that one token adds after a prompt; its id for a model without a tokenizer."""
    return next(token_texts(model, [id_], before))


def token_texts(model: Model, ids: Iterable[int], before: Tokens) -> Iterator[str]:
    """Give the text that each of some tokens would add after a prompt, one by one; classes have names."""
    if model.labels is not None:
        yield from (model.labels[id_] for id_ in ids)
    elif model.tokenizer is None:
        yield from (str(id_) for id_ in ids)
    else:
        seen = before.ids[-_CONTEXT:]
        shown = _decode(model, seen).rstrip(_HALF_CHARACTER)
        yield from (_text_after(model, seen, shown, id_) for id_ in ids)


def require_tokens(model: Model, ids: Sequence[int]) -> None:
    """Refuse ids that the model has no token for."""
    for id_ in {min(ids), max(ids)} if ids else ():
        if not 0 <= id_ < model.vocabulary:
            raise InputError(
                f"There is no token {id_} in {model.name}.", f"Token ids go from 0 to {model.vocabulary - 1}."
            )


def _tokens_of(model: Model, prompt: Prompt) -> Tokens:
    if isinstance(prompt, Tokens):
        return prompt
    if isinstance(prompt, str):
        return tokenize(model, prompt)
    if isinstance(prompt, FilledPrompt):
        return tokenize(model, prompt.text).divide((), prompt.parts)
    if isinstance(prompt, Tensor) and (prompt.ndim != 1 or prompt.is_floating_point()):
        raise InputError(
            f"The prompt's ids have shape {tuple(prompt.shape)} and type {prompt.dtype}.",
            "Pass one prompt: a tensor of integers with one axis.",
        )
    try:
        items: list[Any] = list(prompt)
        if items and all(isinstance(item, Mapping) for item in items):
            return _read_chat(model, items)
        if isinstance(prompt, bytes):
            raise TypeError("bytes are not token ids")
        if any(isinstance(item, bool) for item in items):
            raise TypeError("truth values are not token ids")
        ids = [index(item) for item in items]
    except TypeError:
        raise InputError(
            f"A prompt cannot be {shorten(prompt)}.",
            "Pass text, token ids, chat messages ({'role': ..., 'content': ...}), or whyword.tokenize(...).",
        ) from None
    require_tokens(model, ids)
    return _read_ids(model, ids)


def _is_added(token: Token) -> bool:
    """Tell whether a token was put before the text by the tokenizer: it stands for no character of it."""
    return token.special and token.start == token.end


def _encode_alone(model: Model, text: str) -> list[int]:
    """Tokenize a word on its own, without the empty piece that some tokenizers put before it."""
    ids = _encode(model, text, add_special=False).ids
    empty = len(ids) > 1 and not text[:1].isspace() and not _decode(model, ids[:1]).strip()
    return ids[1:] if empty else ids


def _read_chat(model: Model, messages: list[Message]) -> Tokens:
    """Read chat messages through the tokenizer's template."""
    chat = render_chat(model.name, _tokenizer_for(model, "chat messages"), messages)
    return _encode(model, chat.text, add_special=False).divide(chat.turns, chat.parts)


def _read_ids(model: Model, ids: list[int]) -> Tokens:
    """Find the text that ids stand for."""
    if model.tokenizer is None or not model.tokenizer.is_fast:
        return extend_prompt(model, Tokens("", ()), ids)
    text = model.tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
    again = _encode(model, text, add_special=False)
    return again if again.ids == ids else extend_prompt(model, Tokens("", ()), ids)


def _encode(model: Model, text: str, *, add_special: bool) -> Tokens:
    """Tokenize with character offsets."""
    tokenizer = model.tokenizer
    assert tokenizer is not None
    if not tokenizer.is_fast:
        return spell_pieces(model, text, encode(tokenizer, text, add_special_tokens=add_special).input_ids)
    options: dict[str, Any] = {"return_offsets_mapping": True, "verbose": False}
    return spell_offsets(model, text, encode(tokenizer, text, add_special_tokens=add_special, **options))


def spell_offsets(model: Model, text: str, encoding: Any) -> Tokens:
    """Make tokens from the output of a fast tokenizer: ids with character offsets."""
    ids = encoding["input_ids"]
    names = _special_names(model, ids)
    spans = [(int(start), int(end)) for start, end in encoding["offset_mapping"]]
    for place, (start, end) in enumerate(spans[:-1]):
        # SentencePiece puts an empty piece before a text and gives it the first character of the next piece.
        if start < end and start == spans[place + 1][0] and not _decode(model, [ids[place]]).strip():
            spans[place] = (start, start)
    return spell(text, ids, spans, names)


def spell_pieces(model: Model, text: str, ids: Sequence[int]) -> Tokens:
    """Make tokens from the ids that a slow tokenizer returns for a text: pieces are matched to it."""
    names = _special_names(model, ids)
    plain = [id_ for id_, name in zip(ids, names, strict=True) if name is None]
    found = iter(match_pieces(text, [_piece_text(model, id_) for id_ in plain]))
    spans, reached = [], 0
    for name in names:
        spans.append((reached, reached) if name is not None else next(found))
        reached = max(reached, spans[-1][1])
    return spell(text, ids, spans, names)


def _special_names(model: Model, ids: Sequence[int]) -> list[str | None]:
    """Return the names of special tokens, None for the others."""
    tokenizer, special = model.tokenizer, model.special_ids
    assert tokenizer is not None
    return [str(tokenizer.convert_ids_to_tokens(id_)) if id_ in special else None for id_ in ids]


def _piece_text(model: Model, id_: int) -> str | None:
    """Return the text of one piece; None where it has none of its own: unknown, or part of a character."""
    tokenizer = model.tokenizer
    assert tokenizer is not None
    if id_ == tokenizer.unk_token_id:
        return None
    token = tokenizer.convert_ids_to_tokens(id_)
    known = _PIECES.setdefault(tokenizer, {})
    if token not in known:
        text = str(tokenizer.convert_tokens_to_string([token]))
        known[token] = None if _HALF_CHARACTER in text or not (text or _is_space(token)) else text
    return known[token]


def _is_space(token: str) -> bool:
    """Tell whether a piece is SentencePiece's marker for a space."""
    return token == "▁"


def _added_text(model: Model, before: list[int], id_: int) -> str:
    """Return the text that a token adds after others. Part of a character adds nothing."""
    if model.tokenizer is None:
        return f" {id_}" if before else str(id_)
    return _text_after(model, before, _decode(model, before).rstrip(_HALF_CHARACTER), id_)


def _text_after(model: Model, before: list[int], shown: str, id_: int) -> str:
    """Return the text that a token adds after others, of which the text is known."""
    assert model.tokenizer is not None
    if id_ in model.special_ids:
        return str(model.tokenizer.convert_ids_to_tokens(id_))
    return _decode(model, [*before, id_]).rstrip(_HALF_CHARACTER)[len(shown) :]


def _decode(model: Model, ids: list[int]) -> str:
    assert model.tokenizer is not None
    return str(model.tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))


def _tokenizer_for(model: Model, what: str) -> Any:
    if model.tokenizer is None:
        raise InputError(
            f"{model.name} was loaded without a tokenizer, so {what} cannot be read.",
            "Pass token ids, or load it with whyword.load(..., tokenizer=...).",
        )
    return model.tokenizer
