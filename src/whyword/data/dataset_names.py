"""The known datasets: their names, their files, and how their evidence is found."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from ..errors import InputError

__all__ = ["BUILTIN", "GROUPS", "PUBLISHED", "SOURCES", "SUITE", "Published", "expand_names", "spell_out"]

BUILTIN = "builtin"


@dataclass(frozen=True)
class Published:
    """What is known of a dataset before it is read."""

    name: str
    """Short name."""
    title: str
    """The name its authors gave it; for SVA and IOI, a description."""
    group: str
    phenomenon: str
    files: tuple[str, ...]
    """Names of its file without the extension, the preferred one first."""
    attractors: int | None = None
    """SVA only: how many nouns between subject and verb have the other number. One file holds all of them."""


_BLIMP = {
    "aga": ("anaphor_gender_agreement", "anaphor"),
    "ana": ("anaphor_number_agreement", "anaphor"),
    "asp": ("animate_subject_passive", "passive"),
    "dna": ("determiner_noun_agreement_1", "determiner"),
    "dnai": ("determiner_noun_agreement_irregular_1", "determiner"),
    "dnaa": ("determiner_noun_agreement_with_adjective_1", "determiner"),
    "dnaai": ("determiner_noun_agreement_with_adj_irregular_1", "determiner"),
    "npi": ("npi_present_1", "npi"),
    "darn": ("distractor_agreement_relational_noun", "subject"),
    "ipsv": ("irregular_plural_subject_verb_agreement_1", "subject"),
    "rpsv": ("regular_plural_subject_verb_agreement_1", "subject"),
}
_WORDS = {
    "aga": "anaphor gender agreement",
    "ana": "anaphor number agreement",
    "asp": "passive with an animate agent",
    "dna": "determiner–noun agreement",
    "dnai": "determiner–noun agreement, irregular plurals",
    "dnaa": "determiner–noun agreement with an adjective",
    "dnaai": "determiner–noun agreement with an adjective, irregular plurals",
    "npi": "licensing of negative polarity items",
    "darn": "subject–verb agreement past a relational noun",
    "ipsv": "subject–verb agreement, irregular plurals",
    "rpsv": "subject–verb agreement, regular plurals",
}
"""The BLiMP paradigms in words."""
_SPELLINGS = {"determiner_noun_agreement_with_adjective_1": ("determiner_noun_agreement_with_adj_1",)}
"""Other names that a paradigm was published under."""
_SVA_FILES = ("lgd_dataset", "lgd_dataset_partial", "sva")
_COUNTS = {1: "1 attractor", 2: "2 attractors", 3: "3 attractors", 4: "4 attractors"}

PUBLISHED: dict[str, Published] = {
    **{
        name: Published(name, title, "BLiMP", phenomenon, (title, *_SPELLINGS.get(title, ()), name))
        for name, (title, phenomenon) in _BLIMP.items()
    },
    **{
        f"sva-{count}": Published(
            f"sva-{count}", f"subject–verb agreement, {words}", "SVA", "subject", _SVA_FILES, count
        )
        for count, words in _COUNTS.items()
    },
    "ioi": Published("ioi", "indirect object identification", "IOI", "name", ("ioi_dataset", "ioi")),
}

SUITE: dict[str, Published] = {
    f"{BUILTIN}-{name}": Published(f"{BUILTIN}-{name}", title, BUILTIN, phenomenon, (), attractors)
    for name, title, phenomenon, attractors in (
        *(
            (name, _WORDS[name], _BLIMP[name][1], None)
            for name in ("aga", "ana", "asp", "dna", "dnaa", "npi")
        ),
        ("sva-0", "subject–verb agreement, no attractor", "subject", 0),
        *(
            (f"sva-{count}", f"subject–verb agreement, {words}", "subject", count)
            for count, words in _COUNTS.items()
        ),
        ("ioi", "indirect object identification", "name", None),
    )
}
"""The built-in suite: see `grammar.py`."""

SOURCES: dict[str, Published] = {
    **{
        f"{BUILTIN}-sources-{count}": Published(
            f"{BUILTIN}-sources-{count}", f"which of {count} documents", "sources", "document", (), count
        )
        for count in (2, 4, 8)
    },
    f"{BUILTIN}-turns": Published(f"{BUILTIN}-turns", "which of 4 turns", "turns", "turn", (), 4),
}
"""Documents and turns of which one holds the answer: see `source_suite.py`; `attractors`: how many."""

GROUPS: dict[str, tuple[str, ...]] = {
    "blimp": tuple(name for name in _BLIMP if name not in ("ipsv", "rpsv")),
    "sva": tuple(f"sva-{count}" for count in _COUNTS),
    BUILTIN: tuple(SUITE),
    f"{BUILTIN}-sources": tuple(name for name, known in SOURCES.items() if known.group == "sources"),
    f"{BUILTIN}-blimp": tuple(n for n, known in SUITE.items() if known.phenomenon not in ("subject", "name")),
    f"{BUILTIN}-sva": tuple(n for n, known in SUITE.items() if known.phenomenon == "subject"),
}
"""Names of groups. ipsv and rpsv are not in the paper's table and are only read by name."""


def expand_names(names: Sequence[str], builtin: bool = False) -> list[str]:
    """Turn names of datasets and groups into short names, each once, in the order given.

    With `builtin`, names mean the built-in suite: "aga" is "builtin-aga".
    """
    long = {
        other: known.name for known in PUBLISHED.values() for other in known.files if not known.attractors
    }
    found: dict[str, None] = {}
    for name in names:
        wanted = name.strip().lower()
        wanted = long.get(wanted, wanted)
        if builtin and not wanted.startswith(BUILTIN):
            wanted = f"{BUILTIN}-{wanted}"
        if not any(wanted in known for known in (GROUPS, PUBLISHED, SUITE, SOURCES)):
            raise _unknown(name, wanted, builtin)
        found.update(dict.fromkeys(GROUPS.get(wanted, (wanted,))))
    if not found:
        raise InputError("No dataset was named.", _say_known(builtin))
    return list(found)


def spell_out(name: str, title: str) -> str:
    """Return the name of a dataset in words; its title where it is not one of ours."""
    return _WORDS.get(name, title)


def _unknown(name: str, wanted: str, builtin: bool) -> InputError:
    titles = {known.title: known.name for known in PUBLISHED.values()}
    known = [*SUITE, *SOURCES, *GROUPS, *(() if builtin else (*PUBLISHED, *titles))]
    near = list(dict.fromkeys(titles.get(other, other) for other in get_close_matches(wanted, known, n=3)))
    hint = f"Similar: {', '.join(near)}. " if near else ""
    where = " in the built-in suite" if builtin else ""
    return InputError(f"There is no dataset {name!r}{where}.", hint + _say_known(builtin))


def _say_known(builtin: bool) -> str:
    groups = ", ".join(name for name in GROUPS if name.startswith(BUILTIN) or not builtin)
    names = ", ".join((*(() if builtin else PUBLISHED), *SUITE, *SOURCES))
    return f"There are {names}; several at once: {groups}."
