"""Explain a translation: every token of it by tokens of the source and by those already written."""

import math
from collections.abc import Sequence

from ..ask.prompt import require_tokens, token_text
from ..ask.question import first_difference
from ..ask.sentence_pair import Pair, Text, encode_target, pair_up
from ..attribute.methods import DEFAULT_METHOD, METHODS, TRANSLATION_METHODS
from ..attribute.source_and_prefix import mix_jointly
from ..errors import InputError
from ..ledger import Target, compute_entries, make_ledgers
from ..models.model import Model
from ..results.prediction import Choice
from ..results.translation import Translation
from ..tokens import Token
from ..trace import Places, Plan, Trace, record
from ..trace.memory_plan import Request, make_plan
from .one_prompt import require_model

__all__ = [
    "THRESHOLD",
    "explain_translation",
    "read_foil",
    "record_pairs",
    "require_translator",
]

THRESHOLD = 0.25
"""The default source share below which a token is flagged. With OPUS-MT from Chinese, 2 % of the words of
human translations are below it, and 43 % of the words of translations of other sentences."""


def explain_translation(
    model: Model,
    source: Text,
    translation: Text | None = None,
    *,
    foil: tuple[str | int, int] | None = None,
    method: str = DEFAULT_METHOD,
    source_language: str | None = None,
    target_language: str | None = None,
    threshold: float = THRESHOLD,
    max_memory: int | str | None = None,
) -> Translation:
    """Explain every token of a translation, teacher-forced, from one recorded pass.

    `translation`: text or token ids; None: the model's own, by its generation settings but without sampling.
    `foil`: a word and which word of the translation it is contrasted with, counted from 1: `("shore", 3)`;
    None: no contrast. Unlike in `explain`, that is the default: a contrast with the runner-up of every step
    would cancel what the source contributes to both words, and alignments are read off the logit itself.
    Languages: codes that the tokenizer knows, of a model that translates between many. `threshold`: tokens
    with a smaller source share are flagged as possibly hallucinated. `max_memory`: as in `explain`.
    """
    if method not in TRANSLATION_METHODS:
        raise InputError(
            f"There is no method {method!r} for translations.", f"Methods: {', '.join(TRANSLATION_METHODS)}."
        )
    if not 0 <= threshold <= 1:
        raise InputError(f"threshold is {threshold}.", "Pass a share between 0 and 1.")
    languages = source_language, target_language
    word = None if foil is None else read_foil(foil)
    pair = pair_up(require_translator(model), source, translation, languages)
    targets = [Target(id_) for id_ in pair.explained]
    if word is not None:
        place, other = _place_foil(model, pair, *word, languages)
        targets[place] = Target(targets[place].token, (other,))
    blocks, explained_by = len(model.blocks), METHODS[method]
    mixed = blocks if explained_by.mixed(blocks) or explained_by.frozen else 0
    request = Request(1, len(pair.prompt), len(pair.explained), len(pair.source))
    plan = make_plan(model, request, Plan(mixed, frozen=explained_by.frozen), max_memory)
    trace = record_pairs(model, [pair], plan)
    entries = compute_entries(model, trace, targets)
    ledgers = make_ledgers(model, trace, entries)
    updates, shares = explained_by.translate(model, trace, entries, targets)
    if shares is None and mixed:
        shares = mix_jointly(trace).shares(trace)
    choices, foils = _choose(model, pair, trace, targets)
    return Translation(
        model=model.name,
        method=method,
        source=pair.source,
        target=pair.target,
        first=pair.first,
        choices=choices,
        foils=foils,
        source_by_block=updates.source.transpose(0, 1).float().contiguous(),
        prefix_by_block=updates.prefix.transpose(0, 1).float().contiguous(),
        source_shares=None if shares is None else shares.float(),
        threshold=threshold,
        ledgers=ledgers,
        traced=updates.flow,
    )


def require_translator(model: Model) -> Model:
    """Refuse a model that does not translate."""
    if require_model(model).encoder_stack is None:
        raise InputError(
            f"{model.name} is a decoder-only model: it has no source.",
            "Load an encoder–decoder model, or use whyword.explain.",
        )
    return model


def record_pairs(model: Model, pairs: Sequence[Pair], plan: Plan) -> Trace:
    """Record the explained steps of several pairs; shorter pairs have steps beyond their end, to be cut off.

    All pairs must have the same number of forced tokens.
    """
    longest, first = max(len(pair.prompt) for pair in pairs), pairs[0].first
    places = Places((range(first - 1, longest),) * len(pairs))
    prompts, sources = [pair.prompt for pair in pairs], [pair.source.ids for pair in pairs]
    return record(model, prompts, places, plan, sources)


def read_foil(foil: object) -> tuple[str | int, int]:
    """Read a foil with its position; refuse anything else."""
    match foil:
        case (str() | int() as word, int(position)):
            return word, position
    raise InputError(f"foil is {foil!r}.", 'Pass a word and its position, counted from 1: ("shore", 3).')


def _place_foil(
    model: Model, pair: Pair, word: str | int, position: int, languages: tuple[str | None, str | None]
) -> tuple[int, int]:
    """Find the explained token where a foil diverges from the translation, and the foil's token there."""
    words: dict[int, list[int]] = {}
    for place, token in enumerate(pair.target.records[pair.first :]):
        if not token.special:
            words.setdefault(token.word, []).append(place)
    places = list(words.values())
    if not 1 <= position <= len(places):
        listed = ", ".join(f"{count} {_word(pair, own)}" for count, own in enumerate(places, 1))
        raise InputError(
            f"The foil's position is {position}, but the translation has {len(places)} words.",
            f"Words: {listed}.",
        )
    own = places[position - 1]
    if isinstance(word, int):
        require_tokens(model, [word])
        others = [word]
    else:
        start = pair.target[pair.first + own[0]].start
        whole = encode_target(model, pair, pair.target.text[:start] + word.strip(), languages)
        others = [token.id for token in whole.records[pair.first + own[0] :] if not token.special]
    wanted = [pair.explained[place] for place in own]
    place = first_difference(_word(pair, own), wanted, word, others)
    return own[place], others[place]


def _word(pair: Pair, places: Sequence[int]) -> str:
    tokens: list[Token] = [pair.target[pair.first + place] for place in places]
    return pair.target.text[tokens[0].start : tokens[-1].end]


def _choose(
    model: Model, pair: Pair, trace: Trace, targets: Sequence[Target]
) -> tuple[tuple[Choice, ...], tuple[Choice | None, ...]]:
    """Return the explained tokens and their foils, with logits and probabilities."""
    normalisers = trace.logits.logsumexp(-1).tolist()

    def choose(row: int, id_: int, text: str) -> Choice:
        logit = float(trace.logits[row, id_])
        return Choice(id_, text, float(trace.uncapped[row, id_]), math.exp(logit - normalisers[row]))

    tokens = pair.target.records[pair.first :]
    foils = [
        choose(row, target.foils[0], token_text(model, target.foils[0], pair.target.first(pair.first + row)))
        if target.foils
        else None
        for row, target in enumerate(targets)
    ]
    return tuple(choose(row, token.id, token.text) for row, token in enumerate(tokens)), tuple(foils)
