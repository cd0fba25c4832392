"""The start of text that a model was trained with: special tokens before the first word, or none.

Without it the first word becomes the attention sink. Where the tokenizer adds special tokens itself, those
are the start. Otherwise the model is asked: candidates are compared by the log-probability that it gives to a
few plain sentences after each of them.
"""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from torch import Tensor

from ..errors import InputError
from ..models.adapters import find_adapters
from ..models.bundled.starts import NONE, choose_start, find_record, keep_record
from ..models.model import Model
from ..runs.fingerprint import fingerprint_weights
from ..tokens.encoding import encode
from ..tokens.tokens import AS_GIVEN, SEPARATOR
from ..trace.running import run

__all__ = ["START_HELP", "Start", "find_start", "require_start"]

SENTENCES = (
    "She opened the window and listened to the birds.",
    "The train was late because of heavy snow.",
    "Most people in the village work on farms.",
    "After dinner they walked along the river.",
)
START_HELP = "auto, none, bos, tokenizer, or one token of the vocabulary"
_MOST_CANDIDATES = 8


@dataclass(frozen=True)
class Start:
    """What stands before the first word of a text."""

    text: str | None
    """The names of its tokens; None: nothing."""
    ids: tuple[int, ...]
    chosen: str
    """tokenizer: it adds them itself; found: by the model's own likelihood; none found; given: by `start`; as
    given: nothing is put before token ids, chat turns and sources of translations."""
    likelihoods: Mapping[str, float] = field(default_factory=dict)
    """Mean log-probability per token of plain sentences after each candidate, where they were compared."""


_known: "WeakKeyDictionary[Model, tuple[object, Start]]" = WeakKeyDictionary()


def find_start(model: Model, start: str | None = None) -> Start:
    """Find what stands before a text; `start`: None is what the model was loaded with.

    What "auto" finds is kept in the cache by a fingerprint of all weights.
    """
    asked = require_start(model, model.start if start is None else start)
    if asked is not None:
        return asked
    state = _read_state(model)
    known = _known.get(model)
    if known is None or known[0] != state:
        known = state, _choose(model)
        _known[model] = known
    return known[1]


def require_start(model: Model, start: str) -> Start | None:
    """Give the start that was asked for, None where it has to be found; refuse what is not one token."""
    if not isinstance(start, str) or not start:
        raise InputError(f"start is {start!r}.", f"Pass {START_HELP}.")
    free = start in ("auto", NONE, "tokenizer")
    if model.tokenizer is None or model.encoder_stack is not None:
        if free:
            return Start(None, (), AS_GIVEN)
        if model.encoder_stack is not None:
            raise InputError(
                f"start is {start!r}, but {model.name} translates: its source has its own marks.",
                "Leave start out.",
            )
        raise InputError(
            f"start is {start!r}, but {model.name} was loaded without a tokenizer.",
            "Put the token's id before the others of the prompt, and leave start out.",
        )
    if start == NONE:
        return Start(None, (), "given")
    own = _added_in_front(model)
    if start == "tokenizer" or (start == "auto" and own is not None):
        return Start(_join(model, own or ()), own or (), "tokenizer")
    if start == "auto" and model.labels is not None:  # no sentence is likely or not
        return Start(None, (), "tokenizer")
    return None if start == "auto" else _find_token(model, start)


def _find_token(model: Model, start: str) -> Start:
    """Find the one token that a start names."""
    tokenizer: Any = model.tokenizer
    if start == "bos":
        id_ = tokenizer.bos_token_id
        wrong = f"start is 'bos', but the tokenizer of {model.name} has no BOS token."
    else:
        id_ = tokenizer.get_vocab().get(start)
        if id_ is None:
            ids = encode(tokenizer, start, add_special_tokens=False).input_ids
            id_ = ids[0] if len(ids) == 1 and ids[0] != tokenizer.unk_token_id else None
        wrong = f"start is {start!r}, which is not one token of {model.name}."
    if id_ is None or id_ >= model.vocabulary:
        special = [tokenizer.convert_ids_to_tokens(each) for each in sorted(model.special_ids)]
        having = f"Its special tokens: {', '.join(special[:8])}" if special else "It has no special tokens"
        raise InputError(wrong, f"{having}. Pass auto, none, or one token.")
    return Start(str(tokenizer.convert_ids_to_tokens(id_)), (int(id_),), "given")


def _added_in_front(model: Model) -> tuple[int, ...] | None:
    """Give what the tokenizer puts before a text; None where it adds nothing at all."""
    tokenizer: Any = model.tokenizer
    whole = list(encode(tokenizer, SENTENCES[0], add_special_tokens=True).input_ids)
    plain = list(encode(tokenizer, SENTENCES[0], add_special_tokens=False).input_ids)
    if whole == plain:
        return None
    ends = range(len(whole) - len(plain) + 1)
    return next((tuple(whole[:at]) for at in ends if whole[at : at + len(plain)] == plain), ())


def _choose(model: Model) -> Start:
    """Compare candidates, or read what was found for these weights before."""
    candidates, sentences = _list_candidates(model), _read_sentences(model)
    if len(candidates) == 1 or not sentences:
        return Start(None, (), "none found")
    facts = {"candidates": candidates, "sentences": sentences}
    weights = None
    with suppress(InputError):  # weights that are elsewhere (meta, offloaded) have no fingerprint
        weights = fingerprint_weights(model.network)
    likelihoods = None if weights is None else find_record(weights, facts)
    if likelihoods is None:
        likelihoods = _measure(model, candidates, sentences)
        if weights is not None and all(map(math.isfinite, likelihoods.values())):
            keep_record(weights, facts, model.name, likelihoods)
    best = choose_start(likelihoods)
    if best == NONE:
        return Start(None, (), "none found", likelihoods)
    return Start(best, tuple(candidates[best]), "found", likelihoods)


def _list_candidates(model: Model) -> dict[str, list[int]]:
    """List nothing, BOS, EOS, and the special tokens that separate texts."""
    tokenizer: Any = model.tokenizer
    kinds = ("bos", "eos", "sep", "cls")
    named = [getattr(tokenizer, f"{kind}_token_id") for kind in kinds]
    names = {id_: str(tokenizer.convert_ids_to_tokens(id_)) for id_ in sorted(model.special_ids)}
    separators = [id_ for id_, name in names.items() if SEPARATOR.search(name)]
    special = [id_ for id_ in dict.fromkeys([*named, *separators]) if id_ in names and id_ < model.vocabulary]
    return {NONE: [], **{names[id_]: [id_] for id_ in special[: _MOST_CANDIDATES - 1]}}


def _read_sentences(model: Model) -> list[list[int]]:
    """Tokenize the sentences, cut to the positions that a model has beside a start."""
    tokenizer: Any = model.tokenizer
    most = None if model.most_tokens is None else model.most_tokens - 1
    read = [list(encode(tokenizer, text, add_special_tokens=False).input_ids)[:most] for text in SENTENCES]
    return [ids for ids in read if len(ids) > 1 and max(ids) < model.vocabulary]


def _measure(
    model: Model, candidates: Mapping[str, Sequence[int]], sentences: Sequence[Sequence[int]]
) -> dict[str, float]:
    """Give the mean log-probability per token, from the second on, after each candidate: one run for all."""
    logits = run(model, [[*front, *ids] for front in candidates.values() for ids in sentences])
    rows, means = iter(logits), {}
    for name, front in candidates.items():
        found: list[float] = []
        for ids in sentences:
            before = next(rows)[len(front) : len(front) + len(ids) - 1].float().log_softmax(-1)
            found += before.gather(-1, before.new_tensor(ids[1:]).long()[:, None]).flatten().tolist()
        means[name] = sum(found) / len(found)
    return means


def _join(model: Model, ids: Sequence[int]) -> str | None:
    """Name some tokens."""
    tokenizer: Any = model.tokenizer
    return "".join(str(tokenizer.convert_ids_to_tokens(id_)) for id_ in ids) or None


def _read_state(model: Model) -> object:
    """Give what changes when a weight is replaced or changed in place."""
    weights = tuple((_find_data(each), each._version) for each in model.parameters)
    return hash((weights, find_adapters(model.network)))


def _find_data(tensor: Tensor) -> int:
    """Give where a tensor is; one that is made of others is known by itself."""
    return id(tensor) if hasattr(tensor, "__tensor_flatten__") else tensor.data_ptr()
