"""Which word decides: rules over a parse, one for each phenomenon.

A rule says which text is parsed and which token of the parse is the evidence. It sees the prefix, the target
and the sentence, never an evidence column. Some rules have a fallback, since parsers are often wrong where a
verb looks like a noun ("Tina fires herself"). Tokens are compared with ==, because spaCy makes new objects
at every access.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from ..errors import InputError
from .dataset_names import PUBLISHED, SUITE
from .evidence_spans import find_in_prefix
from .examples import Example

if TYPE_CHECKING:
    from spacy.tokens import Doc, Token
else:  # spaCy is optional, and tests check annotations at run time
    Doc: TypeAlias = object
    Token: TypeAlias = object

__all__ = ["PHENOMENA", "Rule", "require_phenomenon"]

_SUBJECTS = ("nsubj", "nsubjpass", "csubj", "csubjpass", "expl")
_NOUNS = ("NOUN", "PROPN", "PRON")
_WITH_NUMBER = ("this", "that", "these", "those")


@dataclass(frozen=True)
class Rule:
    """How the evidence of one phenomenon is found."""

    about: str
    """What the evidence is, in words."""
    text: Callable[[Example], str]
    """The text that is parsed; it begins with the prefix."""
    find: "Callable[[Doc, Example], Token | None]"
    """Returns the deciding token."""
    has_phrase: bool
    """Whether the phrase that the token heads is written too."""


def whole_sentence(example: Example) -> str:
    """Return the sentence as it was published, or the prefix and the target."""
    cut = f"{example.prefix} {example.target}"
    sentence = example.columns.get("sentence_good", "")
    return sentence if sentence.startswith(cut) else f"{cut}."


def with_plain_verb(example: Example) -> str:
    """Put an unambiguous verb in place of the target: "The plays about travel | confuse"."""
    return f"{example.prefix} would be good."


def subject_of_verb(doc: Doc, example: Example) -> Token | None:
    """Find the subject of the verb that comes after the prefix."""
    return _subject_above(_token_after(doc, example), example)


def subject_of_anaphor(doc: Doc, example: Example) -> Token | None:
    """Find the subject of the anaphor's clause; failing that, the first noun: subjects come first."""
    found = _subject_above(_token_after(doc, example), example)
    if found is not None and found.pos_ in _NOUNS:
        return found
    return next((token for token in _prefix_of(doc, example) if token.pos_ in _NOUNS), None)


def verb_of_agent(doc: Doc, example: Example) -> Token | None:
    """Find the verb that "by" belongs to; failing that, the last participle."""
    prefix = _prefix_of(doc, example)
    agents = [token for token in prefix if token.dep_ == "agent"]
    if agents:
        return agents[-1].head
    participles = [token for token in prefix if token.tag_ in ("VBN", "VBD") and token.dep_ != "auxpass"]
    return participles[-1] if participles else None


def determiner_of_noun(doc: Doc, example: Example) -> Token | None:
    """Find the determiner that shows the noun's number ("the" does not); failing that, the last such word."""
    prefix = _prefix_of(doc, example)
    noun = _token_after(doc, example)
    shown = [token for token in prefix if token.lower_ in _WITH_NUMBER]
    own = [token for token in shown if token.dep_ == "det" and token.head == noun]
    return (own or shown or [None])[-1]


def even(doc: Doc, example: Example) -> Token | None:
    """Find "even", which does not license "ever"."""
    return next((token for token in _prefix_of(doc, example) if token.lower_ == "even"), None)


def name_itself(doc: Doc, example: Example) -> Token | None:
    """Find the first mention of the name that comes next."""
    found = find_in_prefix(example.prefix, example.target)
    return next((token for token in doc if found and token.idx == found[0][0]), None)


PHENOMENA: dict[str, Rule] = {
    "anaphor": Rule("the subject that the anaphor refers to", whole_sentence, subject_of_anaphor, True),
    "passive": Rule("the main verb of the passive", whole_sentence, verb_of_agent, False),
    "determiner": Rule("the determiner of the noun", whole_sentence, determiner_of_noun, False),
    "npi": Rule('the word "even"', whole_sentence, even, False),
    "subject": Rule("the head of the subject", with_plain_verb, subject_of_verb, True),
    "name": Rule("the first mention of the name", whole_sentence, name_itself, False),
}


def require_phenomenon(name: str) -> str:
    """Return the phenomenon that a name stands for: one of PHENOMENA, or that of a dataset."""
    wanted = name.strip().lower()
    if wanted in PHENOMENA:
        return wanted
    for known in (*PUBLISHED.values(), *SUITE.values()):
        if wanted in (known.name, *known.files):
            return known.phenomenon
    raise InputError(
        f"There is no phenomenon {name!r}.",
        f"There are {', '.join(PHENOMENA)}; or name a dataset: {', '.join(PUBLISHED)}.",
    )


def _prefix_of(doc: Doc, example: Example) -> "list[Token]":
    return [token for token in doc if token.idx < len(example.prefix)]


def _token_after(doc: Doc, example: Example) -> Token | None:
    """Return the head of what follows the prefix: the target, or the verb in its place."""
    start, end = len(example.prefix), len(example.prefix) + 1 + len(example.target)
    after = [token for token in doc if start <= token.idx < end]
    return next((token for token in after if token.head == token or token.head not in after), None)


def _subject_above(token: Token | None, example: Example) -> Token | None:
    """Go up from a token to the first one that has a subject before it, in the prefix."""
    while token is not None:
        found = [child for child in token.lefts if child.dep_ in _SUBJECTS]
        if found:
            return found[-1] if found[-1].idx < len(example.prefix) else None
        token = token.head if token.head != token else None
    return None
