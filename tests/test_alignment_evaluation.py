"""Alignments measured against gold: every method in every block, runs that go on, tables and figures."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import toy_translators
import whyword
from whyword.alignment.aer import score_links
from whyword.alignment.gold_evaluation import Asked, evaluate_alignment, read_methods
from whyword.alignment.gold_report import lay_out_best, write_report, write_sentences
from whyword.alignment.links import LinkFile, parse_links
from whyword.alignment.symmetry import symmetrise
from whyword.cli.application import application
from whyword.runs.single_writer import write_folder_alone

from families import other_weights

WORDS = [
    (
        ["Die", "Bank", "am", "Fluss", "ist", "alt", "."],
        ["The", "bank", "of", "the", "river", "is", "old", "."],
    ),
    ([], []),
    (["Ich", "habe", "ein", "Buch", "gelesen", "."], ["I", "read", "a", "book", "."]),
]
GOLD = parse_links("1-1 2-2 4-5 5-6 6p7 7-8\n\n1-1 5-2 3-3 4-4 6-5\n", "gold")
FAST = ("attention", "vector-norms", "distance", "logit", "logit-raw", "alti-logit")


@pytest.fixture(scope="module")
def m2m(tmp_path_factory: pytest.TempPathFactory) -> whyword.Model:
    tokenizer = toy_translators.make_m2m_100(tmp_path_factory.mktemp("m2m"))
    tokenizer.tgt_lang = "en"
    return toy_translators.load_tiny(tokenizer)


def test_every_way_is_what_align_says(m2m: whyword.Model, tmp_path: Path) -> None:
    asked = Asked(WORDS, GOLD, ("combined", "attention", "logit"))
    report = evaluate_alignment(m2m, asked, tmp_path / "run")
    blocks = len(m2m.blocks)
    assert len(report.measured) == 3 * (2 * blocks + blocks + 1 + 1)
    kinds: dict[str, dict[str, Any]] = {
        "forward": {"links": "best"},
        "mutual": {"recall": 0.0, "null": 0.0},
        "recall 0.6": {},
    }
    for each in report.measured[:: blocks - 1]:
        way = each.settings
        place: dict[str, Any] = {"method": way.method, "block": way.block, "step": way.step}
        links = [whyword.align(m2m, *pair, **place, **kinds[each.direction]).links for pair in WORDS]
        assert each.score == score_links(zip(links, GOLD.sentences, strict=True)), way
        assert each.interval[0] <= each.score.aer <= each.interval[1]
    assert report.find("logit", block=1) == report.measured[2 * blocks + 1].score


def test_both_directions_are_measured(m2m: whyword.Model, tmp_path: Path) -> None:
    asked = Asked(WORDS, GOLD, ("logit",))
    report = evaluate_alignment(m2m, asked, tmp_path / "run", m2m)
    found = {each.direction: each.score for each in report.measured if each.settings.block is None}
    both = []
    for source, target in WORDS:
        sides = (source, target), (target, source)
        forward, turned = (whyword.align(m2m, *side, method="logit", links="best").links for side in sides)
        backward = [(own, other) for other, own in turned]
        both.append((forward, backward))
    assert found["backward"] == score_links(
        (backward, gold) for (_, backward), gold in zip(both, GOLD.sentences, strict=True)
    )
    for way in ("intersection", "union", "grow-diag-final"):
        links = [symmetrise(*each, way) for each in both]
        assert found[way] == score_links(zip(links, GOLD.sentences, strict=True))
    summed = [whyword.align(m2m, *pair, reverse=m2m, method="logit").links for pair in WORDS]
    assert found["scores, recall 0.6"] == score_links(zip(summed, GOLD.sentences, strict=True))


def test_a_run_goes_on_and_is_not_mixed_with_another(m2m: whyword.Model, tmp_path: Path) -> None:
    asked = Asked(WORDS, GOLD, ("logit",))
    whole = evaluate_alignment(m2m, asked, tmp_path / "run")
    journal = tmp_path / "run" / "sentences.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    assert len(lines) == len(WORDS)
    journal.write_text("".join(lines[:2]) + lines[2][:7])  # a line that was cut off
    assert evaluate_alignment(m2m, asked, tmp_path / "run") == whole
    assert journal.read_text() == "".join(lines)
    with pytest.raises(whyword.InputError, match="holds a run with other settings"):
        evaluate_alignment(m2m, Asked(WORDS, GOLD, ("attention",)), tmp_path / "run")
    with (
        other_weights(m2m.network),
        pytest.raises(whyword.InputError, match="holds a run with other settings: weights is"),
    ):
        evaluate_alignment(m2m, asked, tmp_path / "run")
    with (
        write_folder_alone(tmp_path / "run"),
        pytest.raises(whyword.InputError, match=r"run is being written by process \d+ on"),
    ):
        evaluate_alignment(m2m, asked, tmp_path / "run")


def test_a_slow_method_is_kept_pair_by_pair(
    m2m: whyword.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(_what: str, done: int, _total: int | None) -> None:
        if done == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr("whyword.alignment.gold_evaluation.report_progress", stop)
    with pytest.raises(KeyboardInterrupt):
        evaluate_alignment(m2m, Asked(WORDS, GOLD, ("smoothgrad",)), tmp_path / "run")
    (line,) = (tmp_path / "run" / "sentences.jsonl").read_text().splitlines()
    links = whyword.align(m2m, *WORDS[0], method="smoothgrad", links="best").links
    assert json.loads(line)["smoothgrad/output/all/forward"] == [list(link) for link in links]


def test_gold_outside_a_sentence_is_refused_by_line(m2m: whyword.Model, tmp_path: Path) -> None:
    wrong: LinkFile = parse_links("1-1\n\n7-1\n", "gold")
    with pytest.raises(whyword.InputError, match="gold, line 3: the link 7-1 is outside"):
        evaluate_alignment(m2m, Asked(WORDS, wrong, ("logit",)), tmp_path / "run")


def test_the_table_the_figure_and_the_sentences(m2m: whyword.Model, tmp_path: Path) -> None:
    asked = Asked(WORDS, GOLD, FAST)
    report = evaluate_alignment(m2m, asked, tmp_path)
    lines = lay_out_best(report)
    assert [(line.method, line.step) for line in lines[:2]] == [
        ("attention", "output"),
        ("attention", "input"),
    ]
    for line in lines:
        rows = report.rows()[line.method, line.step, line.direction]
        assert line.best.score.aer == min(each.score.aer for each in rows if each.settings.block is not None)
        assert (line.total is not None) == ("logit" in line.method)
    paths = write_report(report, tmp_path)
    assert {path.name for path in paths} == {
        "table.md",
        "table.csv",
        "table.tex",
        "blocks.csv",
        "blocks.png",
        "blocks.svg",
    }
    with (tmp_path / "blocks.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(report.measured)
    assert float(rows[0]["AER"]) == pytest.approx(100 * report.measured[0].score.aer, abs=0.005)
    table = (tmp_path / "table.md").read_text().splitlines()
    assert table[1] == "| --- | --- |" + " --: |" * 7
    assert [line for line in table if line.startswith("| ")][2:] == [
        f"| {' | '.join(line.cells())} |" for line in lines
    ]
    assert (tmp_path / "table.tex").read_text().count(r"\\") == len(lines) + 1
    drawn, other, page = write_sentences(m2m, asked, tmp_path)
    assert (drawn.name, other.name, page.name) == ("sentence-1.png", "sentence-3.png", "sentences.html")
    assert drawn.read_bytes().startswith(b"\x89PNG")
    (embedded,) = re.findall(r'id="documents">(.*?)</script>', page.read_text())
    documents = json.loads(embedded)
    assert [each["method"] for each in documents] == [
        "attention, best",
        "combined, mutual links, recall 0.6",
    ] * 2
    assert documents[0]["gold"] == {
        "sure": [[0, 0], [1, 1], [3, 4], [4, 5], [6, 7]],
        "possible": [[5, 6]],
    }
    assert "a green frame a human (gold) link" in documents[0]["wording"]["lead"]


def test_names_of_methods() -> None:
    assert read_methods("paper") == ("attention", "vector-norms", "distance", "smoothgrad", "logit")
    assert set(read_methods("all")) == {*FAST, "smoothgrad", "combined"}
    assert read_methods("logit, attention") == ("logit", "attention")
    with pytest.raises(whyword.InputError, match="no method 'giza' for alignments"):
        read_methods("giza")


@pytest.mark.real
def test_the_command_on_real_weights(shared: Path, tmp_path: Path) -> None:
    gold = shared / "data" / "alignment" / "zh-en"
    files = ["--source", gold / "test.zh", "--target", gold / "test.en", "--gold", gold / "alignment.talp"]
    command = [
        "evaluate",
        "alignment",
        "-m",
        shared / "models" / "opus-mt-zh-en",
        "--dtype",
        "float32",
        *files,
    ]
    command += ["--methods", "attention,logit", "--limit", "16", "--out", tmp_path / "run", "--json"]
    done = CliRunner().invoke(application, [*map(str, command)])
    assert done.exit_code == 0, done.stderr
    assert "words count from 1 (assumed)" in done.stderr
    rates = {(each["method"], each["step"], each["block"]): each["aer"] for each in json.loads(done.stdout)}
    best = {
        name: min(rate for key, rate in rates.items() if key[:2] == name and key[2] is not None)
        for name in {key[:2] for key in rates}
    }
    total = rates["logit", "output", None]
    assert total < 0.35
    assert total < best["logit", "output"] - 0.02
    assert total < best["attention", "output"] - 0.1
    assert (tmp_path / "run" / "sentence-1.png").exists()


def test_the_command_asks_for_its_files(tmp_path: Path) -> None:
    base = ["evaluate", "alignment", "--out", str(tmp_path / "run")]
    for name in ("a", "b"):
        (tmp_path / name).write_text("one\n")
    sides = ["--source", str(tmp_path / "a"), "--target", str(tmp_path / "b")]
    for more, message in (
        ([], "There is no --source"),
        (sides, "There is no --gold"),
        ([*sides, "--gold", str(tmp_path / "a")], "No model was named"),
        ([*sides, "--gold", str(tmp_path / "a"), "-m", "x"], "'one' is not a link"),
    ):
        done = CliRunner().invoke(application, [*base, *more])
        assert done.exit_code == 2
        assert message in done.stderr
