"""What all tests share: shapes that are checked at run time, and models that are loaded once."""

import os
import shutil
from collections.abc import Iterator
from functools import cache
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

# What is imported while the hook runs is compiled anew in every process: the large libraries come before it.
import beartype  # noqa: F401
import einops  # noqa: F401
import rich.console  # noqa: F401
import transformers.modeling_utils  # noqa: F401
import typer  # noqa: F401

import line_coverage
import shape_checks

shape_checks.install()
line_coverage.install()

from pathlib import Path

import pytest
import torch
from hypothesis import settings

import whyword
from whyword.runs import known_libraries

import toy_tokenizers
from families import DISTINCT, FAMILIES, build
from run_folders import save_tiny

settings.register_profile("default", deadline=None, max_examples=25)
settings.load_profile("default")
torch.set_num_threads(1)  # models are tiny, and several processes share the cores


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with reference models and data that the repository does not hold."""
    folder = Path(os.environ.get("WHYWORD_SHARED", Path(__file__).parents[2] / "shared"))
    if not folder.is_dir():
        pytest.skip(f"no reference data at {folder} (set WHYWORD_SHARED)")
    return folder


@pytest.fixture(scope="session", params=sorted(FAMILIES))
def family(request: pytest.FixtureRequest) -> whyword.Model:
    """A tiny float64 model of every catalogued family, all parameters randomised."""
    return load_family(request.param)


@pytest.fixture(scope="session", params=DISTINCT)
def distinct(request: pytest.FixtureRequest) -> whyword.Model:
    """The same of families that differ in kind."""
    return load_family(request.param)


@pytest.fixture(scope="session")
def byte_level() -> whyword.Model:
    """A tiny model with a byte-level tokenizer."""
    tokenizer = toy_tokenizers.make("byte-level")
    network = build("llama", torch.float32, vocab_size=len(tokenizer), max_position_embeddings=256)
    return whyword.load(network, tokenizer=tokenizer, start="tokenizer")


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model on disk, for runs whose workers open it themselves."""
    return save_tiny(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture(scope="session")
def llama() -> whyword.Model:
    return load_family("llama")


@pytest.fixture(scope="session")
def gpt2() -> whyword.Model:
    return load_family("gpt2")


@pytest.fixture(scope="session")
def smollm() -> whyword.Model:
    """The default model with its real weights, loaded once per process."""
    from weights import fetch_folder

    return whyword.load(fetch_folder())


@pytest.fixture(scope="session")
def opus(shared: Path) -> whyword.Model:
    """A real translation model, loaded once per process."""
    return whyword.load(shared / "models" / "opus-mt-zh-en", dtype="float32")


@cache
def load_family(name: str) -> whyword.Model:
    """Load the tiny float64 model of a family, once per process."""
    return whyword.load(build(name, torch.float64))


@pytest.fixture
def as_in_a_library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take hooks of a test for those of a library: prompts are run together, and compared now and then."""
    known = known_libraries._LIBRARIES | {request.module.__name__}
    monkeypatch.setattr(known_libraries, "_LIBRARIES", known)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A real browser, or skip where there is none."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        pytest.skip(f"no browser: none of {', '.join(names)} is installed")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=found)
        yield opened
        opened.close()
