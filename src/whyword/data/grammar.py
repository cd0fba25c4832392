"""A small grammar of English: minimal pairs for every phenomenon, two at a time.

A draw returns two examples that differ only in what the phenomenon is about: singular and plural, her and
him, one name and the other. What is right in one is wrong in the other, so every word is target as often as
foil. Agents of passives are the exception: the living being is right in both examples, in either number.
In a template the evidence is marked: [word], <phrase>.
"""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from .examples import Spans

__all__ = ["GRAMMAR", "Deal", "Draft", "unmark"]

Deal = Callable[[str, Sequence[str]], str]
"""Returns the next word of a list, by the name of the slot: each word once before any is repeated."""


class Draft(NamedTuple):
    """An example before it is numbered; the evidence is marked in the prefix."""

    marked: str
    target: str
    foil: str
    columns: dict[str, str]


def _list(text: str, between: str | None = None) -> list[str]:
    """Split a list that is written as text."""
    return [part.strip() for part in text.split(between)]


# --- Words. Nouns are "singular plural".

WOMEN = _list("Mary Susan Anna Laura Emma Julia Sarah Alice Helen Rachel Nancy Karen Linda Maria Lisa Kate")
MEN = _list("John David Peter Paul James Robert Daniel Martin George Henry Mark Thomas Simon Kevin Adam Eric")
COUPLES = _list(
    "girl boy, woman man, queen king, aunt uncle, mother father, sister brother, princess prince, "
    "actress actor, grandmother grandfather, waitress waiter",
    ",",
)
WOMEN_NOUNS = "girl girls, woman women, queen queens, aunt aunts, mother mothers, sister sisters, nun nuns"
MEN_NOUNS = "boy boys, man men, king kings, uncle uncles, father fathers, brother brothers, monk monks"
PEOPLE = _list(
    "teacher teachers, doctor doctors, farmer farmers, lawyer lawyers, nurse nurses, singer singers, "
    "painter painters, writer writers, driver drivers, student students, soldier soldiers, tourist tourists",
    ",",
)
THINGS = _list(
    "bottle bottles, carpet carpets, lamp lamps, pencil pencils, blanket blankets, mirror mirrors, "
    "basket baskets, ladder ladders, bucket buckets, pillow pillows, hammer hammers, sofa sofas",
    ",",
)
REFLEXIVE = _list(  # none of these shows the number of the subject
    "blamed, hurt, could see, did not recognize, should not trust, introduced, might have injured, "
    "laughed at, had to defend, wanted to protect, will never forgive, tried to help, often talked about, "
    "quietly praised",
    ",",
)
VERBS = _list("is are, was were, has have, seems seem, looks look, remains remain", ",")
DETERMINERS = _list("this these, that those", ",")
OPENINGS = ("", "I think that ", "They say that ", "You know that ")
ADJECTIVES = ("", "old ", "new ", "other ", "strange ", "")
ADVERBS = ("", " still", " always", " often", " clearly", "")

FRAMES = (  # subjects; then what comes between a subject and its verb, in order
    (
        "letter letters, story stories, report reports, poem poems, song songs, article articles, book books",
        "about the: writer writers, doctor doctors, farmer farmers, soldier soldiers, singer singers",
        "from the: village villages, city cities, island islands, town towns, school schools",
        "near the: river rivers, lake lakes, forest forests, church churches, station stations",
        "behind the: mountain mountains, hill hills, park parks, field fields, garden gardens",
    ),
    (
        "teacher teachers, nurse nurses, painter painters, driver drivers, student students, guest guests",
        "with the: dog dogs, cat cats, horse horses, donkey donkeys, goat goats, parrot parrots",
        "from the: farm farms, village villages, island islands, valley valleys, town towns",
        "near the: river rivers, lake lakes, forest forests, bridge bridges, castle castles",
        "behind the: mountain mountains, hill hills, park parks, field fields, garden gardens",
    ),
    (
        "chair chairs, clock clocks, plant plants, lamp lamps, table tables, mirror mirrors, sign signs",
        "beside the: door doors, window windows, desk desks, bench benches, shelf shelves, cabinet cabinets",
        "in the: office offices, kitchen kitchens, hall halls, corridor corridors, cellar cellars",
        "of the: house houses, hotel hotels, school schools, museum museums, palace palaces",
        "near the: river rivers, lake lakes, park parks, bridge bridges, forest forests, market markets",
    ),
)
OBJECTS = (  # verbs; their objects; adjectives for these
    (
        "bought sold found lost needed wanted painted repaired",
        "chair chairs, table tables, boat boats, car cars, clock clocks, lamp lamps, guitar guitars",
        "old new small large expensive beautiful",
    ),
    (
        "met helped invited called thanked watched admired followed",
        "teacher teachers, doctor doctors, farmer farmers, child children, woman women, man men, king kings",
        "young old famous quiet friendly tired",
    ),
    (
        "read wrote liked remembered discussed mentioned enjoyed praised",
        "book books, story stories, poem poems, letter letters, essay essays, report reports, play plays",
        "short long strange famous boring wonderful",
    ),
)
PASSIVES = (  # patients; verbs that only a living being can be the agent of
    (
        ", ".join((*WOMEN, *MEN)),
        "admired invited thanked praised forgiven hugged kissed insulted respected interviewed questioned",
    ),
    (
        "The letter, The poem, The article, The report, The speech, The book",
        "written read criticized translated discussed forgotten",
    ),
    (
        "The soup, The cake, The bread, The pizza, The salad, The cheese",
        "cooked eaten tasted ordered enjoyed recommended",
    ),
)
AGENTS = _list("the our their these")
LICENSING = (  # a subject that licenses "ever", one that licenses "never", the auxiliaries of both
    ("<[No] {one}> {place}", "<[Even] the {one}> {place}", "has had would will"),
    ("<[None] of the {many}> {place}", "<[Some] of the {many}> {place}", "have had would will"),
    ("<[Neither] of the {many}> {place}", "<[One] of the {many}> {place}", "has had would will"),
    ("<[Nobody]> {place}", "<[Somebody]> {place}", "has had would will"),
)
PLACES = _list(
    "in the village, from the school, at the meeting, in the city, on the island, at the hospital, "
    "at the party, from the theatre, in the town, from the club, in the valley, in the building",
    ",",
)
INDIRECT = (
    "When {names} went to the {place}, {giver} gave {thing} to",
    "After {names} had met at the {place}, {giver} offered {thing} to",
    "Then {names} had a long talk at the {place}. Afterwards {giver} handed {thing} to",
    "Friends of mine, {names}, were waiting at the {place}. In the end {giver} sent {thing} to",
    "Yesterday {names} were working at the {place}, and {giver} decided to give {thing} to",
    "While {names} were sitting at the {place}, {giver} passed {thing} to",
)
MEETINGS = _list("store station museum beach restaurant library office market")
GIFTS = _list("a book, a drink, a ring, some flowers, a letter, an apple, a ticket, the keys", ",")
GENDERS = {"women": (WOMEN, WOMEN), "men": (MEN, MEN), "woman, man": (WOMEN, MEN), "man, woman": (MEN, WOMEN)}


# --- Draws: a pair of examples from dealt words.


def draw_gender(deal: Deal) -> tuple[Draft, Draft]:
    """Draw herself against himself, after a name or a noun of either gender."""
    if deal("kind", ("name", "noun")) == "name":
        starts = [f"<[{deal('woman', WOMEN)}]>", f"<[{deal('man', MEN)}]>"]
    else:
        starts = [f"<The [{noun}]>" for noun in deal("couple", COUPLES).split()]
    frame = f"{{}} {deal('verb', REFLEXIVE)}"
    return _swap(starts, frame, ("herself", "himself"), {"gender": ("female", "male")})


def draw_number(deal: Deal) -> tuple[Draft, Draft]:
    """Draw herself or himself against themselves."""
    female = deal("gender", ("female", "male")) == "female"
    nouns = deal(f"noun {female}", _list(WOMEN_NOUNS if female else MEN_NOUNS, ",")).split()
    words = ("herself" if female else "himself", "themselves")
    frame = f"{{}} {deal('verb', REFLEXIVE)}"
    return _swap([f"<The [{noun}]>" for noun in nouns], frame, words, _NUMBERS)


def draw_noun(deal: Deal, between: bool) -> tuple[Draft, Draft]:
    """Draw a noun in the number of its determiner, with or without an adjective between them."""
    kind = deal("kind", _places(OBJECTS))
    verbs, nouns, adjectives = OBJECTS[int(kind)]
    if deal("subject", ("name", "noun")) == "name":
        who = deal("name", [*WOMEN, *MEN])
    else:
        who = f"The {deal('person', [noun.split()[0] for noun in PEOPLE])}"
    adjective = f" {deal(f'adjective {kind}', _list(adjectives))}" if between else ""
    starts = [f"[{word}]{adjective}" for word in deal("determiner", DETERMINERS).split()]
    frame = f"{who} {deal(f'verb {kind}', _list(verbs))} {{}}"
    return _swap(starts, frame, deal(f"noun {kind}", _list(nouns, ",")).split(), _NUMBERS)


def draw_verb(deal: Deal, attractors: int) -> tuple[Draft, Draft]:
    """Draw a verb in the number of its subject; every noun between them has the other number."""
    kind = deal("frame", _places(FRAMES))
    subjects, *steps = FRAMES[int(kind)]
    one, many = deal(f"subject {kind}", _list(subjects, ",")).split()
    after_one = after_many = ""
    for index, step in enumerate(steps[:attractors]):
        preposition, nouns = step.split(": ")
        single, several = deal(f"step {kind} {index}", _list(nouns, ",")).split()
        after_one, after_many = f"{after_one} {preposition} {several}", f"{after_many} {preposition} {single}"
    opening, adjective, adverb = "", "", ""
    if not attractors:  # an opening or an adverb varies the prefix instead
        opening, adjective = deal("opening", OPENINGS), deal("adjective", ADJECTIVES)
        adverb = deal("adverb", ADVERBS)
    the = "the" if opening else "The"
    starts = [f"<{the} {adjective}[{one}]{after_one}>", f"<{the} {adjective}[{many}]{after_many}>"]
    return _swap(starts, f"{opening}{{}}{adverb}", deal("verb", VERBS).split(), _NUMBERS)


def draw_agent(deal: Deal) -> tuple[Draft, Draft]:
    """Draw a living being against a thing as the agent of a passive, in either number."""
    kind = deal("kind", _places(PASSIVES))
    patients, verbs = PASSIVES[int(kind)]
    happens = f"{deal(f'patient {kind}', _list(patients, ','))} was [{deal(f'verb {kind}', _list(verbs))}] by"
    right, wrong = deal("person", PEOPLE).split(), deal("thing", THINGS).split()
    plural = deal("determiner", AGENTS)
    singular = "this" if plural == "these" else plural
    return (
        Draft(f"{happens} {singular}", right[0], wrong[0], {"number": "singular"}),
        Draft(f"{happens} {plural}", right[1], wrong[1], {"number": "plural"}),
    )


def draw_polarity(deal: Deal) -> tuple[Draft, Draft]:
    """Draw "ever" after what licenses it, "never" after what does not."""
    kind = deal("kind", _places(LICENSING))
    *templates, auxiliaries = LICENSING[int(kind)]
    one, many = deal("person", PEOPLE).split()
    place, auxiliary = deal("place", PLACES), deal(f"auxiliary {kind}", _list(auxiliaries))
    starts = [template.format(one=one, many=many, place=place) for template in templates]
    return _swap(starts, f"{{}} {auxiliary}", ("ever", "never"), {"licensed": ("yes", "no")})


def draw_name(deal: Deal) -> tuple[Draft, Draft]:
    """Draw the indirect object: of two names, the one that is not the giver."""
    genders = deal("genders", list(GENDERS))
    first = second = deal(f"first {genders}", GENDERS[genders][0])
    while first == second:
        second = deal(f"second {genders}", GENDERS[genders][1])
    template = deal("template", INDIRECT)
    words = {"place": deal("place", MEETINGS), "thing": deal("thing", GIFTS)}
    columns = {"genders": genders, "template": str(INDIRECT.index(template))}
    early = template.format(names=f"[{first}] and {second}", giver=second, **words)
    late = template.format(names=f"{first} and [{second}]", giver=first, **words)
    return (
        Draft(early, first, second, {**columns, "order": "ABBA"}),
        Draft(late, second, first, {**columns, "order": "BABA"}),
    )


GRAMMAR: dict[str, Callable[[Deal], tuple[Draft, Draft]]] = {
    "builtin-aga": draw_gender,
    "builtin-ana": draw_number,
    "builtin-asp": draw_agent,
    "builtin-dna": lambda deal: draw_noun(deal, between=False),
    "builtin-dnaa": lambda deal: draw_noun(deal, between=True),
    "builtin-npi": draw_polarity,
    "builtin-sva-0": lambda deal: draw_verb(deal, 0),
    "builtin-sva-1": lambda deal: draw_verb(deal, 1),
    "builtin-sva-2": lambda deal: draw_verb(deal, 2),
    "builtin-sva-3": lambda deal: draw_verb(deal, 3),
    "builtin-sva-4": lambda deal: draw_verb(deal, 4),
    "builtin-ioi": draw_name,
}

_NUMBERS = {"number": ("singular", "plural")}
_MARKS = re.compile(r"[\[\]<>]")


def unmark(marked: str) -> tuple[str, Spans, Spans]:
    """Remove the marks: return the text, and the spans of the word and the phrase."""
    return _MARKS.sub("", marked), _between(marked, "[]"), _between(marked, "<>")


def _between(marked: str, marks: str) -> Spans:
    if marks[0] not in marked:
        return ()
    start, end = (len(_MARKS.sub("", marked[: marked.index(mark)])) for mark in marks)
    return ((start, end),)


def _swap(
    starts: Sequence[str], frame: str, words: Sequence[str], column: dict[str, tuple[str, str]]
) -> tuple[Draft, Draft]:
    """Put two subjects into one frame: what is right after one is wrong after the other."""
    ((name, values),) = column.items()
    return (
        Draft(frame.format(starts[0]), words[0], words[1], {name: values[0]}),
        Draft(frame.format(starts[1]), words[1], words[0], {name: values[1]}),
    )


def _places(choices: Sequence[object]) -> list[str]:
    """Number choices, so that they can be dealt."""
    return [str(index) for index in range(len(choices))]
