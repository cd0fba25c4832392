"""The server of the page: its answers, whom it lets in, what it refuses, and how it bears up."""

import json
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

pytest.importorskip("fastapi", reason="FastAPI is not installed")

import httpx

import toy_translators
import whyword
from whyword.cli.application import application
from whyword.results.account import describe_fully
from whyword.serve.access import LOCAL, Limits
from whyword.serve.hosting import is_loopback, make_access, make_server, open_socket
from whyword.serve.requests import Translating

from serving import make_toy, serving

PROMPT = "A report about the Impressionists"
LONG = "the painter has seen what they have not and " * 200
LINES = {"Accept": "application/x-ndjson"}
LIMITS = Limits(tokens=3000, waiting=8, numbers=1_000_000)


@pytest.fixture(scope="module")
def toy() -> whyword.Model:
    return make_toy()


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> whyword.Model:
    return toy_translators.load_tiny(toy_translators.make_m2m_100(tmp_path_factory.mktemp("m2m")))


@pytest.fixture(scope="module")
def address(toy: whyword.Model, translator: whyword.Model) -> Iterator[str]:
    with serving([toy, make_toy("other", blocks=3), translator], replace(LOCAL, limits=LIMITS)) as found:
        yield found


@pytest.fixture
def client(address: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=address, timeout=60, trust_env=False) as opened:
        yield opened


def error_of(answer: httpx.Response) -> str:
    """Read the two lines of an error; there is nothing else in it."""
    (record,) = answer.json().values()
    assert list(record) == ["wrong", "remedy"]
    assert "Traceback" not in answer.text
    return f"{record['wrong']}\n{record['remedy']}"


def plain(document: Any) -> Any:
    """Give a document as it comes out of JSON."""
    return json.loads(json.dumps(document))


# ---------------------------------------------------------------- answers


def test_models_methods_and_limits(client: httpx.Client, toy: whyword.Model) -> None:
    about = client.get("/api/models").json()
    assert about["version"] == whyword.__version__
    assert [each["name"] for each in about["models"]][:2] == ["toy", "other"]
    assert [each["translates"] for each in about["models"]] == [False, False, True]
    assert about["models"][0]["chat"]
    assert about["models"][0]["blocks"] == len(toy.blocks)
    assert "en" in about["models"][2]["target_languages"]
    assert about["methods"][0]["name"] == about["compared"][0] == "flow"
    assert about["limits"]["tokens"] == 3000


@pytest.mark.parametrize(
    ("route", "more"),
    [
        ("explain", {"target": "has", "foil": "have", "method": "logit"}),
        ("explain", {"target": "has", "foil": ["have", 17], "method": "alti-logit", "account": True}),
        ("explain", {"foil": None}),
        ("compare", {"target": "has", "methods": ["logit", "erasure", "gradient-norm"]}),
        ("neurons", {"target": "has", "foil": "have", "top": 3}),
        ("continue", {"new_tokens": 4}),
        ("continue", {"continuation": " has been", "foil": "auto"}),
        ("predict", {"top": 5}),
    ],
)
def test_answers_are_the_documents_of_the_library(
    client: httpx.Client, toy: whyword.Model, route: str, more: dict[str, Any]
) -> None:
    answer = client.post(f"/api/{route}", json={"prompt": PROMPT, **more})
    assert answer.status_code == 200, answer.text
    assert answer.json() == plain(answer_directly(toy, route, more))


def answer_directly(model: whyword.Model, route: str, more: dict[str, Any]) -> dict[str, Any]:
    if route == "predict":
        return whyword.predict(model, PROMPT, **more).to_dict()
    if route == "continue":
        return whyword.explain_continuation(model, PROMPT, **more).to_dict()
    full = more.get("account", False)
    asked = {"foil": "auto", **{name: value for name, value in more.items() if name != "account"}}
    call = {"explain": whyword.explain, "compare": whyword.compare, "neurons": whyword.neurons}[route]
    found = call(model, PROMPT, **asked)
    return describe_fully(found) if full else found.to_dict()


def test_chat_turns_and_other_models(client: httpx.Client) -> None:
    turns = [{"role": "user", "content": "has she?"}]
    answer = client.post("/api/explain", json={"prompt": turns, "model": "other"}).json()
    assert answer["model"] == "other"
    assert "<|turn|>" in [token["text"] for token in answer["tokens"]]


def test_translations(client: httpx.Client, translator: whyword.Model) -> None:
    question = {"source": "the cat", "translation": "a dog", "source_language": "en", "target_language": "fr"}
    answer = client.post("/api/translate", json={"model": translator.name, **question})
    expected = whyword.explain_translation(
        translator, "the cat", "a dog", source_language="en", target_language="fr"
    )
    assert answer.json() == plain(expected.to_dict())
    own = client.post(
        "/api/translate", json={"model": translator.name, "source": "the cat", "target_language": "fr"}
    )
    assert own.json()["schema"] == "whyword.translation/1"
    asked, few = Translating(source="the cat", target_language="fr"), Limits(tokens=9)
    assert len(own.json()["target"]["tokens"]) > few.tokens  # the model's own may be longer than its source
    with pytest.raises(whyword.InputError, match=r"The translation has \d+ tokens, but this server accepts"):
        asked.answer(translator, few)


def test_alignments(client: httpx.Client, translator: whyword.Model) -> None:
    question = {"source": "the cat", "translation": "a dog", "source_language": "en", "target_language": "fr"}
    answer = client.post("/api/align", json={"model": translator.name, "recall": 0.9, **question})
    expected = whyword.align(
        translator, "the cat", "a dog", recall=0.9, source_language="en", target_language="fr"
    )
    assert answer.json() == json.loads(json.dumps(expected.to_dict()))
    asked = {"model": translator.name, "source": "the cat", "target_language": "fr"}
    own = client.post("/api/align", json=asked).json()  # its own translation
    assert own["schema"] == "whyword.alignment/1"
    assert own["target"]
    for wrong, expected_code in (({"recall": 2}, 422), ({"words": "letters"}, 422), ({"model": "toy"}, 422)):
        refused = client.post("/api/align", json={"model": translator.name, **question, **wrong})
        assert refused.status_code == expected_code
        assert refused.json()["error"]["remedy"]


def test_lines_of_progress_and_then_the_document(client: httpx.Client, toy: whyword.Model) -> None:
    question = {"prompt": LONG[:1000], "target": "has", "foil": "have", "methods": ["logit", "erasure"]}
    with client.stream("POST", "/api/compare", json=question, headers=LINES) as answer:
        assert answer.headers["content-type"] == "application/x-ndjson"
        *progress, last = [json.loads(line) for line in answer.iter_lines()]
    assert {next(iter(line)) for line in progress} == {"progress"}
    assert {line["progress"]["what"] for line in progress} >= {"erased inputs"}
    assert last["document"]["schema"] == "whyword.comparison/1"


def test_generated_tokens_are_reported(toy: whyword.Model) -> None:
    from whyword.runs.progress import listen

    heard: list[tuple[str, int, int | None]] = []
    with listen(lambda *event: heard.append(event)):
        whyword.explain_continuation(toy, PROMPT, new_tokens=3)
    assert [event for event in heard if event[0] == "tokens"] == [("tokens", n, 3) for n in (1, 2, 3)]


def test_the_description_names_every_route(client: httpx.Client) -> None:
    description = client.get("/api/openapi.json").json()
    assert sorted(description["paths"]) == [
        f"/api/{name}"
        for name in (
            *("align", "compare", "continue", "difference", "explain"),
            *("models", "neurons", "predict", "support", "translate"),
        )
    ]


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("route", "body", "message"),
    [
        ("explain", {}, "prompt: Field required."),
        ("explain", {"prompt": ""}, "prompt"),
        (
            "explain",
            {"prompt": PROMPT, "model": "../../etc/passwd"},
            "There is no model '../../etc/passwd' here.",
        ),
        ("explain", {"prompt": PROMPT, "method": "magic"}, "magic"),
        ("explain", {"prompt": PROMPT, "target": 10**9}, "There is no token 1000000000"),
        ("explain", {"prompt": PROMPT, "target": -1}, "target"),
        ("explain", {"prompt": PROMPT, "pickle": "x"}, "pickle: Extra inputs are not permitted."),
        ("explain", {"prompt": "\ud800"}, "prompt"),
        ("explain", {"prompt": [{"role": "user"}]}, "prompt.0.content: Field required."),
        ("explain", {"prompt": LONG * 2}, "but this server accepts at most 3,000.\nShorten it"),
        (
            "continue",
            {"prompt": PROMPT, "new_tokens": 101},
            "The continuation has 101 tokens.\nThis server",
        ),
        ("continue", {"prompt": PROMPT, "continuation": LONG * 2}, "prompt with its continuation has"),
        ("continue", {"prompt": PROMPT, "continuation": LONG}, "at most 100 new tokens at once."),
        ("continue", {"prompt": LONG, "new_tokens": 100}, "1,521,600 numbers by head and token."),
        ("explain", {"prompt": PROMPT, "foil": []}, "foil: List should have at least 1 item"),
        ("explain", {"prompt": PROMPT, "foil": ["has"] * 33}, "foil: List should have at most 32 items"),
        ("explain", {"prompt": PROMPT, "target": "x" * 201}, "target: String should have at most 200"),
        (
            "explain",
            {"prompt": (LONG * 2)[:14_550], "target": " has" * 40 + " a", "foil": " has" * 40 + " b"},
            "begin",
        ),
        ("translate", {"source": "x"}, "toy"),
        ("predict", {"prompt": PROMPT, "top": 0}, "top"),
        ("predict", {"prompt": PROMPT, "top": "many"}, "top"),
    ],
)
def test_wrong_questions(client: httpx.Client, route: str, body: dict[str, Any], message: str) -> None:
    answer = client.post(
        f"/api/{route}", content=json.dumps(body), headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 422
    assert message in error_of(answer)
    assert next(iter(client.post("/api/predict", json={"prompt": PROMPT}).json())) == "schema"


def test_errors_in_lines(client: httpx.Client) -> None:
    answer = client.post("/api/explain", json={"prompt": PROMPT, "target": 10**9}, headers=LINES)
    last = json.loads(answer.text.splitlines()[-1])
    assert last["error"]["status"] == 422
    assert "There is no token" in last["error"]["wrong"]


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '"x"', "\x00", '{"prompt": NaN}'])
def test_what_is_not_a_question(client: httpx.Client, content: str) -> None:
    answer = client.post("/api/predict", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422
    error_of(answer)


def test_unknown_routes_and_verbs(client: httpx.Client) -> None:
    for path in ("/nothing", "/assets/nothing.js", "/assets/..%2F..%2F__init__.py", "/docs"):
        assert client.get(path).status_code == 404
        error_of(client.get(path))
    assert client.get("/api/explain").status_code == 405


def test_a_large_body_is_refused_declared_or_not(client: httpx.Client) -> None:
    large = json.dumps({"prompt": "x" * LIMITS.body}).encode()
    headers = {"Content-Type": "application/json"}
    for content in (large, iter([large[:1000], large[1000:]])):
        answer = client.post("/api/predict", content=content, headers=headers)
        assert answer.status_code == 413
        assert "larger than 262,144 bytes" in error_of(answer)


def test_a_failure_tells_nothing(monkeypatch: pytest.MonkeyPatch, client: httpx.Client) -> None:
    from whyword.serve import requests as questions

    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(questions, "predict", fail)
    answer = client.post("/api/predict", json={"prompt": PROMPT})
    assert answer.status_code == 500
    assert error_of(answer) == "The server failed.\nIts log says why."
    lines = client.post("/api/predict", json={"prompt": PROMPT}, headers=LINES).text
    assert "secret" not in lines
    assert json.loads(lines.splitlines()[-1])["error"]["status"] == 500


# ---------------------------------------------------------------- who may ask


@pytest.mark.parametrize(
    "name",
    [
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "",
        "[",
        "a@localhost",
        "localhost/a",
        "localhost:x",
    ],
)
def test_a_foreign_name_is_refused(client: httpx.Client, name: str) -> None:
    """So that no other site can make its own name resolve to this machine and read what is here."""
    for answer in (
        client.get("/", headers={"Host": name}),
        client.post("/api/predict", json={"prompt": PROMPT}, headers={"Host": name}),
    ):
        assert answer.status_code == 403
        assert "is not a name of this server" in error_of(answer)


@pytest.mark.parametrize("name", ["localhost", "LOCALHOST:1234", "127.0.0.1", "[::1]:8000"])
def test_own_names(client: httpx.Client, name: str) -> None:
    assert client.get("/api/models", headers={"Host": name}).status_code == 200


def test_other_sites_cannot_post(client: httpx.Client, address: str) -> None:
    question = {"prompt": PROMPT}
    own = client.post("/api/predict", json=question, headers={"Origin": address})
    assert own.status_code == 200
    for headers in (
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "http://["},
        {"Origin": f"{address}/evil"},
        {"Origin": address.removeprefix("http:")},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ):
        answer = client.post("/api/predict", json=question, headers=headers)
        assert answer.status_code == 403, headers
        assert "another site" in error_of(answer)
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        answer = client.post("/api/predict", content=json.dumps(question), headers={"Content-Type": kind})
        assert answer.status_code == 415
    assert "access-control-allow-origin" not in client.options("/api/predict").headers


def test_every_answer_has_the_policy(client: httpx.Client) -> None:
    for path in ("/", "/api/models", "/assets/report.js", "/nothing"):
        headers = client.get(path).headers
        assert "default-src 'none'; script-src 'self'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert "server" not in headers


def test_names_of_a_server_that_others_reach() -> None:
    assert is_loopback("127.0.0.1")
    assert is_loopback("::1")
    assert is_loopback("localhost")
    assert not is_loopback("0.0.0.0")
    access = make_access("0.0.0.0", ["Lab.example"])
    assert access.any_address
    assert {"lab.example", "localhost", socket.gethostname().lower()} <= set(access.names)
    assert not make_access("127.0.0.1").any_address
    assert "127.0.0.2" in make_access("127.0.0.2").names
    odd = make_access("127.0.0.1", ["Lab.Example:8443", "[fe80::1]:80", "büro.example"]).names
    assert {"lab.example", "fe80::1", "xn--bro-hoa.example"} <= set(odd)
    with pytest.raises(whyword.InputError, match="is not a host name"):
        make_access("127.0.0.1", ["http://lab.example/"])


def test_a_server_that_others_reach_goes_by_addresses_and_given_names(toy: whyword.Model) -> None:
    with (
        serving([toy], make_access("0.0.0.0", ["lab.example"])) as address,
        httpx.Client(base_url=address, trust_env=False) as client,
    ):
        statuses = {
            name: client.get("/api/models", headers={"Host": name}).status_code
            for name in ("10.1.2.3:8000", "lab.example", "evil.example")
        }
    assert statuses == {"10.1.2.3:8000": 200, "lab.example": 200, "evil.example": 403}


# ---------------------------------------------------------------- bearing up


def test_fifty_at_once_are_answered_or_refused(client: httpx.Client, address: str) -> None:
    gate = threading.Barrier(50)

    def ask(index: int) -> httpx.Response:
        gate.wait(60)
        question = {"prompt": f"{PROMPT} {index}", "model": ["toy", "other"][index % 2]}
        return httpx.post(f"{address}/api/explain", json=question, timeout=60, trust_env=False)

    with ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(ask, range(50)))
    assert {answer.status_code for answer in answers} <= {200, 503}
    answered = [index for index, answer in enumerate(answers) if answer.status_code == 200]
    assert len(answered) >= LIMITS.waiting
    for index in answered:
        assert answers[index].json()["text"] == f"{PROMPT} {index}"
    for answer in answers:
        if answer.status_code == 503:
            assert int(answer.headers["retry-after"]) >= 1
            assert re.fullmatch(r"8 runs are waiting already\.\nTry again in \d+ s\.", error_of(answer))
    assert client.post("/api/predict", json={"prompt": PROMPT}).status_code == 200


SLOW = {"prompt": LONG, "methods": ["erasure-deletion"]}
"""Minutes of work: a run for every token of a long prompt."""


def test_a_run_ends_when_the_reader_leaves(client: httpx.Client) -> None:
    with client.stream("POST", "/api/compare", json=SLOW, headers=LINES) as answer:
        first = json.loads(next(answer.iter_lines()))
        assert "progress" in first
    again = client.post("/api/predict", json={"prompt": PROMPT})  # the same model: it waits for its turn
    assert again.status_code == 200


def test_a_run_that_reports_all_the_time_ends_too(client: httpx.Client, address: str) -> None:
    """Progress comes faster here than the server looks whether anyone still waits."""
    question = {"prompt": LONG[:4400], "methods": ["erasure-deletion"], "model": "other"}
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{address}/api/compare", json=question, timeout=0.5, trust_env=False)
    assert waits(client, "other") is False


def waits(client: httpx.Client, model: str) -> bool:
    """Whether a question still has to wait for others after seconds, in which none of these would be done."""
    end = time.monotonic() + 5
    question = {"prompt": PROMPT, "model": model}
    while True:
        time.sleep(0.5)
        with client.stream("POST", "/api/predict", json=question, headers=LINES) as answer:
            waited = any("waiting" in line for line in answer.iter_lines())
        if not waited or time.monotonic() > end:
            return waited


def test_an_upload_that_breaks_off_runs_nothing(client: httpx.Client, address: str) -> None:
    body = json.dumps(SLOW).encode()
    host, port = address.removeprefix("http://").split(":")
    head = f"POST /api/compare HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(f"{head}Content-Length: {len(body) + 10}\r\n\r\n".encode() + body)
    assert waits(client, "toy") is False


def test_a_run_ends_when_a_plain_request_is_given_up(client: httpx.Client, address: str) -> None:
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{address}/api/compare", json=SLOW, timeout=1.5, trust_env=False)
    assert client.post("/api/predict", json={"prompt": PROMPT}).status_code == 200


def test_a_run_that_waits_is_dropped_with_its_reader(client: httpx.Client, address: str) -> None:
    with client.stream("POST", "/api/compare", json=SLOW, headers=LINES) as running:
        lines = running.iter_lines()  # held: a generator that is dropped closes its connection
        next(lines)
        for _ in range(2 * LIMITS.waiting):  # more than fit: those that left make room
            with client.stream("POST", "/api/compare", json=SLOW, headers=LINES) as waiting:
                assert waiting.status_code == 200
                assert json.loads(next(waiting.iter_lines()))["progress"]["what"] == "waiting"
        # The page stays responsive meanwhile, and other models answer.
        assert client.get("/api/models").status_code == 200
        other = client.post("/api/predict", json={"prompt": PROMPT, "model": "other"})
        assert other.status_code == 200
        assert "progress" in json.loads(next(lines))  # it goes on
    assert client.post("/api/predict", json={"prompt": PROMPT}).status_code == 200


def test_a_server_that_is_stopped_stops_its_runs(toy: whyword.Model) -> None:
    with serving([toy], replace(LOCAL, limits=LIMITS)) as address:
        begun = threading.Event()

        def ask() -> None:
            with (
                suppress(httpx.HTTPError),
                httpx.stream(
                    "POST", f"{address}/api/compare", json=SLOW, headers=LINES, timeout=60, trust_env=False
                ) as answer,
            ):
                for _ in answer.iter_lines():
                    begun.set()

        reader = threading.Thread(target=ask, daemon=True)
        reader.start()
        assert begun.wait(60)
    reader.join(60)
    assert not reader.is_alive()


# ---------------------------------------------------------------- the command


@pytest.fixture
def folder(toy: whyword.Model, tmp_path: Path) -> Path:
    """A model on disk."""
    toy.network.save_pretrained(tmp_path / "my model [red]")
    toy.tokenizer.save_pretrained(tmp_path / "my model [red]")  # type: ignore[union-attr]
    return tmp_path / "my model [red]"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for one process")
def test_the_command_serves_until_it_is_interrupted(folder: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "whyword",
        "serve",
        "-m",
        str(folder),
        "--port",
        "0",
        "--host",
        "0.0.0.0",
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        told = process.stderr.readline()
        found = re.search(r"^my model \[red\]: open (http://127.0.0.1:\d+) \(Ctrl\+C stops\)", told)
        assert found, told
        about = httpx.get(f"{found[1]}/api/models", trust_env=False).json()
        assert about["models"][0]["name"] == "my model [red]"
        assert about["limits"]["tokens"] == 1024
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
    assert process.returncode == 130
    assert "whoever reaches this machine can use the models" in rest
    again = shlex.join(["whyword", *command[3:]])
    assert rest.endswith(f"Stopped: the server keeps nothing. Start it again with: {again}\n")


def test_the_command_says_what_it_needs() -> None:
    code = "import sys; sys.modules['uvicorn'] = None; from whyword import cli; cli.application(['serve'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "needs FastAPI and uvicorn, which are not installed (uvicorn)" in done.stderr
    assert "pip install '.[serve]'" in done.stderr


def test_the_command_refuses_a_port_that_is_taken() -> None:
    taken = open_socket("127.0.0.1", 0)
    taken.listen()
    port = taken.getsockname()[1]
    result = CliRunner().invoke(application, ["serve", "--port", str(port)])
    taken.close()
    assert result.exit_code == 2
    assert f"127.0.0.1 port {port} cannot be used" in result.stderr


def test_two_models_of_one_name_are_refused(toy: whyword.Model) -> None:
    with pytest.raises(whyword.InputError, match="Two models have the same name: toy, toy"):
        make_server([toy, make_toy()], LOCAL)


def test_a_body_that_trickles_is_not_waited_for(toy: whyword.Model) -> None:
    """Many at once, one byte at a time: each is answered and closed, and the server goes on answering."""
    with serving([toy], replace(LOCAL, limits=Limits(patience=0.5))) as address:
        host, port = address.removeprefix("http://").split(":")
        head = (
            f"POST /api/explain HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
            "Content-Length: 1000\r\n\r\n{"
        )
        opened = [socket.create_connection((host, int(port)), timeout=60) for _ in range(20)]
        for connection in opened:
            connection.sendall(head.encode())
        assert httpx.get(f"{address}/api/models", timeout=60, trust_env=False).status_code == 200
        for connection in opened:
            with connection, connection.makefile("rb") as answer:
                content = answer.read()  # to its end: the server closes the connection
            assert content.startswith(b"HTTP/1.1 408 ")
            assert b"The request did not arrive within 0.5 seconds." in content
            assert b"Send its body at once." in content
        # Headers that trickle: from the start, after a request that was answered, or not at all.
        asked = f"GET /api/models HTTP/1.1\r\nHost: {host}:{port}\r\n"
        for before, sent in (("", ""), ("", asked), (f"{asked}\r\n", asked)):
            with socket.create_connection((host, int(port)), timeout=60) as connection:
                connection.sendall(before.encode())
                answered = connection.recv(12) if before else b""
                connection.sendall(sent.encode())
                with connection.makefile("rb") as answer:
                    answer.read()
            assert answered == (b"HTTP/1.1 200" if before else b"")
