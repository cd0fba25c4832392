"""Invented facts in several documents or turns, one of which holds the answer: which did the model use?

Every document says two things about one person, in the same form as the others. The examples of a pair have
the same documents and ask about two of the people: the target of one is the foil of the other. All positions
of the right document are asked for equally often.
"""

import random
from collections.abc import Sequence
from typing import NamedTuple

from .dataset_names import SOURCES
from .examples import Dataset, Example, Span, hash_examples
from .grammar import MEN, WOMEN

__all__ = ["SOURCE_COUNT", "make_sources"]

SOURCE_COUNT = 96
"""Default number of examples of each dataset."""


class _Relation(NamedTuple):
    """A fact about a person, how it is asked for, and how the answer begins."""

    fact: str
    question: str
    answer: str
    values: tuple[str, ...]


def _read_list(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_RELATIONS = (
    _Relation(
        "{name} lives in {value}.",
        "Where does {name} live?",
        "{name} lives in",
        _read_list("Rome Oslo Madrid Vienna Dublin Athens Prague Lisbon Berlin Paris London Moscow Cairo"),
    ),
    _Relation(
        "{name} works as a {value}.",
        "What does {name} work as?",
        "{name} works as a",
        _read_list("baker nurse teacher lawyer farmer pilot painter doctor driver singer writer cook guard"),
    ),
    _Relation(
        "{name} plays the {value}.",
        "Which instrument does {name} play?",
        "{name} plays the",
        _read_list("piano violin guitar flute trumpet drums cello harp organ banjo"),
    ),
    _Relation(
        "{name} drives a {value} car.",
        "Which colour is the car of {name}?",
        "{name} drives a",
        _read_list("red blue green yellow black white grey brown silver purple"),
    ),
    _Relation(
        "{name} was born in {value}.",
        "In which month was {name} born?",
        "{name} was born in",
        _read_list("January February March April June July August September October November December"),
    ),
    _Relation(
        "{name} is allergic to {value}.",
        "What is {name} allergic to?",
        "{name} is allergic to",
        _read_list("milk eggs fish nuts wheat dust cats dogs bees gold soy corn"),
    ),
)


class _Draft(NamedTuple):
    """The texts of an example, and what is asked of them."""

    texts: tuple[str, ...]
    asked: int
    """Which of them holds the answer."""
    question: str
    answer: str
    target: str
    foil: str


def make_sources(name: str, count: int = SOURCE_COUNT, seed: int = 0) -> Dataset:
    """Make a dataset of documents or turns; examples 0 and 1, 2 and 3, … form pairs."""
    known, documents = SOURCES[name], SOURCES[name].attractors or 0
    generator = random.Random(f"{seed} {name}")
    pairs = [(one, two) for one in range(documents) for two in range(documents) if one < two]
    write = _write_turns if known.phenomenon == "turn" else _write_documents
    examples = list[Example]()
    for place in range(count // 2):
        one, two = pairs[place % len(pairs)]
        for draft in _draw(generator, documents, one, two, _RELATIONS[place % len(_RELATIONS)]):
            examples.append(write(name, len(examples), draft))
    return Dataset(
        name=name,
        title=known.title,
        group=known.group,
        phenomenon=known.phenomenon,
        examples=tuple(examples),
        skipped=(),
        hash=hash_examples(examples),
        source=f"built-in suite, seed {seed}",
    )


def _draw(
    generator: random.Random, documents: int, one: int, two: int, relation: _Relation
) -> tuple[_Draft, _Draft]:
    """Draw the documents of a pair, and ask about two of them."""
    names = generator.sample([*WOMEN, *MEN], documents)
    other = generator.choice([each for each in _RELATIONS if each is not relation])
    values, others = (generator.sample(each.values, documents) for each in (relation, other))
    first = generator.random() < 0.5
    texts = []
    for name, value, beside in zip(names, values, others, strict=True):
        facts = [relation.fact.format(name=name, value=value), other.fact.format(name=name, value=beside)]
        texts.append(" ".join(facts if first else facts[::-1]))
    made = [
        _Draft(
            tuple(texts),
            asked,
            relation.question.format(name=names[asked]),
            relation.answer.format(name=names[asked]),
            values[asked],
            values[foil],
        )
        for asked, foil in ((one, two), (two, one))
    ]
    return made[0], made[1]


def _write_documents(name: str, row: int, draft: _Draft) -> Example:
    """Write documents, a question, and the beginning of its answer."""
    text, spans = "", list[Span]()
    for place, document in enumerate(draft.texts, 1):
        text += f"Document {place}: "
        spans.append((len(text), len(text) + len(document)))
        text += f"{document}\n\n"
    return _finish(name, row, draft, f"{text}Question: {draft.question}\nAnswer: {draft.answer}", spans)


def _write_turns(name: str, row: int, draft: _Draft) -> Example:
    """Write a dialogue in which every fact is told in a turn of its own."""
    text, spans = "", list[Span]()
    for told in draft.texts:
        text += "User: "
        spans.append((len(text), len(text) + len(told)))
        text += f"{told}\nAssistant: I will remember that.\n"
    return _finish(name, row, draft, f"{text}User: {draft.question}\nAssistant: {draft.answer}", spans)


def _finish(name: str, row: int, draft: _Draft, prefix: str, spans: Sequence[Span]) -> Example:
    columns = {
        "pair": str(row // 2),
        "documents": str(len(draft.texts)),
        "position": str(draft.asked + 1),
        "question": draft.question,
    }
    right = (spans[draft.asked],)
    return Example(name, row, prefix, draft.target, draft.foil, right, right, columns, tuple(spans))
