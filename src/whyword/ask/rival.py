"""The rival of a target: the best-ranked token of the same kind, which makes a fair foil.

The plain runner-up is often a comma, a piece of the same word, or the same word in capitals. A rival starts a
word if the target does, is letters if the target is, and is not the target itself in another spelling.
Function words are rivals of function words only; the list of them is English and short, and a word of another
language counts as a content word.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice, tee

from jaxtyping import Float
from torch import Tensor

from ..models.model import Model
from ..tokens import Tokens
from .prompt import token_texts

__all__ = ["find_rival"]

_FIRST, _MOST = 32, 1024
"""How many of the likeliest tokens are looked at: at first, and at most. One below them is hardly a rival."""
_ENGLISH = (
    "a an the this that these those some any no every each either neither both all half such what which",
    "whose i me my mine myself you your yours yourself he him his himself she her hers herself it its",
    "itself we us our ours ourselves they them their theirs themselves who whom one ones someone anyone",
    "everyone nobody something anything everything nothing of in to for with on at by from about as",
    "into like through after over between out against during without before under around among within",
    "across behind beyond upon toward towards until till since off up down near above below per via",
    "along despite except and or but nor so yet if because while although though unless whether than",
    "then when where why how am is are was were be been being have has had having do does did doing",
    "done will would shall should can could may might must ought cannot 't 's 'm 're 've 'll 'd not",
    "there here too very just also only even still again ever never",
)
"""Articles, pronouns, prepositions, conjunctions, auxiliary verbs, and adverbs that only modify."""
_FUNCTION_WORDS = frozenset(word for line in _ENGLISH for word in line.split())
_APOSTROPHES = str.maketrans("’ʼ", "''")  # as they are typed, and as books print them


@dataclass(frozen=True)
class _Kind:
    """What target and rival have in common."""

    letters: bool
    digits: bool
    starts_word: bool
    function_word: bool


def find_rival(
    model: Model, before: Tokens, target: int, logits: Float[Tensor, " vocab"], whole: str | None = None
) -> int:
    """Return the likeliest token of the target's kind; where there is none, or no tokenizer, the runner-up.

    `whole`: the word that the target begins, where it has several tokens.
    """
    likeliest = _list_likeliest(logits)
    first = [*islice(likeliest, _FIRST)]
    runner_up: int = next((id_ for id_ in first if id_ != target), target)
    if model.tokenizer is None:
        return runner_up
    named = len(model.tokenizer)  # rows of the vocabulary beyond belong to no token
    ids, asked = tee(id_ for id_ in chain(first, likeliest) if id_ < named)
    texts = token_texts(model, chain([target], asked), before)
    text = next(texts)
    if not text:  # a part of a character has no text
        return runner_up
    kind, word = _kind_of(text, before), _plain(text if whole is None else whole)
    for id_, other in zip(ids, texts, strict=False):
        if id_ != target and _kind_of(other, before) == kind and not _is_piece(other, word):
            return id_
    return runner_up


def _list_likeliest(logits: Float[Tensor, " vocab"]) -> Iterator[int]:
    """List the likeliest tokens in order; most are sorted only when they are asked for."""
    yield from logits.topk(min(_FIRST, len(logits))).indices.tolist()
    yield from logits.topk(min(_MOST, len(logits))).indices[_FIRST:].tolist()


def _kind_of(text: str, before: Tokens) -> _Kind:
    plain = _plain(text)
    bare = "".join(each for each in plain if each not in "'-")
    # Marks of a script (vowel signs) are no letters by themselves, but part of a word.
    letters = bare[:1].isalpha() and all(each.isalpha() or not each.isascii() for each in bare)
    digits = bare.isdigit()
    after_space = before.text[-1:].isspace() or not before.text or before[-1].special
    starts_word = (letters or digits) and (text[:1].isspace() or after_space)
    # "is" within a word is not the word "is"; "'s" is a word wherever it stands
    function_word = plain in _FUNCTION_WORDS and (starts_word or plain.startswith("'"))
    return _Kind(letters, digits, starts_word, function_word)


def _is_piece(text: str, word: str) -> bool:
    """Tell whether a token is a word in another spelling, or the beginning of it.

    A function word that begins another (a, an) is a word of its own.
    """
    piece = _plain(text)
    own = piece in _FUNCTION_WORDS
    return piece == word or (piece != "" and not own and word.startswith(piece))


def _plain(text: str) -> str:
    """Return a word without its spaces, in lower case."""
    return text.strip().casefold().translate(_APOSTROPHES)
