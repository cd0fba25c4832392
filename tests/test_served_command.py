"""`whyword explain --server`: the same answer from a running server, without importing what runs models."""

import http.server
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

pytest.importorskip("fastapi", reason="FastAPI is not installed")

from whyword.cli.application import application
from whyword.serve.announcement import announce, list_announcements
from whyword.serve.connection import reach_server

import toy_tokenizers
from families import build

PROMPT = "A report about the Impressionists"
TURNS = [{"role": "user", "content": "the painter"}, {"role": "assistant", "content": "A report"}]
CHAT = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Two tiny models with a chat template."""
    paths = [tmp_path_factory.mktemp("models") / name for name in ("one", "two")]
    tokenizer = toy_tokenizers.make("byte-level")
    tokenizer.chat_template = CHAT
    for path, kind in zip(paths, ("llama", "gpt2"), strict=True):
        build(kind, torch.float32, vocab_size=len(tokenizer)).save_pretrained(path)
        tokenizer.save_pretrained(path)
    return [str(path) for path in paths]


@pytest.fixture(scope="module")
def server(folders: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real server process of both; gives its cache."""
    cache = str(tmp_path_factory.mktemp("cache"))
    command = [sys.executable, "-m", "whyword", "serve", "--port", "0"]
    command += [word for folder in folders for word in ("-m", folder)]
    environment = {**os.environ, "WHYWORD_CACHE": cache}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        told = process.stderr.readline()
        assert told.startswith("one, two: open http://127.0.0.1:"), told
        assert process.stderr.readline() == "`whyword explain … --server` asks it from another terminal.\n"
        yield cache
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert not list(Path(cache, "servers").iterdir()), "a server that was stopped is still announced"


@pytest.fixture(autouse=True)
def own_cache(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHYWORD_CACHE", server)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with documents and turns, where commands are run."""
    (tmp_path / "a.txt").write_text("the painter has seen a report. they have not.")
    (tmp_path / "b.txt").write_text("A report about what they have seen.")
    (tmp_path / "turns.json").write_text(json.dumps(TURNS))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str, code: int = 0) -> tuple[str, str]:
    result = CliRunner().invoke(application, ["explain", *arguments])
    assert result.exit_code == code, result.output + repr(result.exception)
    return result.stdout, result.stderr


def refused(*arguments: str) -> tuple[str, str]:
    shown, said = run(*arguments, code=2)
    assert shown == ""
    *_, wrong, remedy = said.strip().split("\n")
    assert wrong.startswith("error: ")
    return wrong.removeprefix("error: "), remedy


DOCUMENTS = ["--documents", "a.txt", "b.txt", "--question", "what have they seen?"]
QUESTIONS: dict[str, list[str]] = {
    "the model's own choices": [PROMPT],
    "words": [PROMPT, "-t", "has", "-f", "have"],
    "several foils": [PROMPT, "-t", "has", "-f", "have", "-f", "seen"],
    "runner-up": [PROMPT, "-f", "runner-up"],
    "no foil": [PROMPT, "-t", "has", "--no-foil"],
    "several methods": [PROMPT, "--method", "logit", "--method", "alti-logit", "--by", "block"],
    "by head": [PROMPT, "--method", "logit", "--by", "head", "--top", "2"],
    "depth": [PROMPT, "--depth", "1", "--by", "depth"],
    "routes": [PROMPT, "--routes", "3"],
    "by token": [PROMPT, "--by", "token", "--top", "2"],
    "sentences": ["the painter. A report", "--by", "sentence"],
    "erased sentences": ["the painter. A report", "--by", "sentence", "--method", "erasure"],
    "account": [PROMPT, "--account"],
    "token ids": ["5 6 7", "--ids", "-t", "8", "-f", "9"],
    "a turn": [PROMPT, "--chat"],
    "turns": ["turns.json", "--chat", "--by", "turn"],
    "turns answered": ["turns.json", "--chat", "--answer", "the painter. A report."],
    "continuation": [PROMPT, "--continue", "3"],
    "answer": [PROMPT, "--answer", "has seen", "--by", "token"],
    "answer of ids": ["5 6 7", "--ids", "--answer", "8 9"],
    "answer by sentence": [PROMPT, "--answer", "the painter. A report.", "--by", "sentence", "-f", "auto"],
    "documents": [*DOCUMENTS, "-t", "has", "-f", "have"],
    "documents answered": [*DOCUMENTS, "--answer", "A report. the painter."],
    "documents in a template": ["{documents}\n{question} A", *DOCUMENTS, "-t", "has"],
    "documents in a turn": ["{documents}\n{question}", *DOCUMENTS, "--chat", "-t", "has"],
    "another prompt": [PROMPT, "--versus", "A painter about the Impressionists"],
    "another turn": [PROMPT, "--versus", "the painter", "--chat", "-f", "runner-up"],
}


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
@pytest.mark.usefixtures("files")
def test_the_answer_is_the_same(question: list[str], folders: list[str]) -> None:
    here, _ = run(*question, "-m", folders[0], "-o", "here.json")
    there, said = run(*question, "--server", "-o", "there.json")  # the first model of the server
    assert "Asking the running server http://127.0.0.1:" in said
    assert there == here
    for made in Path.cwd().glob("here*.json"):
        assert json.loads(Path(made.name.replace("here", "there")).read_text()) == json.loads(
            made.read_text()
        )


@pytest.mark.usefixtures("files")
def test_two_models(folders: list[str]) -> None:
    both = [PROMPT, "-t", "has", "-f", "have", *(word for folder in folders for word in ("-m", folder))]
    for question in ([*both, "--json"], [*both, "--json", "--difference"]):
        assert run(*question, "--server")[0] == run(*question)[0]


@pytest.mark.parametrize("ending", ["json", "html", "csv", "tex", "svg"])
def test_files_are_the_same(ending: str, folders: list[str], files: Path) -> None:
    made = []
    for extra in ([], ["--server"]):
        run(PROMPT, "-m", folders[0], "-o", f"made.{ending}", *extra)
        made.append((files / f"made.{ending}").read_text())
    if ending == "svg":  # its ids and date are new each time
        made = [str(text.count("<path")) for text in made]
    assert made[0] == made[1]


def test_what_runs_models_is_not_imported(tmp_path: Path) -> None:
    words = ["whyword", "explain", "--server", PROMPT, "--routes", "3", "-o", str(tmp_path / "made.html")]
    program = (
        f"import sys\nfrom whyword.cli import main\nsys.argv = {words!r}\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        "heavy = {'torch', 'transformers', 'numpy', 'tokenizers', 'fastapi'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "heuristic: takes attention as given" in done.stdout
    assert (tmp_path / "made.html").is_file()


@pytest.mark.parametrize(
    ("option", "value"),
    [("--dtype", "float64"), ("--allow", "pickle"), ("--start", "none"), ("--max-memory", "2GB")],
)
def test_options_of_the_server_are_refused_by_name(option: str, value: str) -> None:
    wrong, remedy = refused(PROMPT, "--server", option, value)
    assert wrong == f"{option} was given with --server, whose models are loaded already."
    assert option == "--max-memory" or f"whyword serve {option} {value}" in remedy


def test_refusals_of_the_server_are_told_as_they_are() -> None:
    wrong, remedy = refused("the painter has " * 2000, "--server")
    assert wrong.endswith("but this server accepts at most 1,024.") or "has positions for" in wrong
    assert remedy
    wrong, remedy = refused(PROMPT, "--server", "--continue", "101")
    assert wrong == "The continuation has 101 tokens."
    wrong, remedy = refused(PROMPT, "--server", "--depth", "99")
    assert "99" in wrong


def test_a_server_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folders: list[str]
) -> None:
    address = list_announcements()[0].address
    assert refused(PROMPT, "--server", address, "-m", "other") == (
        "The server has no model 'other'.",
        "Models: one, two.",
    )
    wrong, remedy = refused(PROMPT, "--server", "-m", "other")
    assert wrong == "No running `whyword serve` has other; there is one, two."
    assert "whyword serve -m other" in remedy
    wrong, _ = refused(PROMPT, "--server", "http://127.0.0.1:1")
    assert wrong.startswith("http://127.0.0.1:1 does not answer: ")
    wrong, _ = refused(PROMPT, "--server", "http://")
    assert wrong == "'http://' is not the address of a server."
    monkeypatch.setenv("WHYWORD_CACHE", str(tmp_path))
    assert refused("--server", PROMPT) == (
        "No `whyword serve` of yours is running.",
        "Start one in another terminal (whyword serve), or leave --server out.",
    )
    (tmp_path / "servers").mkdir()
    left = {"address": address, "models": ["one"], "process": 2**22 + 1}  # of a process that was killed
    (tmp_path / "servers" / "1.json").write_text(json.dumps(left))
    (tmp_path / "servers" / "2.json").write_text("{")
    assert list_announcements() == []
    with announce(address, ["one", "two"]):
        (known,) = list_announcements()
        assert (known.address, known.models, known.process) == (address, ["one", "two"], os.getpid())
        assert run(PROMPT, "--server", "-m", folders[0], "--json")[0]
    assert list_announcements() == []


class _Stranger(http.server.BaseHTTPRequestHandler):
    """Answers what it is told to, and remembers who asked."""

    answer: bytes = b"hello"
    seen: dict[str, str] = {}  # noqa: RUF012

    def do_GET(self) -> None:
        type(self).seen = dict(self.headers)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.answer)

    def log_message(self, *_: Any) -> None:
        pass


def test_what_answers_may_be_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    stranger = http.server.HTTPServer(("127.0.0.1", 0), _Stranger)
    thread = threading.Thread(target=stranger.serve_forever)
    thread.start()
    place = f"127.0.0.1:{stranger.server_port}"
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")  # is not asked
    try:
        wrong, _ = refused(PROMPT, "--server", f"http://me:secret@{place}/lab")
        assert wrong == f"What answers at http://{place}/lab is not `whyword serve`."
        assert _Stranger.seen["Authorization"] == "Basic bWU6c2VjcmV0"
        monkeypatch.setattr(
            _Stranger, "answer", json.dumps({"version": "0.0.1", "models": [{"name": "one"}]}).encode()
        )
        assert reach_server(f"http://{place}").models == ["one"]
        wrong, remedy = refused(PROMPT, "--server", f"http://{place}")
        assert wrong.startswith(f"http://{place} is whyword 0.0.1, and this command ")
        assert remedy == "Start the server again, or leave --server out."
    finally:
        stranger.shutdown()
        thread.join()
        stranger.server_close()
