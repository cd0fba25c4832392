"""The built-in suite: the same for the same seed, balanced, no duplicates, evidence where it says."""

import re
from collections import Counter

import pytest

from whyword import InputError
from whyword.data import SUITE, Dataset, read_datasets
from whyword.data.builtin_suite import make_builtin
from whyword.data.grammar import GRAMMAR, MEN, WOMEN, unmark

NAMES = sorted(SUITE)
HASHES = {
    "builtin-aga": "0431e59425ca",
    "builtin-ana": "d1cf02d2bc60",
    "builtin-asp": "358c193b84bc",
    "builtin-dna": "a8404b049b58",
    "builtin-dnaa": "12d67c92aed5",
    "builtin-npi": "82e6bc8d0c23",
    "builtin-sva-0": "414c1c58e122",
    "builtin-sva-1": "49b0e48e50b5",
    "builtin-sva-2": "41a703b48631",
    "builtin-sva-3": "a7007a80bbce",
    "builtin-sva-4": "af56d71ae5f1",
    "builtin-ioi": "056c47a3d5c8",
}


@pytest.fixture(scope="module")
def suite() -> dict[str, Dataset]:
    return {dataset.name: dataset for dataset in read_datasets(["builtin"])}


def count(dataset: Dataset, column: str) -> set[int]:
    return set(Counter(example.columns[column] for example in dataset.examples).values())


def test_every_phenomenon_is_there(suite: dict[str, Dataset]) -> None:
    assert list(suite) == list(SUITE) == list(GRAMMAR)
    assert {len(dataset) for dataset in suite.values()} == {200}
    assert all(dataset.group == "builtin" and not dataset.skipped for dataset in suite.values())
    assert [d.name for d in read_datasets(["sva", "ioi"], "builtin")] == [
        *(f"builtin-sva-{attractors}" for attractors in range(5)),
        "builtin-ioi",
    ]


def test_the_suite_is_what_it_was(suite: dict[str, Dataset]) -> None:
    """A change of these is a change of all figures measured on the suite: say so in the changelog."""
    assert {name: dataset.hash[:12] for name, dataset in suite.items()} == HASHES


@pytest.mark.parametrize("name", NAMES)
def test_the_seed_decides(name: str) -> None:
    assert make_builtin(name, seed=3) == make_builtin(name, seed=3)
    assert make_builtin(name, seed=3).hash != make_builtin(name, seed=4).hash
    assert make_builtin(name, 20).examples == make_builtin(name).examples[:20]


@pytest.mark.parametrize("name", NAMES)
def test_examples_are_well_formed(name: str, suite: dict[str, Dataset]) -> None:
    examples = suite[name].examples
    assert len({(example.prefix, example.target) for example in examples}) == len(examples)
    for row, example in enumerate(examples):
        assert (example.row, example.columns["pair"]) == (row, str(row // 2))
        assert example.target != example.foil
        assert re.fullmatch(r"[A-Z][A-Za-z ,.]*[a-z]", example.prefix), example.prefix
        assert "  " not in example.prefix
        ((start, end),) = example.word
        assert re.fullmatch(r"\w+", example.prefix[start:end])
        assert not re.match(r"\w", example.prefix[end:])
        for phrase in example.phrase:
            assert phrase[0] <= start <= end <= phrase[1]


@pytest.mark.parametrize("name", [name for name in NAMES if name != "builtin-asp"])
def test_what_is_right_once_is_wrong_once(name: str, suite: dict[str, Dataset]) -> None:
    examples = suite[name].examples
    pairs = zip(examples[::2], examples[1::2], strict=True)
    assert all((one.target, one.foil) == (other.foil, other.target) for one, other in pairs)
    assert Counter(example.target for example in examples) == Counter(example.foil for example in examples)


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("aga", ["gender"]),
        ("ana", ["number"]),
        ("asp", ["number"]),
        ("dna", ["number"]),
        ("dnaa", ["number"]),
        ("npi", ["licensed"]),
        *((f"sva-{attractors}", ["number"]) for attractors in range(5)),
        ("ioi", ["order", "genders"]),
    ],
)
def test_columns_are_balanced(name: str, columns: list[str], suite: dict[str, Dataset]) -> None:
    for column in columns:
        assert len(count(suite[f"builtin-{name}"], column)) == 1


@pytest.mark.parametrize("name", NAMES)
def test_words_are_dealt_evenly(name: str, suite: dict[str, Dataset]) -> None:
    """Evidence words of one kind come about equally often: none more than twice as often as another."""
    words = Counter(
        (example.columns.get("number"), example.evidence_text()) for example in suite[name].examples
    )
    names = Counter(
        {key: n for key, n in words.items() if name == "builtin-aga" and key[1] in (*WOMEN, *MEN)}
    )
    for counts in (names, words - names):
        assert not counts or max(counts.values()) <= 2 * min(counts.values()), counts


def test_attractors_call_for_the_other_verb(suite: dict[str, Dataset]) -> None:
    for attractors in range(5):
        for one, other in zip(*(iter(suite[f"builtin-sva-{attractors}"].examples),) * 2, strict=True):
            first, second = one.prefix.split(), other.prefix.split()
            differ = [pair for pair in zip(first, second, strict=True) if pair[0] != pair[1]]
            assert len(differ) == 1 + attractors
            singular, plural = differ[0]
            assert (one.evidence_text(), other.evidence_text()) == (singular, plural)
            assert len(plural) > len(singular)
            assert all(len(between[0]) > len(between[1]) for between in differ[1:])


def test_the_missing_name_is_the_one_that_does_not_act(suite: dict[str, Dataset]) -> None:
    examples = suite["builtin-ioi"].examples
    for example in examples:
        assert example.evidence_text() == example.target
        assert example.prefix.count(example.target) == 1
        assert example.prefix.count(example.foil) == 2
        first = example.prefix.index(example.target) < example.prefix.index(example.foil)
        assert example.columns["order"] == ("ABBA" if first else "BABA")
    templates = Counter(example.columns["template"] for example in examples)
    assert max(templates.values()) - min(templates.values()) <= 2


def test_marks() -> None:
    assert unmark("Then <the [key] to> it") == ("Then the key to it", ((9, 12),), ((5, 15),))
    assert unmark("no [marks]") == ("no marks", ((3, 8),), ())


def test_counts_that_are_refused() -> None:
    with pytest.raises(InputError) as caught:
        make_builtin("builtin-aga", 3)
    assert str(caught.value) == "3 examples were requested.\nThey come in pairs: ask for 2, 4, 6, …"
    with pytest.raises(InputError, match=r"builtin-ana has \d+ different examples, 1000 were requested\."):
        make_builtin("builtin-ana", 1000)
