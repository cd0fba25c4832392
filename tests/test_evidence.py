"""Evidence by parsing: the rules, their agreement with published columns, the command."""

import csv
import importlib.util
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from whyword import InputError
from whyword.cli.application import application
from whyword.data import GROUPS, PUBLISHED, Example, add_evidence, find_evidence, read_datasets
from whyword.data.evidence_columns import annotate, guess_phenomenon
from whyword.data.evidence_rules import PHENOMENA, require_phenomenon
from whyword.data.file_layouts import read_table
from whyword.data.parses import list_pipelines, open_pipeline
from whyword.runs import progress

PAIR = ("one_prefix_prefix", "one_prefix_word_good", "one_prefix_word_bad")


@pytest.fixture(scope="module")
def pipeline() -> str:
    if importlib.util.find_spec("spacy") is None:
        pytest.skip("spaCy is not installed (the extra `evidence`)")
    if not list_pipelines():
        pytest.skip("no English pipeline of spaCy (pip install --no-deps -r tests/pipeline.txt)")
    return list_pipelines()[0]


def find(phenomenon: str, prefix: str, target: str, sentence: str = "") -> tuple[str, str]:
    """Give the evidence of one prefix with where it starts, and the phrase."""
    example = Example("mine", 0, prefix, target, "other", columns={"sentence_good": sentence})
    found, skipped = find_evidence([example], phenomenon)
    assert not skipped
    ((start, end),) = found[0].word
    return f"{prefix[start:end]}@{start}", "".join(prefix[a:b] for a, b in found[0].phrase)


@pytest.mark.parametrize(
    ("prefix", "target", "word", "phrase"),
    [
        ("The keys to the cabinet", "are", "keys@4", "The keys to the cabinet"),
        ("The man who saw the man", "is", "man@4", "The man who saw the man"),
        ("The plays about travel", "confuse", "plays@4", "The plays about travel"),
        ("Ann thinks that the boys near the tree", "are", "boys@20", "the boys near the tree"),
        (
            "a list of songs that put people to sleep",
            "has",
            "list@2",
            "a list of songs that put people to sleep",
        ),
    ],
)
def test_the_head_of_the_subject(pipeline: str, prefix: str, target: str, word: str, phrase: str) -> None:
    assert find("subject", prefix, target) == (word, phrase)


@pytest.mark.parametrize(
    ("prefix", "target", "word", "phrase"),
    [
        ("These patients do respect", "themselves", "patients@6", "These patients"),
        ("Katherine can't help", "herself", "Katherine@0", "Katherine"),
        ("Peter said that the girl had hurt", "herself", "girl@20", "the girl"),
        ("Tina fires", "herself", "Tina@0", "Tina"),
    ],
)
def test_the_subject_of_the_anaphor(pipeline: str, prefix: str, target: str, word: str, phrase: str) -> None:
    assert find("anaphor", prefix, target, f"{prefix} {target}.") == (word, phrase)


@pytest.mark.parametrize(
    ("phenomenon", "prefix", "target", "word"),
    [
        ("passive", "Amanda was respected by some", "waitresses", "respected@11"),
        ("passive", "Nina isn't escaped from by some", "customer", "escaped@11"),
        ("determiner", "That student remembered that", "play", "that@24"),
        ("determiner", "Craig explored that", "grocery store", "that@15"),
        ("determiner", "Tonya helps these out in the open", "doctors", "these@12"),
        ("npi", "Even many teenagers", "clearly", "Even@0"),
        ("name", "Friends Juana and Kristi found a mango. Kristi gave it to", "Juana", "Juana@8"),
    ],
)
def test_the_other_rules(pipeline: str, phenomenon: str, prefix: str, target: str, word: str) -> None:
    assert find(phenomenon, prefix, target, f"{prefix} {target}.") == (word, "")


@pytest.mark.parametrize("name", [*GROUPS["blimp"], "ipsv", "rpsv", "ioi"])
def test_rules_agree_with_the_published_columns(pipeline: str, name: str, shared: Path) -> None:
    """Every 16th row; `whyword evidence FILE` compares them all."""
    folder = "ioi" if name == "ioi" else "blimp"
    table = read_table(shared / "data" / folder / f"{PUBLISHED[name].files[0]}.csv")
    table = replace(table, rows=table.rows[::16])
    _, agreement = annotate(table, name)
    columns = [each for each in ("target", "target_phrase") if each in table.columns]
    assert [each.column for each in agreement.comparisons] == columns
    for comparison in agreement.comparisons:
        assert comparison.rows >= 59
        assert comparison.share >= 0.98, comparison.disagreements


def test_rules_do_not_look_at_the_columns(pipeline: str, shared: Path) -> None:
    table = read_table(shared / "data/blimp/distractor_agreement_relational_noun.csv")
    rows = table.rows[:20]
    wrong = [{**row, "target": "most", "target_phrase": "most"} for row in rows]
    right, _ = annotate(replace(table, rows=rows), "darn")
    other, agreement = annotate(replace(table, rows=tuple(wrong)), "darn")
    assert right.rows == other.rows
    assert [len(each.disagreements) for each in agreement.comparisons] == [20, 20]
    assert agreement.comparisons[0].share == 0


def test_sva_gets_its_evidence(pipeline: str, shared: Path) -> None:
    (dataset,) = read_datasets(["sva-2"], shared / "data")
    seen: list[tuple[str, int, int | None]] = []
    with progress.listen(lambda *what: seen.append(what)):
        found = add_evidence(dataset.first(40), pipeline)
    assert seen[-1] == ("sentences", 40, 40)
    assert len(found.examples) + len(found.skipped) == 40
    assert len(found.examples) >= 38
    assert {each.reason for each in found.skipped} <= {"no evidence found in the parse"}
    nouns = [example.evidence_text() for example in found.examples if example.target == "include"]
    assert nouns == ["victories", "women", "reasons", "accounts", "actors", "articles"]


def test_rules_find_what_was_built_in(pipeline: str) -> None:
    for dataset in read_datasets(["builtin"]):
        if dataset.phenomenon != "npi":  # the rule looks for "even", the suite has more
            first = dataset.first(20)
            assert [e.word for e in add_evidence(first).examples] == [e.word for e in first.examples]


def test_the_command(pipeline: str, tmp_path: Path) -> None:
    path, out = tmp_path / "mine.csv", tmp_path / "out.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(
            [
                ("", *PAIR, "target", "target_phrase"),
                ("0", "The man who saw the man", "is", "are", "man", "The man who saw the man"),
                ("1", "The sons of Frank", "judge", "judges", "sons", "The sons of"),
                ("2", "The keys to the cabinet", "are", "is", "NA", "NA"),
                ("3", "", "are", "is", "keys", "keys"),
            ]
        )
    command = ["evidence", str(path), "-p", "subject", "-o", str(out), "-o", str(tmp_path / "out.jsonl")]
    done = CliRunner().invoke(application, command)
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines() == [
        "subject: the head of the subject",
        "found in 3 of 4 rows",
        "  row 3: no prefix",
        "target: agrees in 2 of 3 rows, 66.7%",
        "  row 3:  | file 'keys', rule nothing",
        "target_phrase: agrees in 1 of 3 rows, 33.3%",
        "  row 1: The sons of Frank | file 'The sons of', rule 'The sons of Frank'",
        "  row 3:  | file 'keys', rule nothing",
    ]
    for name in ("out.csv", "out.jsonl"):
        assert f"{name}: 4 rows, 3 with evidence" in done.stderr
        assert (tmp_path / name).stat().st_size > 100
    rows = list(csv.DictReader(out.open(newline="")))
    assert list(rows[0]) == ["", *PAIR, "target", "target_phrase", "target_span", "target_phrase_span"]
    assert [row["target_span"] for row in rows] == ["4:7", "4:8", "4:8", "NA"]
    assert rows[1]["target_phrase"] == "The sons of Frank"
    (dataset,) = read_datasets(["darn"], out)
    assert [example.word for example in dataset.examples] == [((4, 7),), ((4, 8),), ((4, 8),)]
    done = CliRunner().invoke(application, ["evidence", str(path), "-p", "darn", "--json"])
    document = json.loads(done.stdout)
    assert [column["agree"] for column in document["columns"]] == [2, 1]
    assert document["columns"][1]["disagreements"][0]["found"] == "The sons of Frank"
    done = CliRunner().invoke(application, ["evidence", str(path), "-p", "subject", "-o", "x.txt"])
    assert "'x.txt' does not end in a known format." in done.stderr


def test_phenomena(tmp_path: Path) -> None:
    assert {known.phenomenon for known in PUBLISHED.values()} == set(PHENOMENA)
    assert require_phenomenon("anaphor_gender_agreement") == "anaphor"
    assert require_phenomenon("SVA-3") == "subject"
    with pytest.raises(InputError) as caught:
        require_phenomenon("gender")
    assert caught.value.wrong == "There is no phenomenon 'gender'."
    assert caught.value.remedy.startswith(
        "There are anaphor, passive, determiner, npi, subject, name; or name a"
    )
    assert guess_phenomenon(tmp_path / "lgd_dataset.tsv") == "subject"
    path = tmp_path / "mine.csv"
    path.write_text("")
    done = CliRunner().invoke(application, ["evidence", str(path)])
    assert (done.exit_code, done.stderr.splitlines()) == (
        2,
        [
            "error: mine.csv is not the name of a dataset.",
            "Say what it tests with --phenomenon: anaphor, passive, determiner, npi, subject, name.",
        ],
    )


def test_without_spacy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(InputError) as caught:
        find_evidence([], "npi")
    assert str(caught.value) == (
        "Evidence is found with spaCy, which is not installed.\n"
        "Install it: pip install spacy, then: python -m spacy download en_core_web_sm"
    )


def test_pipelines_that_will_not_do(pipeline: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import spacy
    import spacy.util

    with pytest.raises(InputError) as caught:
        open_pipeline("en_core_web_none")
    assert caught.value.wrong.startswith("The pipeline 'en_core_web_none' cannot be loaded: [E050]")
    assert pipeline in caught.value.remedy
    spacy.blank("en").to_disk(tmp_path)
    with pytest.raises(InputError, match="has no tagger and no parser and no attribute_ruler"):
        open_pipeline(str(tmp_path))
    monkeypatch.setattr(spacy.util, "get_installed_models", list)
    with pytest.raises(InputError) as caught:
        open_pipeline()
    assert str(caught.value) == (
        "No English spaCy pipeline is installed.\nRun: python -m spacy download en_core_web_sm"
    )
