"""Datasets: published layouts, rows that cannot be used, names, and evidence from characters to tokens."""

import csv
import itertools
import json
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from whyword import InputError, Tokens
from whyword.cli.application import application
from whyword.data import (
    GROUPS,
    PUBLISHED,
    Dataset,
    Example,
    choose_evidence,
    locate_tokens,
    read_datasets,
)
from whyword.data.dataset_names import expand_names
from whyword.data.evidence_spans import find_in_prefix
from whyword.data.file_layouts import read_table, render_table
from whyword.data.rows import cut_pair
from whyword.tokens import spell

import toy_tokenizers

PAIR = ("one_prefix_prefix", "one_prefix_word_good", "one_prefix_word_bad")


def write_csv(path: Path, columns: tuple[str, ...], *rows: tuple[str, ...]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(rows)
    return path


def read_one(name: str, folder: Path) -> Dataset:
    (dataset,) = read_datasets([name], folder)
    return dataset


def texts(example: Example, kind: str = "word") -> list[str]:
    return [example.prefix[start:end] for start, end in choose_evidence(example, kind)]


def refuse(names: list[str], folder: Path | str | None) -> tuple[str, str]:
    with pytest.raises(InputError) as caught:
        read_datasets(names, folder)
    return caught.value.wrong, caught.value.remedy


def test_csv_with_evidence(tmp_path: Path) -> None:
    write_csv(
        tmp_path / "deep" / "down" / "anaphor_number_agreement.csv",
        ("", *PAIR, "UID", "target", "target_phrase"),
        ("0", "These patients do respect", "themselves", "himself", "x", "patients", "These patients"),
        ("1", "Susan, the dancer, saw", "herself", "themselves", "x", "Susan", "Susan, the dancer"),
    )
    dataset = read_one("ana", tmp_path)
    assert (dataset.name, dataset.title, dataset.group) == ("ana", "anaphor_number_agreement", "BLiMP")
    assert dataset.phenomenon == "anaphor"
    first, second = dataset.examples
    assert (first.prefix, first.target, first.foil) == ("These patients do respect", "themselves", "himself")
    assert (first.word, first.phrase) == (((6, 14),), ((0, 14),))
    assert (second.row, texts(second), texts(second, "phrase")) == (1, ["Susan"], ["Susan, the dancer"])
    assert first.columns["UID"] == "x"
    assert "" not in first.columns
    assert dataset.has_evidence
    assert len(dataset.hash) == 64


def test_the_layout_of_blimp(tmp_path: Path) -> None:
    pair = {"sentence_good": "Susan revealed herself.", "sentence_bad": "Susan revealed themselves."}
    cut = dict(zip(PAIR, ("Susan revealed", "herself", "themselves"), strict=True))
    for row in ({**pair, **cut, "pairID": 7, "one_prefix_method": True}, {**pair, "pairID": 7}):
        path = tmp_path / "anaphor_number_agreement.jsonl"
        path.write_text(json.dumps(row) + "\n\n")
        dataset = read_one("anaphor_number_agreement", tmp_path)
        (example,) = dataset.examples
        assert (example.prefix, example.target, example.foil) == ("Susan revealed", "herself", "themselves")
        assert (example.word, example.columns["pairID"]) == ((), "7")
        assert not dataset.has_evidence


@pytest.mark.parametrize("whole", [True, False])
def test_the_layout_of_sva(tmp_path: Path, whole: bool) -> None:
    sentence = """the "keys" to the `` cabinet '' {} here ."""
    rows = [
        [count, *([sentence.format("are")] if whole else []), sentence.format("***mask***"), "are", "is"]
        for count in ("2", "1", "2")
    ]
    (tmp_path / "lgd_dataset.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))
    datasets = read_datasets(["sva-1", "sva-2"], tmp_path)
    assert [[example.row for example in dataset.examples] for dataset in datasets] == [[1], [0, 2]]
    assert datasets[0].examples[0].prefix == """the "keys" to the `` cabinet ''"""
    assert not datasets[0].has_evidence
    assert refuse(["sva"], tmp_path) == (
        f"No row of {tmp_path / 'lgd_dataset.tsv'} can be used for sva-3: there are none.",
        "Look at the file: is it the one you mean?",
    )


def test_ioi_from_its_sentences(tmp_path: Path) -> None:
    write_csv(
        tmp_path / "ioi.csv",
        ("ioi_sentences",),
        ("Then, Yvette and Angie were there. Yvette gave a banana to Angie",),
        ("Nobody was there",),
    )
    dataset = read_one("ioi", tmp_path)
    (example,) = dataset.examples
    assert (example.target, example.foil) == ("Angie", "Yvette")
    assert example.prefix.endswith("a banana to")
    assert [skipped.reason for skipped in dataset.skipped] == ["no name that comes twice"]


def test_rows_that_cannot_be_used(tmp_path: Path) -> None:
    good = ("She saw this", "cat", "cats", "this")
    write_csv(
        tmp_path / "dna.csv",
        (*PAIR, "target"),
        good,
        ("", "cat", "cats", "this"),
        ("She saw this", "", "cats", "this"),
        ("She saw this", "cat", "", "this"),
        ("She saw this", "cat", "cat", "this"),
        ("She saw this", "cat", "cats", "NA"),
        ("She saw this", "cat", "cats", "that"),
        ("She saw this",),
        good,
    )
    dataset = read_one("dna", tmp_path)
    assert [example.row for example in dataset.examples] == [0, 8]
    assert [(skipped.row, skipped.reason) for skipped in dataset.skipped] == [
        (1, "no prefix"),
        (2, "no target"),
        (3, "no foil"),
        (4, "target and foil are the same"),
        (5, "no evidence (NA)"),
        (6, "evidence is not in the prefix"),
        (7, "no target"),
    ]
    first = dataset.first(5)
    assert ([example.row for example in first.examples], len(first.skipped)) == ([0], 4)


def test_a_verb_that_is_not_marked(tmp_path: Path) -> None:
    rows = "1\tthe key is\tis\tare\n1\tthe key ***mask*** here\tis\tare\n"
    (tmp_path / "lgd_dataset.tsv").write_text(rows)
    dataset = read_one("sva-1", tmp_path)
    assert [(skipped.row, skipped.reason) for skipped in dataset.skipped] == [(0, "no ***mask***")]
    (tmp_path / "lgd_dataset.tsv").write_text(rows + "one\tthe key ***mask*** here\tis\tare\n")
    assert refuse(["sva-1"], tmp_path)[0].endswith("has 'one' as its number of attractors (num_attractors).")


def test_files_that_are_refused(tmp_path: Path) -> None:
    assert refuse(["aga"], tmp_path) == (
        f"There is no file of aga in {tmp_path}.",
        "Expected: anaphor_gender_agreement with one of the extensions .csv, .tsv, .jsonl.",
    )
    assert refuse(["aga"], tmp_path / "no")[0] == f"There is no folder {tmp_path / 'no'}."
    path = write_csv(tmp_path / "aga.csv", ("text", "label"), ("a", "b"))
    assert refuse(["aga"], tmp_path) == (
        "aga.csv does not have the columns of a dataset: text, label.",
        "Expected: one_prefix_prefix, one_prefix_word_good, one_prefix_word_bad "
        "(evidence: target, target_phrase); or sentence_good, sentence_bad.",
    )
    path.write_bytes(b"\xff\xfe\x00")
    assert "is not UTF-8" in refuse(["aga"], tmp_path)[0]
    path.write_bytes(b"")
    assert refuse(["aga"], tmp_path)[0].endswith("the columns of a dataset: none.")
    path.unlink()
    for line, wrong in (
        ('{"a": 1', "Line 1 of aga.jsonl is not JSON: Expecting ',' delimiter."),
        ("[1]", "Line 1 of aga.jsonl is not a JSON object."),
    ):
        (tmp_path / "aga.jsonl").write_text(line)
        assert refuse(["aga"], tmp_path) == (wrong, "Each line is one JSON object.")
    assert refuse(["aga"], Path(__file__)) == (
        "'test_data.py' does not end in a known format.",
        "Known endings: .csv, .tsv, .jsonl.",
    )


def test_which_of_several_files_is_read(tmp_path: Path) -> None:
    row = ("Ann saw", "herself", "himself")
    (tmp_path / "anaphor_gender_agreement.jsonl").write_text(json.dumps(dict(zip(PAIR, row, strict=True))))
    assert read_one("aga", tmp_path).source.endswith(".jsonl")
    first = write_csv(tmp_path / "with" / "Anaphor_Gender_Agreement.csv", (*PAIR, "target"), (*row, "Ann"))
    assert read_one("aga", tmp_path).source == str(first)
    assert read_one("aga", tmp_path / "anaphor_gender_agreement.jsonl").source.endswith(".jsonl")
    second = write_csv(tmp_path / "zoo" / "anaphor_gender_agreement.csv", (*PAIR, "target"), (*row, "Ann"))
    assert refuse(["aga"], tmp_path) == (
        f"There are several files of aga: {first}, {second}.",
        "Name the folder that one of them is in.",
    )


def test_names_and_groups() -> None:
    assert expand_names(["blimp"]) == ["aga", "ana", "asp", "dna", "dnai", "dnaa", "dnaai", "npi", "darn"]
    assert expand_names(["sva", "IOI", "sva-2"]) == ["sva-1", "sva-2", "sva-3", "sva-4", "ioi"]
    assert expand_names(["npi_present_1", "ipsv", "npi"]) == ["npi", "ipsv"]
    assert expand_names(["determiner_noun_agreement_with_adj_1"]) == ["dnaa"]
    assert expand_names(["blimp", "ioi"], builtin=True) == [*GROUPS["builtin-blimp"], "builtin-ioi"]
    assert expand_names(["anaphor_gender_agreement"], builtin=True) == ["builtin-aga"]
    assert expand_names(["builtin"]) == expand_names(["builtin"], builtin=True)


def test_an_unknown_dataset() -> None:
    wrong, remedy = refuse(["anaphor_gender"], None)
    assert wrong == "There is no dataset 'anaphor_gender'."
    assert remedy.startswith("Similar: aga. There are aga, ana, asp, dna, ")
    assert "; several at once: blimp, sva, builtin, builtin-sources, builtin-blimp, builtin-sva." in remedy
    wrong, remedy = refuse(["dnai"], "builtin")
    assert wrong == "There is no dataset 'dnai' in the built-in suite."
    assert remedy.startswith("Similar: builtin-dna, builtin-dnaa, ")
    assert refuse([], None)[0] == "No dataset was named."


def test_the_hub_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    assert refuse(["aga"], None) == (
        "Datasets from the hub need the package datasets, which is not installed.",
        "Install it (pip install datasets), name a folder (--data), or use the built-in suite: builtin.",
    )
    wrong, remedy = refuse(["sva-1"], None)
    assert wrong == "sva-1 is not on the hub."
    assert "lgd_dataset.tsv" in remedy


@pytest.mark.hub
def test_the_hub() -> None:
    pytest.importorskip("datasets")
    aga, ioi = read_datasets(["aga", "ioi"], None)
    assert (len(aga), len(ioi)) == (1000, 1000)
    assert (aga.examples[0].prefix, aga.examples[0].target) == ("Katherine can't help", "herself")


def test_a_word_that_comes_twice() -> None:
    assert find_in_prefix("A painting of all paintings", "painting") == ((2, 10),)
    assert find_in_prefix("All paintings of a painting", "painting") == ((19, 27),)
    assert find_in_prefix("That student remembered that", "that", last=True) == ((24, 28),)
    assert find_in_prefix("that boy saw that", "that", last=True) == ((13, 17),)
    assert find_in_prefix("the key of the man saw the man", "man") == ((15, 18),)
    assert find_in_prefix("the key of the man saw the man", "man", within=((23, 30),)) == ((27, 30),)
    assert find_in_prefix("the key", "keys") == ()
    assert find_in_prefix("the key", " ") == ()


def test_a_span_in_the_file_says_which_one(tmp_path: Path) -> None:
    prefix = "the man who saw the man"
    write_csv(
        tmp_path / "darn.csv",
        (*PAIR, "target", "target_span"),
        (prefix, "is", "are", "man", "20:23"),
        (prefix, "is", "are", "man", "0:3"),
    )
    assert [example.word for example in read_one("darn", tmp_path).examples] == [((20, 23),), ((4, 7),)]


def test_a_word_that_looks_like_nothing(tmp_path: Path) -> None:
    rows = ("of 13 results none", "appear", "appears", "none"), ("it saw", "is", "are", "NaN")
    write_csv(tmp_path / "darn.csv", (*PAIR, "target"), *rows)
    dataset = read_one("darn", tmp_path)
    assert [texts(example) for example in dataset.examples] == [["none"]]
    assert [skipped.reason for skipped in dataset.skipped] == ["no evidence (NA)"]


def test_which_evidence_counts() -> None:
    whole = Example("ana", 0, "These men saw", "a", "b", ((6, 9),), ((0, 9),), {"target_phrase": "These men"})
    assert [choose_evidence(whole, kind) for kind in ("word", "phrase", "paper")] == [
        ((6, 9),),
        ((0, 9),),
        ((0, 9),),
    ]
    past = Example(
        "aga", 0, "Colleen talks to", "a", "b", ((0, 7),), (), {"target_phrase": "Colleen talks to a"}
    )
    assert (choose_evidence(past, "phrase"), choose_evidence(past, "paper")) == (((0, 7),), ())
    head = Example("darn", 0, "These men", "a", "b", ((6, 9),), ((0, 9),), {"target_phrase": "These men"})
    assert choose_evidence(head, "paper") == ((6, 9),)
    assert choose_evidence(Example("dna", 0, "see this", "a", "b", ((4, 8),)), "paper") == ((4, 8),)
    with pytest.raises(InputError, match=r"There is no evidence 'words'.\nThere is: word, phrase, paper."):
        choose_evidence(head, "words")


@st.composite
def split_texts(draw: st.DrawFn) -> tuple[str, list[tuple[int, int]], tuple[int, int]]:
    """Few words, so that they repeat, cut anywhere; one of them is the evidence."""
    words = draw(
        st.lists(st.sampled_from(["the", "man", "men", "a", "the-man", "日本"]), min_size=1, max_size=8)
    )
    gap = draw(st.sampled_from([" ", "  "]))
    text = gap.join(words)
    cuts = sorted(draw(st.sets(st.integers(1, len(text)))) | {0, len(text)})
    index = draw(st.integers(0, len(words) - 1))
    start = sum(len(word) + len(gap) for word in words[:index])
    return text, list(itertools.pairwise(cuts)), (start, start + len(words[index]))


@given(split_texts(), st.booleans())
def test_tokens_of_a_span(case: tuple[str, list[tuple[int, int]], tuple[int, int]], bos: bool) -> None:
    text, pieces, span = case
    spans = [(0, 0), *pieces] if bos else pieces
    names: list[str | None] = [*(["<s>"] if bos else []), *(None for _ in pieces)]
    tokens = spell(text, list(range(len(spans))), spans, names)
    owner = {place: index for index, (start, end) in enumerate(spans) for place in range(start, end)}
    visible = [place for place in range(*span) if not text[place].isspace()]
    assert locate_tokens(tokens, [span]) == tuple(sorted({owner[place] for place in visible}))
    whole = locate_tokens(tokens, [(0, len(text))])
    assert set(locate_tokens(tokens, [span])) <= set(whole)
    assert all(tokens[index].text.strip() for index in whole)


@pytest.mark.parametrize("kind", toy_tokenizers.KINDS)
def test_tokens_of_a_real_tokenizer(kind: str) -> None:
    tokenizer = toy_tokenizers.make(kind)
    prefix = "The report about the reports has been read; the report"
    encoded = tokenizer(prefix, return_offsets_mapping=True)
    names = ["<s>" if id_ == tokenizer.bos_token_id else None for id_ in encoded["input_ids"]]
    tokens: Tokens = spell(prefix, encoded["input_ids"], encoded["offset_mapping"], names)
    for last in (False, True):
        span = find_in_prefix(prefix, "report", last=last)
        indices = locate_tokens(tokens, span)
        assert "".join(tokens[index].text for index in indices).strip() == "report"
        assert tokens[indices[0]].start == span[0][0]


def test_tables_keep_what_they_had(tmp_path: Path, shared: Path) -> None:
    path = shared / "data/blimp/anaphor_gender_agreement.csv"
    table = read_table(path)
    assert render_table(table, ".csv").splitlines() == path.read_text().splitlines()
    for suffix in (".jsonl", ".tsv"):
        again = tmp_path / f"again{suffix}"
        again.write_text(render_table(table, suffix))
        assert read_table(again).rows == table.rows


def test_the_published_files(shared: Path) -> None:
    datasets = {d.name: d for d in read_datasets([*PUBLISHED], shared / "data")}
    assert {name: len(dataset) for name, dataset in datasets.items()} == {
        "aga": 979,
        "ana": 991,
        "asp": 1000,
        "dna": 1000,
        "dnai": 1000,
        "dnaa": 1000,
        "dnaai": 1000,
        "npi": 1000,
        "darn": 970,
        "ipsv": 985,
        "rpsv": 982,
        "ioi": 1000,
        "sva-1": 4899,
        "sva-2": 907,
        "sva-3": 200,
        "sva-4": 51,
    }
    reasons = Counter((s.dataset, s.reason) for dataset in datasets.values() for s in dataset.skipped)
    assert reasons == {
        ("aga", "no evidence (NA)"): 21,
        ("ana", "no evidence (NA)"): 9,
        ("darn", "no evidence (NA)"): 30,
        ("ipsv", "no evidence (NA)"): 14,
        ("rpsv", "no evidence (NA)"): 18,
        ("ipsv", "evidence is not in the prefix"): 1,
        ("sva-1", "target and foil are the same"): 6,
    }
    for dataset in datasets.values():
        for example in dataset.examples:
            if "target" in example.columns:
                assert texts(example) == [example.columns["target"]]
    past = {
        (name, example.row)
        for name, dataset in datasets.items()
        for example in dataset.examples
        if example.columns.get("target_phrase") and not example.phrase
    }
    assert past == {("aga", 102), ("ana", 202), ("ana", 212), ("darn", 11), ("darn", 473), ("darn", 522)}
    for example in (*datasets["dna"].examples, *datasets["dnai"].examples):
        assert example.word[0][1] == len(example.prefix)


@pytest.mark.parametrize("name", ["aga", "asp", "npi", "darn"])
def test_sentences_are_cut_where_they_were_published_cut(name: str, shared: Path) -> None:
    table = read_table(shared / f"data/blimp/{PUBLISHED[name].title}.csv")
    for row in table.rows:
        if " " not in row["one_prefix_word_good"] + row["one_prefix_word_bad"]:
            assert cut_pair(row["sentence_good"], row["sentence_bad"]) == tuple(
                row[column] for column in PAIR
            )


def test_the_command_that_lists_them(tmp_path: Path) -> None:
    write_csv(
        tmp_path / "aga.csv", (*PAIR, "target"), ("Ann saw", "herself", "himself", "Ann"), ("", "", "", "")
    )
    (tmp_path / "sva.tsv").write_text("1\tthe key ***mask*** here\tis\tare\n")
    done = CliRunner().invoke(application, ["datasets", "--data", str(tmp_path)])
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[:6] == [
        "aga  anaphor_gender_agreement",
        f"    1 example; 1 left out: no prefix; {tmp_path / 'aga.csv'}",
        "    [Ann] saw … herself / himself",
        "sva-1  subject–verb agreement, 1 attractor",
        f"    1 example; no evidence columns; {tmp_path / 'sva.tsv'}",
        "    the key … is / are",
    ]
    assert "can be used for sva-2: there are none." in done.stderr
    assert len(lines) == 6 + 3 * 12
    done = CliRunner().invoke(application, ["datasets", "ioi", "--data", "builtin", "--json"])
    (document,) = json.loads(done.stdout)["datasets"]
    assert (document["name"], document["examples"], document["evidence"]) == ("builtin-ioi", 200, True)
