"""Runs over a file of prompts, on this machine: what is written, stopped, resumed, refused and read back."""

import csv
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

import whyword
from whyword.attribute import plan_methods
from whyword.cli import application
from whyword.corpus import corpus_run, shard_work
from whyword.corpus.aggregates import aggregate
from whyword.corpus.row_index import index_rows, read_shard
from whyword.corpus.row_sources import open_source
from whyword.corpus.run_journal import read_shard_lines
from whyword.models.catalogue import CATALOGUE
from whyword.pipeline.model_source import ModelSource
from whyword.runs.local_processes import LocalEngine
from whyword.trace.memory_plan import Request, estimate

from families import other_weights
from run_folders import PROMPTS, read_shards, write_rows

pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed (the extra `runs`)")

ROWS: list[dict[str, Any]] = [
    {"id": f"row-{number}", "prompt": PROMPTS[number % 4] + " the" * (number % 3), "group": number % 2}
    | ({"target": "cat", "foil": "dog"} if number % 2 else {})
    for number in range(22)
]


@pytest.fixture(scope="module")
def model(tiny_folder: Path) -> whyword.Model:
    return whyword.load(str(tiny_folder), start="tokenizer")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_rows(tmp_path_factory.mktemp("rows") / "rows.jsonl", ROWS)


@pytest.fixture(scope="module")
def whole(model: whyword.Model, source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted run in one process."""
    out = tmp_path_factory.mktemp("runs") / "whole"
    whyword.run(model, source, out, methods=["flow", "logit"], shard_rows=4, start="tokenizer")
    return out


def test_rows_are_explanations_again(model: whyword.Model, whole: Path) -> None:
    run = whyword.open_run(whole)
    assert run.finished
    assert len(run) == len(ROWS)
    explanations = list(run)
    assert [each.id for each in explanations] == [row["id"] for row in ROWS for _ in range(2)]
    for number in (0, 7):
        row = ROWS[number]
        for method in ("flow", "logit"):
            again = run[row["id"], method]
            own = whyword.explain(
                model, row["prompt"], target=row.get("target"), foil=row.get("foil", "auto"), method=method
            )
            assert again.columns == {"group": number % 2}
            torch.testing.assert_close(again.scores, own.scores, rtol=1e-5, atol=1e-5)
            torch.testing.assert_close(again.by_head, own.by_head, rtol=1e-5, atol=1e-5)
            assert again.words()[0][0] == own.words()[0][0]
            whyword.Explanation.from_dict(again.to_dict())  # it is a valid document
    flow = run["row-7"]
    assert flow.flow.sum(1) + flow.bias == pytest.approx(flow.ledger.logit, abs=1e-4)
    assert flow.routes(3)


def test_alone_in_its_batch_a_row_is_the_same_document(
    model: whyword.Model, source: Path, tmp_path: Path
) -> None:
    run = whyword.run(model, source, tmp_path / "out", batch_size=1, limit=3, start="tokenizer")
    for row, again in zip(ROWS, run, strict=False):
        own = whyword.explain(model, row["prompt"], target=row.get("target"), foil=row.get("foil", "auto"))
        assert again.to_dict() == own.to_dict()


@pytest.mark.parametrize("form", ["csv", "parquet", "arrow"])
def test_every_format_gives_the_same_rows(
    form: str, model: whyword.Model, source: Path, whole: Path, tmp_path: Path
) -> None:
    table = pyarrow.Table.from_pylist([{"target": None, "foil": None, **row} for row in ROWS])
    path = tmp_path / f"rows.{form}"
    if form == "csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, ["id", "prompt", "target", "foil", "group"])
            writer.writeheader()
            writer.writerows(ROWS)
    elif form == "parquet":
        pyarrow.parquet.write_table(table, path, row_group_size=5)
    else:
        path = tmp_path / "dataset"
        path.mkdir()
        for number, part in enumerate((table.slice(0, 9), table.slice(9))):
            with pyarrow.ipc.new_stream(path / f"data-0000{number}-of-00002.arrow", part.schema) as stream:
                stream.write_table(part, max_chunksize=4)
    run = whyword.run(
        model, path, tmp_path / "out", methods=["flow", "logit"], shard_rows=4, start="tokenizer"
    )
    columns = ["id", "method", "difference", "scores", "words"]
    assert list(run.records(columns)) == list(whyword.open_run(whole).records(columns))
    assert run["row-3"].columns == {"group": "1" if form == "csv" else 1}


def test_quoted_line_breaks_and_places_of_csv(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes('\ufeffprompt,id\r\n"one\r\n""two""",a\r\n\r\nthree,b\r\n"four, five",c\r\n'.encode())
    index = index_rows(open_source(path), 1)
    found = [read_shard(index, number)[0] for number in range(index.shards)]
    assert [row.values["prompt"] for row in found] == ['one\r\n"two"', "three", "four, five"]
    assert [row.id for row in found] == ["a", "b", "c"]


def test_jsonl_is_written_and_read_back(
    model: whyword.Model, source: Path, whole: Path, tmp_path: Path
) -> None:
    run = whyword.run(
        model,
        source,
        tmp_path / "out",
        methods=["flow", "logit"],
        shard_rows=4,
        format="jsonl",
        start="tokenizer",
    )
    assert list(run.records()) == list(whyword.open_run(whole).records())


def test_a_new_run_loads_its_model_in_its_workers_only(
    tiny_folder: Path, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To describe it beforehand took as long again as the start of a worker; a resumed run still does."""
    described = list[str]()
    describe = shard_work.describe_model
    monkeypatch.setattr(shard_work, "describe_model", lambda own: described.append(own.name) or describe(own))
    options: dict[str, Any] = {"methods": "logit", "shard_rows": 8, "start": "tokenizer", "workers": 2}
    whyword.run(str(tiny_folder), source, tmp_path / "two", **options)
    assert not described  # workers are other processes
    assert whyword.run(str(tiny_folder), source, tmp_path / "two", **options).finished
    assert len(described) == 1
    none = whyword.run(str(tiny_folder), source, tmp_path / "share", shard="9/9", **options)
    assert (len(described), none.finished) == (2, False)


def test_workers_with_other_weights(
    model: whyword.Model, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first shard says which weights a new run has; a worker that has others is refused."""
    monkeypatch.setattr(corpus_run, "is_begun", lambda _: False)
    monkeypatch.setattr(LocalEngine, "alone", property(lambda _: False))
    monkeypatch.setattr(LocalEngine, "_share", lambda _, job, numbers: _work_with_two(job, numbers))
    with pytest.raises(whyword.ModelError, match="other weights on this worker"):
        whyword.run(model, source, tmp_path, methods="logit", shard_rows=8)
    assert len(read_shard_lines(tmp_path)) == 1  # what was finished stays


def _work_with_two(job: Any, numbers: Any) -> Any:
    finished = [(number, job.begin()(job.read(number))) for number in numbers[:2]]
    second = finished[1][1]
    yield finished[0]
    yield finished[1][0], replace(second, model=replace(second.model, weights="other"))


def test_processes_and_shares_write_the_same_bytes(
    tiny_folder: Path, source: Path, whole: Path, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"methods": ["flow", "logit"], "shard_rows": 4, "start": "tokenizer"}
    whyword.run(str(tiny_folder), source, tmp_path / "two", workers=2, **options)
    assert read_shards(tmp_path / "two") == read_shards(whole)
    for share in ("2/3", "1/3", "3/3"):
        run = whyword.run(str(tiny_folder), source, tmp_path / "shares", shard=share, **options)
    assert read_shards(tmp_path / "shares") == read_shards(whole)
    assert run.finished
    assert (tmp_path / "shares" / "summary.json").exists()


def test_every_description_can_be_sent_to_workers(model: whyword.Model) -> None:
    for entries in CATALOGUE.values():
        assert pickle.loads(pickle.dumps(entries)) == entries
    sent = pickle.loads(pickle.dumps(ModelSource(model))).open()
    prompt = PROMPTS[0]
    assert whyword.explain(sent, prompt).to_dict() == whyword.explain(model, prompt).to_dict()


def test_a_killed_run_goes_on_and_is_the_same(
    tiny_folder: Path, source: Path, whole: Path, tmp_path: Path
) -> None:
    out = tmp_path / "killed"
    command = [sys.executable, "-m", "whyword", "run", str(source), "--out", str(out), "-m", str(tiny_folder)]
    command += ["--methods", "flow,logit", "--shard-rows", "4", "--start", "tokenizer"]
    running = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    until = time.monotonic() + 120
    while time.monotonic() < until and len(read_shard_lines(out)) < 2:
        time.sleep(0.01)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    assert 2 <= len(read_shard_lines(out)) < 6
    (out / "shards.jsonl").open("a").write('{"shard": 5, "fi')  # a line that was cut
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "rows are done, resuming" in done.stderr
    assert read_shards(out) == read_shards(whole)
    assert len({record["id"] for record in whyword.open_run(out).records(["id"])}) == len(ROWS)


def test_what_differs_is_named(model: whyword.Model, source: Path, whole: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"methods": ["flow", "logit"], "shard_rows": 4, "start": "tokenizer"}
    for change, named in (
        ({"keep": "scores"}, 'keep is "flow" there, "scores" here'),
        ({"threads": 2}, "threads is 1 there, 2 here"),
        ({"limit": 9}, "file"),
    ):
        with pytest.raises(whyword.InputError, match="other settings") as caught:
            whyword.run(model, source, whole, **{**options, **change})
        assert named in caught.value.wrong or named == "file"
    with other_weights(model.network), pytest.raises(whyword.InputError, match="weights is"):
        whyword.run(model, source, whole, **options)
    with pytest.raises(whyword.InputError, match="file is"):
        whyword.run(
            model,
            write_rows(tmp_path / "other.jsonl", [*ROWS[:-1], {"id": "x", "prompt": "a"}]),
            whole,
            **options,
        )


BAD = {
    "no prompt": ({"id": "x", "target": "cat"}, "row 2: it has no prompt"),
    "both": (
        {"prompt": "a", "messages": [{"role": "user", "content": "b"}]},
        "row 2: it has a prompt and messages",
    ),
    "type": ({"prompt": 7}, "row 2: its prompt is 7, not a text"),
    "target": ({"prompt": "a", "target": ["b"]}, "row 2: its target is ['b'], not a word or a token id"),
    "answer": ({"prompt": "a", "answer": 3}, "row 2: its answer is 3, not a text"),
    "turns": ({"messages": [{"role": "user"}]}, "row 2: Message 1 has no content"),
    "parts": ({"prompt": "a", "parts": {"b": "c"}}, "row 2: its parts do not fill its prompt"),
    "id": ({"prompt": "a", "id": [1]}, "row 2: its id is [1], not a text or a whole number"),
    "twice": ({"prompt": "a", "id": "row-0"}, "Two rows of bad.jsonl have the id 'row-0': 1 and 2"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_rows_are_refused_before_work_starts(name: str, tmp_path: Path) -> None:
    row, said = BAD[name]
    path = write_rows(tmp_path / "bad.jsonl", [ROWS[0], row, ROWS[1]])
    done = CliRunner().invoke(
        application, ["run", str(path), "--out", str(tmp_path / "out"), "-m", "nowhere/at-all"]
    )
    assert done.exit_code == 2
    assert said in done.stderr.replace("\n", " ")
    assert len(done.stderr.strip().splitlines()) == 2
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("content", "name", "said"),
    [
        (b"", "rows.jsonl", "has no rows"),
        (b'{"prompt": "a"}\n{"prompt": \n', "rows.jsonl", "row 2: it is not JSON"),
        (b"[1]\n", "rows.jsonl", "row 1: it is not a JSON object"),
        (b"text,id\na,b\n", "rows.csv", "has no column prompt or messages: text, id"),
        (b"prompt;id\na;b\n", "rows.csv", "has one column, named 'prompt;id'"),
        (b"prompt,id\na,b\n", "rows.tsv", "has one column, named 'prompt,id'"),
        (b"prompt,prompt\na,b\n", "rows.csv", "does not name its columns"),
        (b"prompt,id\na,b,c\n", "rows.csv", "row 1: it has 3 cells, and there are 2 columns"),
        (b"prompt\n\xff\xfe\n", "rows.csv", "row 1: it is not UTF-8"),
        (b"prompt", "rows.parquet", "is not a Parquet file"),
        (b"prompt", "rows.txt", "ends in '.txt'"),
    ],
)
def test_files_that_cannot_be_read(content: bytes, name: str, said: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(whyword.InputError) as caught:
        whyword.run("nowhere", tmp_path / name, tmp_path / "out")
    assert said in caught.value.wrong


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"methods": "nothing"}, "There is no method 'nothing'"),
        ({"by": "word"}, "by is 'word'"),
        ({"keep": "all"}, "keep is 'all'"),
        ({"format": "csv"}, "format is 'csv'"),
        ({"shard": "9/8"}, "shard is '9/8'"),
        ({"shard_rows": 0}, "shard_rows is 0"),
        ({"limit": 0}, "limit is 0"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"max_memory": "much"}, "max_memory is 'much'"),
        ({"engine": "slurm"}, "engine is 'slurm'"),
        ({"workers": 0}, "workers is 0"),
        ({"threads": 0}, "threads is 0"),
        ({"address": "auto"}, "address is given, and the engine is local"),
        ({"resources": {"num_gpus": 1}}, "resources is given, and the engine is local"),
    ],
)
def test_options_that_do_not_fit(options: dict[str, Any], said: str, source: Path, tmp_path: Path) -> None:
    with pytest.raises(whyword.InputError) as caught:
        whyword.run("nowhere", source, tmp_path / "out", **options)
    assert said in caught.value.wrong


def test_rows_that_cannot_be_explained_have_their_reason(model: whyword.Model, tmp_path: Path) -> None:
    rows = [
        {"prompt": "the cat"},
        {"prompt": "the " * 80},
        {"target": "cat"},
        {"prompt": "the dog", "target": " "},
        {"prompt": "the dog", "parts": {"dog": [4, 99]}},
        {"prompt": "the mat"},
    ]
    path = write_rows(tmp_path / "rows.jsonl", rows)
    run = whyword.run(
        model, path, tmp_path / "out", bad_rows="write", methods=["logit", "flow"], start="tokenizer"
    )
    reasons = dict(run.failures())
    assert [*reasons] == ["2", "3", "4", "5"]
    assert "has positions for 64" in reasons["2"]
    assert reasons["3"] == "it has no prompt"
    assert "has no tokens" in reasons["4"]
    assert [each.id for each in run] == ["1", "1", "6", "6"]
    assert run.summary()["failed"] == 4
    with pytest.raises(whyword.InputError, match="Row '3' could not be explained: it has no prompt"):
        run["3"]


def test_a_batch_that_does_not_fit_is_halved_and_says_so(
    model: whyword.Model, source: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    roomy = whyword.run(model, source, tmp_path / "roomy", batch_size=8, limit=16, start="tokenizer")
    longest = max(len(each.tokens) for each in roomy)
    smallest = replace(plan_methods(model, ["flow"]), recomputed_blocks=len(model.blocks))
    room = estimate(model, Request(2, longest), smallest)
    tight = whyword.run(
        model, source, tmp_path / "tight", batch_size=8, limit=16, max_memory=room, start="tokenizer"
    )
    assert "Out of memory with" in caplog.text
    for one, other in zip(roomy, tight, strict=True):
        torch.testing.assert_close(one.scores, other.scores, rtol=1e-5, atol=1e-5)


def test_parts_turns_and_answers(model: whyword.Model, tmp_path: Path) -> None:
    filled = {"prompt": "{documents} the {word}", "parts": {"documents": ["a dog", "the cat"], "word": "mat"}}
    spanned = {"prompt": "the cat sat", "parts": {"cat": [4, 7]}}
    rows = [filled, {**filled, "answer": "cat sat"}, spanned, {**spanned, "answer": "on the mat"}]
    path = write_rows(tmp_path / "rows.jsonl", rows)
    run = whyword.run(model, path, tmp_path / "out", start="tokenizer")
    one, answered, spans, both = run.records()
    names = ["documents[0]", "template", "documents[1]", "word"]
    assert {*one["parts"]} >= {*names}
    assert sum(one["part_scores"]) == pytest.approx(sum(one["scores"]), abs=1e-5)
    assert "answer so far" in answered["parts"]
    assert answered["target"]["text"] == " cat sat"
    assert {*spans["parts"]} >= {"cat", "elsewhere"}
    assert {*both["parts"]} >= {"cat", "elsewhere", "answer so far"}
    for record in (one, spans, both):
        again = run[record["id"]].by("part")
        assert (again.by, list(again.names)) == ("part", record["parts"])
        assert again.scores == pytest.approx(record["part_scores"], abs=1e-6)
    shown_by = run["3"].by("part")
    assert dict(zip(shown_by.names, shown_by.texts, strict=True)) == {"cat": "cat", "elsewhere": "the … sat"}
    command = ["explain", "--from", str(tmp_path / "out"), "--id", "3", "--by", "part"]
    shown = CliRunner().invoke(application, command)
    assert shown.exit_code == 0, shown.stderr
    assert "elsewhere" in shown.stdout
    prompt = whyword.fill(filled["prompt"], **filled["parts"])
    total = whyword.explain_continuation(model, prompt, "cat sat", foil=None).sum()
    torch.testing.assert_close(run["2"].scores, total.scores, rtol=1e-5, atol=1e-5)


def test_a_file_that_changes_is_noticed(source: Path, tmp_path: Path) -> None:
    path = write_rows(tmp_path / "rows.jsonl", ROWS)
    index = index_rows(open_source(path), 4)
    write_rows(path, [*ROWS, {"prompt": "one more"}])
    with pytest.raises(whyword.InputError, match=r"rows\.jsonl changed while it was being read"):
        read_shard(index, 1)


def test_a_full_disk_keeps_what_is_finished(
    model: whyword.Model, source: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from whyword.corpus import corpus_run

    options: dict[str, Any] = {"methods": ["flow", "logit"], "shard_rows": 4, "start": "tokenizer"}
    written = corpus_run.write_file

    def fill_disk(path: Path, content: bytes) -> None:
        if path.name == "rows-000003.parquet":
            raise whyword.InputError(f"{path} cannot be written: No space left on device.", "Make room.")
        written(path, content)

    with monkeypatch.context() as patched:
        patched.setattr(corpus_run, "write_file", fill_disk)
        with pytest.raises(whyword.InputError, match="No space left"):
            whyword.run(model, source, tmp_path / "out", **options)
    assert len(whyword.open_run(tmp_path / "out")) == 12
    whyword.run(model, source, tmp_path / "out", **options)
    assert read_shards(tmp_path / "out") == read_shards(whole)


@pytest.mark.parametrize("keep", ["scores", "blocks"])
def test_what_was_not_kept_is_said(keep: str, model: whyword.Model, source: Path, tmp_path: Path) -> None:
    run = whyword.run(model, source, tmp_path / "out", keep=keep, limit=2, start="tokenizer")
    kept = run["row-1"]
    own = whyword.explain(model, ROWS[1]["prompt"], target="cat", foil="dog")
    torch.testing.assert_close(kept.scores, own.scores, rtol=1e-5, atol=1e-5)
    assert kept.by("word").bias == pytest.approx(own.by("word").bias, abs=1e-5)
    kept.show()
    with pytest.raises(whyword.InputError, match=f"cannot be shown by head: the run kept {keep}, without"):
        kept.show(by="head")
    with pytest.raises(whyword.InputError, match="cannot be given as a whole document"):
        kept.to_dict()


def test_a_run_as_a_table(whole: Path) -> None:
    pytest.importorskip("pandas")
    frame = whyword.open_run(whole).to_dataframe()
    assert len(frame) == 2 * len(ROWS)
    assert {"id", "method", "difference", "words", "word_scores", "group"} <= {*frame.columns}
    with pytest.raises(whyword.InputError, match="There is no row 'none'"):
        whyword.open_run(whole)["none"]
    with pytest.raises(whyword.InputError, match="no readable settings"):
        whyword.open_run(whole.parent)


def test_a_row_is_shown_in_every_view(whole: Path, tmp_path: Path) -> None:
    shown = ["explain", "--from", str(whole), "--id", "row-1"]
    first = CliRunner().invoke(application, shown)
    assert first.exit_code == 0, first.stderr
    assert "cat" in first.stdout
    for view in (
        ["--by", "block", "--method", "logit"],
        ["--by", "head"],
        ["--by", "depth"],
        ["--routes", "3"],
    ):
        done = CliRunner().invoke(application, [*shown, *view, "-o", str(tmp_path / "row.html")])
        assert done.exit_code == 0, done.stderr
    document = json.loads(CliRunner().invoke(application, [*shown, "--json"]).stdout)
    assert document == whyword.open_run(whole)["row-1"].to_dict()
    for wrong, said in (
        (["explain", "--from", str(whole)], "without --id ID"),
        ([*shown, "a prompt"], "A prompt was given with --from"),
        ([*shown[:-1], "none"], "There is no row 'none'"),
        ([*shown, "--method", "gim"], "The run has no method 'gim'"),
    ):
        done = CliRunner().invoke(application, wrong)
        assert done.exit_code == 2
        assert said in done.stderr.replace("\n", " ")


def test_sums_over_a_corpus(whole: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    run = whyword.open_run(whole)
    found = aggregate(run).methods["flow"]
    explanations = [each for each in run if each.method == "flow"]
    scores = [score for each in explanations for word, score in each.words() if word == "cat"]
    assert found.words["cat"].count == len(scores)
    assert found.words["cat"].total == pytest.approx(sum(scores), abs=1e-5)
    assert found.positions[1].total == pytest.approx(
        sum(float(each.scores[-1]) for each in explanations), abs=1e-5
    )
    heads = sum(each.by_head.double().sum(2) for each in explanations)
    assert found.heads == pytest.approx(heads.numpy(), abs=1e-4)
    moved = sum(
        abs(route.amount)
        for each in explanations
        for route in each.routes(256)
        if (route.block, route.head) == (1, 0) and route.source != route.destination
    )
    assert found.moved[1, 0] == pytest.approx(moved)
    done = CliRunner().invoke(application, ["figures", str(whole), "--out", str(tmp_path / "figures")])
    assert done.exit_code == 0, done.stderr
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    assert {"words-flow.csv", "edges-flow.md", "overview-flow.png", "heads-logit.svg"} <= names
    for path in (tmp_path / "figures").glob("*.md"):
        _, _, *table = path.read_text(encoding="utf-8").splitlines()
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table}) == 1, table[0]
    with (tmp_path / "figures" / "words-flow.csv").open(encoding="utf-8") as file:
        rows = {row["word"]: row for row in csv.DictReader(file)}
    assert float(rows["cat"]["mean score"]) == pytest.approx(sum(scores) / len(scores), abs=1e-4)


@pytest.fixture(scope="module")
def browsed(model: whyword.Model, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A run whose rows have parts, and one that could not be explained."""
    folder = tmp_path_factory.mktemp("browsed")
    rows = [
        {
            "id": f"r{number}",
            "prompt": "{documents} the {word}",
            "parts": {"documents": ["a dog" + " the" * number, "the cat"], "word": "mat"},
            "target": "cat",
            "foil": "dog",
        }
        for number in range(7)
    ]
    path = write_rows(folder / "rows.jsonl", [*rows, {"id": "bad", "prompt": "the " * 80}])
    return whyword.run(
        model, path, folder / "run", shard_rows=3, methods=["flow", "logit"], start="tokenizer"
    )


def test_rows_in_an_order(browsed: Any) -> None:
    from starlette.testclient import TestClient

    from whyword.serve.access import LOCAL
    from whyword.serve.run_routes import make_run_application

    client = TestClient(make_run_application(browsed, LOCAL), base_url="http://127.0.0.1")
    about = client.get("/api/run").json()
    assert (about["finished"], about["failed"], about["names"]) == (8, 1, ["flow", "logit"])
    assert {"documents[0]", "documents[1]", "word"} <= {*about["parts"]}
    flow = {each.id: each for each in browsed if each.method == "flow"}
    rows = client.get("/api/rows", params={"sort": "difference", "descending": True}).json()["rows"]
    differences = [row["difference"] for row in rows[:-1]]
    assert differences == sorted((each.ledger.logit for each in flow.values()), reverse=True)
    assert rows[-1]["error"]
    shares = {}
    for name, each in flow.items():
        parts = each.by("part")
        shares[name] = parts["documents[0]"] / sum(map(abs, parts.scores))
    rows = client.get("/api/rows", params={"sort": "documents[0]", "offset": 2, "count": 3}).json()["rows"]
    assert [row["id"] for row in rows] == sorted(shares, key=lambda name: shares[name])[2:5]
    document = client.get("/api/row", params={"id": "r3", "method": "logit"}).json()
    assert document == json.loads(json.dumps(browsed["r3", "logit"].to_dict()))
    for address, said in (
        ("/api/row?id=none", "There is no row 'none'"),
        ("/api/row?id=bad", "could not be explained"),
        ("/api/rows?sort=colour", "Rows cannot be sorted by 'colour'"),
        ("/api/rows?method=gim", "The run has no method 'gim'"),
    ):
        answer = client.get(address)
        assert answer.status_code == 422
        assert said in answer.json()["error"]["wrong"]
    assert client.get("/api/run", headers={"host": "evil.example"}).status_code == 403


@pytest.fixture
def opened_page(browsed: Any, browser: Any) -> Any:
    """The page over a run in a browser. What its scripts throw fails the test."""
    import socket
    import threading

    from whyword.serve.access import LOCAL
    from whyword.serve.run_routes import make_run_server

    opened = socket.socket()
    opened.bind(("127.0.0.1", 0))
    ready = threading.Event()
    server = make_run_server(browsed, LOCAL, ready.set)
    thread = threading.Thread(target=lambda: server.run(sockets=[opened]), daemon=True)
    thread.start()
    assert ready.wait(30)
    page = browser.new_page()
    failures: list[str] = []
    page.on("pageerror", lambda error: failures.append(str(error)))
    page.goto(f"http://127.0.0.1:{opened.getsockname()[1]}/")
    page.wait_for_selector("#rows tr")
    yield page
    page.close()
    server.should_exit = True
    thread.join(10)
    assert not failures


def test_the_page_over_a_run(opened_page: Any) -> None:
    opened_page.select_option("#sort", "documents[0]")
    opened_page.check("#descending")
    opened_page.wait_for_selector("#share-heading:has-text('documents[0]')")
    opened_page.click("#rows tr:first-child td.prompt-text")
    opened_page.wait_for_selector("#explanation article h1")
    assert "cat" in opened_page.inner_text("#explanation h1")
    assert "id=" in opened_page.evaluate("location.hash")


def test_rows_asked_for_earlier_never_replace_later_ones(opened_page: Any) -> None:
    held: list[Any] = []

    def hold(route: Any) -> None:
        if "descending=false" in route.request.url:
            held.append(route)
        else:
            route.continue_()

    opened_page.route("**/api/rows*", hold)
    opened_page.select_option("#sort", "row")
    opened_page.check("#descending")
    opened_page.wait_for_url("**descending=true**")
    last = opened_page.locator("#rows tr").first.get_attribute("data-id")
    (earlier,) = held
    with opened_page.expect_response("**/api/rows*descending=false*") as answered:
        earlier.continue_()
    answered.value.finished()
    opened_page.wait_for_timeout(200)
    assert opened_page.locator("#rows tr").first.get_attribute("data-id") == last
    assert "descending=true" in opened_page.evaluate("location.hash")
