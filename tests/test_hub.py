"""Models by name: from a server on this machine that answers as the hub does, or (off by default) the hub."""

import hashlib
import http.server
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

import whyword

import toy_tokenizers
from families import build


class Hub(http.server.BaseHTTPRequestHandler):
    """Serves the repositories (folders) of one folder."""

    root: Path

    def do_GET(self) -> None:
        path = self.path.split("?")[0].strip("/").split("/")
        repository, name = "/".join(path[2:4] if path[0] == "api" else path[:2]), path[-1]
        if not (self.root / repository).is_dir():
            self.answer(404, {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"})
        elif not (self.root / repository / name).is_file():
            self.answer(404, {"X-Error-Code": "EntryNotFound", "X-Error-Message": "Entry not found"})
        else:
            data = (self.root / repository / name).read_bytes()
            self.answer(200, {"X-Repo-Commit": "a" * 40, "ETag": hashlib.sha1(data).hexdigest()}, data)

    do_HEAD = do_GET

    def answer(self, status: int, headers: dict[str, str], data: bytes = b"") -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def load_by_name(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], list[str]]]:
    """Load a model by name in a process that has this hub; give the lines it prints."""
    root, home = tmp_path_factory.mktemp("hub"), tmp_path_factory.mktemp("home")
    tokenizer = toy_tokenizers.make("byte-level")
    network = build("gpt2", torch.float32, vocab_size=len(tokenizer))
    network.save_pretrained(root / "someone" / "tiny")
    tokenizer.save_pretrained(root / "someone" / "tiny")
    network.save_pretrained(root / "someone" / "pickled")
    (root / "someone" / "pickled" / "model.safetensors").unlink()
    torch.save(network.state_dict(), root / "someone" / "pickled" / "pytorch_model.bin")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Here", (Hub,), {"root": root}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    hub = {
        "HF_HUB_OFFLINE": "0",
        "HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}",
        "HF_HOME": str(home),
    }

    def load(code: str) -> list[str]:
        program = f"import whyword\ntry: print({code})\nexcept whyword.ModelError as error: print(error)"
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, **hub},
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
        )
        return done.stdout.strip().splitlines()

    yield load
    server.shutdown()


def test_a_model_by_name(load_by_name: Callable[[str], list[str]]) -> None:
    (line,) = load_by_name(
        "whyword.explain(whyword.load('someone/tiny', start='none'), 'A report', target='has', foil=None)"
    )
    assert line.startswith("<Explanation: why ' has' after 2 tokens; flow on someone/tiny, logit")


def test_an_unknown_name(load_by_name: Callable[[str], list[str]]) -> None:
    assert load_by_name("whyword.load('no-such/model')") == [
        "The hub has no model 'no-such/model', and there is no such folder.",
        "Check the name, or pass a local folder.",
    ]


def test_a_pickle(load_by_name: Callable[[str], list[str]]) -> None:
    assert load_by_name("whyword.load('someone/pickled')") == [
        "someone/pickled has its weights in a pickle, which can run any code when it is loaded.",
        "If you trust it, pass whyword.load(..., allow='pickle').",
    ]
    (line,) = load_by_name("whyword.load('someone/pickled', allow='pickle')")
    assert line.startswith("<Model someone/pickled: GPT2LMHeadModel, 3 blocks")
    assert "no tokenizer" in line


@pytest.mark.hub
def test_gpt2_gives_the_published_figures() -> None:
    """The worked example that is published with the paper's code (needs the hub)."""
    model = whyword.load("gpt2")
    prompt = "a 12th-century commentary on periegetes by eustathius of thessalonica also"
    e = whyword.explain(model, prompt, target=model.tokenizer(" compares").input_ids[0], foil=None)
    assert e.ledger.logit == pytest.approx(-103.982, abs=2e-3)
    assert e.ledger.embedding == pytest.approx(0.9604, abs=1e-3)
    assert float(e.ledger.attention_bias.sum()) == pytest.approx(-1.72398, abs=1e-3)
    assert float(e.ledger.mlp.sum()) == pytest.approx(-46.90461, abs=2e-3)
    assert float(e.ledger.attention.sum()) == pytest.approx(-46.2542, abs=2e-3)
    assert e.ledger.norm_bias == pytest.approx(-10.0599, abs=1e-3)
