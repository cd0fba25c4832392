"""From what a user has (text, ids, chat turns, words) to tokens the model reads."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from .errors import InputError
from .models.model import Model
from .tokens import Tokens, join_word, spell

__all__ = [
    "Prompt",
    "continue_prompt",
    "extend_prompt",
    "read_prompt",
    "require_token",
    "token_text",
    "tokenize",
]

Prompt = str | Sequence[int] | Tensor | Sequence[Mapping[str, str]] | Tokens
"""Text, token ids, chat turns (role and content), or tokens."""

_HALF_CHARACTER = "\ufffd"
_CONTEXT = 8
"""Tokens that are decoded with one to see what text it adds."""


def tokenize(model: Model, text: str, bos: bool | None = None) -> Tokens:
    """Tokenize a text as the model's tokenizer does; `bos` forces a BOS token (True) or none (False)."""
    tokenizer = _tokenizer_for(model, f"the text {_short(text)}")
    if not text:
        raise InputError("The prompt is empty.", "Give a text of at least one token.")
    tokens = _encode(model, text, add_special=True)
    begins = len(tokens) > 0 and tokens[0].id == tokenizer.bos_token_id
    if bos is False and begins:
        return tokens.last(len(tokens) - 1)
    if bos is True and not begins:
        if tokenizer.bos_token_id is None:
            raise InputError(
                "bos=True, but the tokenizer has no BOS token.", "Leave bos out, or pass bos=False."
            )
        spans = [(0, 0), *((token.start, token.end) for token in tokens)]
        names = [tokenizer.bos_token, *(token.text if token.special else None for token in tokens)]
        return spell(text, [tokenizer.bos_token_id, *tokens.ids], spans, names)
    return tokens


def read_prompt(model: Model, prompt: Prompt) -> Tokens:
    """Turn any kind of prompt into tokens that fit the model."""
    tokens = _tokens_of(model, prompt)
    if len(tokens) == 0:
        raise InputError("The prompt is empty.", "Give at least one token.")
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
    ids = whole[len(before) :] if fits else _encode(model, joined, add_special=False).ids
    if not ids:
        raise InputError(f"{text!r} has no tokens.", "Give a word, or a token id.")
    return ids


def extend_prompt(model: Model, prompt: Tokens, ids: Sequence[int]) -> Tokens:
    """Append tokens to a prompt, with the text each of them adds."""
    every, text = [*prompt.ids, *ids], prompt.text
    spans = [(token.start, token.end) for token in prompt]
    names = [token.text if token.special else None for token in prompt]
    for index in range(len(prompt), len(every)):
        piece = _added_text(model, every[max(0, index - _CONTEXT) : index], every[index])
        spans.append((len(text), len(text) + len(piece)))
        text += piece
        names.append(piece if every[index] in model.special_ids else None)
    return spell(text, every, spans, names)


def token_text(model: Model, id_: int, before: Tokens) -> str:
    """Give the text that one token adds after a prompt; its number for a model without tokenizer."""
    return _added_text(model, before.ids[-_CONTEXT:], id_).removeprefix(
        " " if model.tokenizer is None else ""
    )


def require_token(model: Model, id_: int) -> int:
    """Refuse an id that the model has no token for."""
    if not 0 <= id_ < model.vocabulary:
        raise InputError(
            f"There is no token {id_} in {model.name}.", f"Token ids go from 0 to {model.vocabulary - 1}."
        )
    return id_


def _tokens_of(model: Model, prompt: Prompt) -> Tokens:
    if isinstance(prompt, Tokens):
        return prompt
    if isinstance(prompt, str):
        return tokenize(model, prompt)
    if isinstance(prompt, Tensor):
        if prompt.ndim != 1:
            raise InputError(
                f"The prompt's ids have shape {tuple(prompt.shape)}.",
                "Give one prompt: a tensor with one axis.",
            )
        prompt = [int(id_) for id_ in prompt.tolist()]
    items: list[Any] = list(prompt)
    if items and all(isinstance(item, Mapping) for item in items):
        return _render_chat(model, items)
    if all(isinstance(item, int) and not isinstance(item, bool) for item in items):
        for id_ in {min(items), max(items)} if items else ():
            require_token(model, id_)
        return _read_ids(model, items)
    raise InputError(
        f"A prompt cannot be a list of {type(items[0]).__name__}.",
        "Give text, token ids, chat messages ({'role': ..., 'content': ...}), or whyword.tokenize(...).",
    )


def _render_chat(model: Model, messages: list[Mapping[str, str]]) -> Tokens:
    """Write chat turns with the tokenizer's template; a last turn of the assistant is continued."""
    tokenizer = _tokenizer_for(model, "chat messages")
    for message in messages:
        if not {"role", "content"} <= message.keys():
            raise InputError(
                f"A chat message has the keys {', '.join(map(str, message)) or 'none'}.",
                "Give every message a 'role' and a 'content'.",
            )
    if tokenizer.chat_template is None:
        raise InputError(
            f"The tokenizer of {model.name} has no chat template.", "Give the prompt as text instead."
        )
    answering = messages[-1]["role"] == "assistant"
    text = tokenizer.apply_chat_template(
        [dict(message) for message in messages],
        tokenize=False,
        add_generation_prompt=not answering,
        continue_final_message=answering,
    )
    return _encode(model, text, add_special=False)


def _read_ids(model: Model, ids: list[int]) -> Tokens:
    """Find the text that ids stand for."""
    if model.tokenizer is None:
        return extend_prompt(model, Tokens("", ()), ids)
    text = model.tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
    again = _encode(model, text, add_special=False)
    return again if again.ids == ids else extend_prompt(model, Tokens("", ()), ids)


def _encode(model: Model, text: str, *, add_special: bool) -> Tokens:
    """Tokenize with character offsets."""
    tokenizer = model.tokenizer
    assert tokenizer is not None
    if not tokenizer.is_fast:
        raise InputError(
            f"{type(tokenizer).__name__} gives no character offsets.",
            "Load a fast tokenizer, or give token ids.",
        )
    encoding = tokenizer(text, add_special_tokens=add_special, return_offsets_mapping=True, verbose=False)
    ids, special = encoding["input_ids"], model.special_ids
    names = [tokenizer.convert_ids_to_tokens(id_) if id_ in special else None for id_ in ids]
    return spell(text, ids, [tuple(span) for span in encoding["offset_mapping"]], names)


def _added_text(model: Model, before: list[int], id_: int) -> str:
    """Give the text that a token adds after others. Half a character adds nothing until it is whole."""
    if model.tokenizer is None:
        return f" {id_}" if before else str(id_)
    if id_ in model.special_ids:
        return str(model.tokenizer.convert_ids_to_tokens(id_))
    shown = _decode(model, before).rstrip(_HALF_CHARACTER)
    return _decode(model, [*before, id_]).rstrip(_HALF_CHARACTER)[len(shown) :]


def _decode(model: Model, ids: list[int]) -> str:
    assert model.tokenizer is not None
    return str(model.tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))


def _tokenizer_for(model: Model, what: str) -> Any:
    if model.tokenizer is None:
        raise InputError(
            f"{model.name} was loaded without a tokenizer, so {what} cannot be read.",
            "Give token ids, or load it with whyword.load(..., tokenizer=...).",
        )
    return model.tokenizer


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")
