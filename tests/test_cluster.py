"""Runs on a real Ray of two nodes, with kills and bad rows: the same bytes as in one process."""

import logging
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from typer.testing import CliRunner

import toy_translators
import whyword
from whyword.attribute import plan_methods
from whyword.cli import application
from whyword.corpus.run_journal import read_shard_lines
from whyword.runs.progress import listen
from whyword.runs.streaming_threads import ending_threads
from whyword.trace.memory_plan import Request, estimate

import toy_tokenizers
from families import build
from run_folders import PROMPTS, read_shards, write_rows

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="processes are killed by signals"),
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed (the extra `cluster`)"),
]

ROWS: list[dict[str, Any]] = [
    {"id": f"row-{number}", "prompt": PROMPTS[number % 4] + " the" * (number % 5)} for number in range(48)
]
ROWS[9]["prompt"] = "the " * 80  # longer than the model has positions for
ROWS[30]["target"] = " "  # no token
SHARD = 4
NOWHERE = partial(os.listdir, "nowhere-at-all")
"""What no worker can begin with."""
OPTIONS: dict[str, Any] = {
    "methods": ["flow", "logit"],
    "shard_rows": SHARD,
    "start": "tokenizer",
    "batch_size": 4,
}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_rows(tmp_path_factory.mktemp("rows") / "rows.jsonl", ROWS)


@pytest.fixture(scope="module")
def room(tiny_folder: Path) -> int:
    """Memory that two prompts of a shard take, and four do not."""
    model = whyword.load(str(tiny_folder), start="tokenizer")
    longest = max(len(whyword.tokenize(model, row["prompt"])) for row in ROWS if len(row["prompt"]) < 99)
    smallest = replace(plan_methods(model, ["flow"]), recomputed_blocks=len(model.blocks))
    return estimate(model, Request(2, longest), smallest)


@pytest.fixture(scope="module")
def whole(
    tiny_folder: Path, source: Path, room: int, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, bytes]:
    """The shards of an uninterrupted run in this process."""
    out = tmp_path_factory.mktemp("local") / "run"
    whyword.run(str(tiny_folder), source, out, max_memory=room, **OPTIONS)
    return read_shards(out)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes with one processor each; this process is connected to the first, once for all tests."""
    here = str(Path(whyword.__file__).parents[1])
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("RAY_worker_niceness", "0")
        patched.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patched.setenv("PYTHONPATH", os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH")))))
        import ray
        from ray.cluster_utils import Cluster

        before = {*threading.enumerate()}
        made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        made.add_node(num_cpus=1)
        ray.init(address=made.address, log_to_driver=False, logging_level=logging.ERROR)
        try:
            with ending_threads():
                yield made
        finally:
            ray.shutdown()
            made.shutdown()
        begun = {*threading.enumerate()} - before
        left = [
            each.name for each in begun if not type(each).__module__.startswith("tqdm")
        ]  # of loaded models
        assert not left, "what runs beside the tests that follow in this process"


def after(rows: int, act: Callable[[], None]) -> Callable[[str, int, int | None], None]:
    """Do something once, when so many rows are finished."""
    acted: list[bool] = []

    def hear(what: str, done: int, total: int | None) -> None:
        if what == "rows" and rows <= done < (total or 0) and not acted:
            acted.append(True)
            act()

    return hear


def kill_worker() -> None:
    """Kill a process in which an actor explains rows."""
    for process in psutil.process_iter(["name", "cmdline"]):
        if any("MapWorker" in word for word in (process.info["name"], *(process.info["cmdline"] or ()))):
            os.kill(process.pid, signal.SIGKILL)
            return
    raise AssertionError("no worker was found")


def test_a_killed_worker_is_replaced(
    cluster: Any, tiny_folder: Path, source: Path, room: int, whole: dict[str, bytes], tmp_path: Path
) -> None:
    """The only one: no other could take its pieces."""
    with listen(after(8, kill_worker)):
        run = whyword.run(
            str(tiny_folder),
            source,
            tmp_path / "out",
            engine="ray",
            workers=1,
            address=cluster.address,
            max_memory=room,
            **OPTIONS,
        )
    assert run.finished
    assert read_shards(tmp_path / "out") == whole
    assert {name for name, _ in run.failures()} == {"row-9", "row-30"}


def test_a_killed_driver_and_a_dead_node(
    cluster: Any,
    tiny_folder: Path,
    source: Path,
    room: int,
    whole: dict[str, bytes],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-m", "whyword", "run", str(source), "--out", str(out), "-m", str(tiny_folder)]
    command += [
        "--methods",
        "flow,logit",
        "--shard-rows",
        str(SHARD),
        "--start",
        "tokenizer",
        "--batch-size",
        "4",
    ]
    command += ["--max-memory", str(room), "--engine", "ray", "--workers", "1", "--address", cluster.address]
    with (tmp_path / "said").open("w") as said:
        running = subprocess.Popen(command, stdout=said, stderr=said)
    until = time.monotonic() + 600  # a busy machine takes minutes to start all of it
    while time.monotonic() < until and not read_shard_lines(out) and running.poll() is None:
        time.sleep(0.01)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    finished = len(read_shard_lines(out))
    assert 1 <= finished < len(whole), (tmp_path / "said").read_text()
    (node,) = cluster.worker_nodes
    dead = after(SHARD * (finished + 2), lambda: cluster.remove_node(node, allow_graceful=False))
    with listen(dead):
        run = whyword.run(
            str(tiny_folder),
            source,
            out,
            engine="ray",
            workers=2,
            address=cluster.address,
            max_memory=room,
            **OPTIONS,
        )
    assert len(cluster.worker_nodes) == 0
    assert run.finished
    assert read_shards(out) == whole
    assert [record["id"] for record in run.records(["id", "method"])] == [
        row["id"] for row in ROWS for _ in range(1 if row["id"] in ("row-9", "row-30") else 2)
    ]
    assert "Out of memory with" in caplog.text
    assert "taking 2 at a time" in caplog.text


def test_an_interrupted_run_leaves_no_process(tiny_folder: Path, source: Path, tmp_path: Path) -> None:
    """Ctrl-C reaches every process of the terminal: the command, and the Ray that it has started."""
    out = tmp_path / "out"
    command = [sys.executable, "-m", "whyword", "run", str(source), "--out", str(out), "-m", str(tiny_folder)]
    command += ["--shard-rows", "1", "--start", "tokenizer", "--engine", "ray", "--workers", "1"]
    with (tmp_path / "said").open("w") as said:
        heeded = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # shells let background jobs ignore it
        running = subprocess.Popen(
            command, stdout=said, stderr=said, start_new_session=True, preexec_fn=heeded
        )
    until = time.monotonic() + 240
    while time.monotonic() < until and not read_shard_lines(out) and running.poll() is None:
        time.sleep(0.01)
    started = psutil.Process(running.pid).children(recursive=True)
    assert "raylet" in [each.name() for each in started]
    os.killpg(running.pid, signal.SIGINT)
    assert running.wait(60) == 130
    assert not psutil.wait_procs(started, timeout=30)[1]
    finished = len(read_shard_lines(out))
    assert 1 <= finished < len(ROWS)
    again = f"keeps {finished} rows. Go on with: whyword run {source} --out {out}"
    assert again in (tmp_path / "said").read_text()


def test_a_cluster_without_room_for_a_worker(caplog: pytest.LogCaptureFixture) -> None:
    from whyword.runs.ray_cluster import _warn_of_room

    nodes = [
        {"Alive": True, "Resources": {"CPU": 4.0}},
        {"Alive": False, "Resources": {"CPU": 4.0, "GPU": 1.0}},
        {"Alive": True, "Resources": {"CPU": 1.0, "fast disk": 1.0}},
    ]
    _warn_of_room(nodes, {"num_cpus": 4.0})
    _warn_of_room(nodes, {"num_cpus": 1.0, "resources": {"fast disk": 1.0}})
    assert not caplog.text
    _warn_of_room(nodes, {"num_cpus": 1.0, "num_gpus": 1.0})
    assert "No node of the cluster has 1 CPU, 1 GPU: workers wait until one has." in caplog.text


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--address", "127.0.0.1:1"], "There is no Ray cluster at 127.0.0.1:1: Connection refused"),
        (["--address", "nowhere"], "There is no Ray cluster at nowhere: it is not HOST:PORT"),
        (["--resources", "num_gpus"], "--resources is 'num_gpus'"),
    ],
)
def test_a_cluster_that_cannot_be_reached(
    options: list[str], said: str, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    command = ["run", str(source), "--out", str(tmp_path / "out"), "--engine", "ray", *options]
    done = CliRunner().invoke(application, command)
    assert done.exit_code == 2
    assert said in done.stderr.replace("\n", " ")
    assert len(done.stderr.strip().splitlines()) == 2


def test_a_cluster_that_wants_a_token() -> None:
    """As Ray says it from 2.59 on, where a node or a driver has no token, or another."""
    from whyword.runs.remote_errors import explain_connection

    refused = ConnectionError("Failed to connect to Ray cluster at first:6379")
    refused.__cause__ = RuntimeError(
        "Failed to connect to GCS. … Authentication token is missing or incorrect."
    )
    found = explain_connection(refused, "first:6379")
    assert found.wrong == "The Ray cluster at first:6379 wants a token that it is not given."
    assert "RAY_AUTH_MODE=token" in found.remedy
    absent = explain_connection(ConnectionError("Failed to connect"), "first:6379")
    assert absent.wrong == "There is no Ray cluster at first:6379: Failed to connect."


def test_a_model_that_workers_cannot_find(cluster: Any, source: Path, tmp_path: Path) -> None:
    with pytest.raises(whyword.ModelError, match="nowhere-at-all") as caught:
        whyword.run(
            "./nowhere-at-all", source, tmp_path / "out", engine="ray", address=cluster.address, **OPTIONS
        )
    assert caught.value.remedy
    assert not (tmp_path / "out" / "settings.json").exists()


def test_a_worker_that_cannot_begin(cluster: Any) -> None:
    from whyword.runs.engine import Job, Workers, choose_engine

    engine = choose_engine("ray", Workers(1, 1, cluster.address))
    with engine.working(), pytest.raises(whyword.InputError, match="A worker cannot begin: ") as caught:
        list(engine.map(Job(str, NOWHERE), range(3)))
    assert "NotADirectoryError" in caught.value.wrong or "FileNotFoundError" in caught.value.wrong
    assert "on every node" in caught.value.remedy


def test_alignments_of_files_are_the_same_on_ray(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from whyword.alignment.file_runs import align_files
    from whyword.alignment.method_choice import choose_settings
    from whyword.runs.engine import Workers

    monkeypatch.setattr("whyword.alignment.word_scores._AHEAD", 5)
    tokenizer = toy_translators.make_m2m_100(tmp_path)
    tokenizer.tgt_lang = "en"
    model = toy_translators.load_tiny(tokenizer)
    sides = tmp_path / "source", tmp_path / "target"
    sides[0].write_bytes(b"".join(b"Die Bank ist alt" + b" alt" * (each % 4) + b"\n" for each in range(38)))
    sides[1].write_bytes(b"".join(b"The bank is old" + b" old" * (each % 3) + b"\n" for each in range(37)))
    settings = choose_settings(model, "combined", None, "output")
    here = align_files([model], sides, tmp_path / "here", settings, form="jsonl", workers=Workers(threads=1))

    def die(what: str, done: int, _total: int | None) -> None:
        if what == "pairs" and done >= 10:
            raise KeyboardInterrupt

    there: dict[str, Any] = {"form": "jsonl", "engine": "ray", "workers": Workers(1, 1, cluster.address)}
    with listen(die), pytest.raises(KeyboardInterrupt):
        align_files([model], sides, tmp_path / "there", settings, **there)
    assert not (tmp_path / "there").exists()
    again = align_files([model], sides, tmp_path / "there", settings, **there)
    assert again.speed.pairs < here.speed.pairs == 37
    assert again.speed.multiple is not None
    for end in ("", ".skipped"):
        assert (tmp_path / f"here{end}").read_bytes() == (tmp_path / f"there{end}").read_bytes()
    assert again.skipped == here.skipped
    assert here.skipped.first == [(38, "only the source has this line")]


def test_evaluations_and_surveys_are_the_same_on_ray(cluster: Any, tmp_path: Path) -> None:
    """The same engine behind other runs: records and sums are equal to the last digit.

    A model that has a path is opened by the worker; one that is in memory is sent to it.
    """
    from whyword.data import read_datasets
    from whyword.evaluation import evaluate
    from whyword.inside.survey import survey
    from whyword.pipeline.model_source import find_model
    from whyword.runs.engine import Workers

    datasets = read_datasets(["builtin-aga"], "builtin")
    words = [f"{each.prefix} {each.target} {each.foil}" for dataset in datasets for each in dataset.examples]
    tokenizer = toy_tokenizers.make("byte-level", words, 600)
    network = build("gpt2", torch.float32, vocab_size=len(tokenizer), n_positions=128)
    network.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    model = whyword.load(str(tmp_path / "model"), start="tokenizer")
    there: dict[str, Any] = {"engine": "ray", "workers": Workers(1, 1, cluster.address)}
    opened = find_model(tmp_path / "model", there["workers"])
    asked: dict[str, Any] = {
        "data": "builtin",
        "methods": ["logit", "flow"],
        "limit": 12,
        "faithfulness": None,
    }
    evaluate(model, ["builtin-aga"], tmp_path / "here", **asked)
    evaluate(model, ["builtin-aga"], tmp_path / "there", **asked, **there, source=opened)
    for name in ("examples.jsonl", "table.md", "settings.json"):
        assert (tmp_path / "here" / name).read_bytes() == (tmp_path / "there" / name).read_bytes()
    here = survey(model, datasets, part="heads", limit=20)
    assert survey(model, datasets, part="heads", limit=20, **there).to_dict() == here.to_dict()


def test_workers_open_a_model_that_has_a_path(tiny_folder: Path, tmp_path: Path) -> None:
    """What is sent to them is where it is, and what it must be: not its weights."""
    from whyword.pipeline.model_source import ModelSource, choose_source, find_model
    from whyword.runs.engine import Workers, choose_engine

    model = whyword.load(str(tiny_folder), start="tokenizer")
    found = find_model(tiny_folder, Workers(1, resources={"num_gpus": 1}))
    assert (found.source, found.device) == (str(tiny_folder.resolve()), "cuda")
    there = choose_source(choose_engine("ray", 1), model, found)
    assert len(pickle.dumps(there)) < 1000
    assert (there.device, there.start, there.weights) == ("cuda", "tokenizer", ModelSource.fingerprint(model))
    assert choose_source(choose_engine("ray", 1), model, None).source is model
    assert choose_source(choose_engine("local", 1), model, found).source is model
    converted = replace(model, stored=torch.bfloat16)  # a GPU would keep the type of the checkpoint
    assert (found.expect(model).dtype, found.expect(converted).dtype) == (None, "float32")
    here = replace(there, device=None)
    assert here.open().name == model.name
    shutil.copytree(tiny_folder, tmp_path / "elsewhere")
    replace(here, source=str(tmp_path / "elsewhere")).open()  # the same files in another place
    with pytest.raises(whyword.ModelError, match="has other weights on this worker"):
        replace(here, weights="0" * 12).open()


@pytest.mark.parametrize("command", ["evaluate", "survey"])
def test_commands_say_where_their_model_is(
    command: str, tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {}

    def refuse(*_: Any, **options: Any) -> None:
        given.update(options)
        raise whyword.InputError("Seen.", "Enough.")

    place = {"evaluate": "whyword.evaluation.evaluate", "survey": "whyword.inside.survey.survey"}[command]
    monkeypatch.setattr(place, refuse)
    asked = [command, "builtin-aga", "-m", str(tiny_folder), "--out", str(tmp_path / "out")]
    asked += ["--engine", "ray", "--workers", "2", "--resources", "num_gpus=1"]
    done = CliRunner().invoke(application, asked)
    assert "Seen." in done.stderr
    assert given["workers"].count == 2
    assert (given["source"].source, given["source"].device) == (str(tiny_folder.resolve()), "cuda")


def test_threads_of_ray_data_end_before_ray_does() -> None:
    """One that is busy ends later than Ray Data waits for it, and then asks Ray: that ends the process."""
    ended = threading.Event()

    class Scheduling(threading.Thread):
        _shutdown = False

        def run(self) -> None:
            while not self._shutdown:
                time.sleep(0.01)
            ended.set()

    other = threading.Event()
    with ending_threads():
        Scheduling(name="StreamingExecutor-dataset", daemon=True).start()
        threading.Thread(target=other.wait, name="somebody's own", daemon=True).start()
    assert ended.is_set()
    other.set()
