"""What tests of dataset runs share: prompts that a tiny model knows, rows of files, and what a run wrote."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

import toy_tokenizers
from families import build

__all__ = ["PROMPTS", "read_shards", "save_tiny", "write_rows"]

PROMPTS = ["the cat sat on the mat", "a dog", "what is the name of the dog and of the cat", "the mat the cat"]


def save_tiny(path: Path) -> Path:
    """Save a tiny model that has tokens for the prompts, and 64 positions."""
    tokenizer = toy_tokenizers.make("byte-level", [*PROMPTS, " cat dog mat the"], 400)
    build("llama", torch.float32, vocab_size=len(tokenizer), max_position_embeddings=64).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


def write_rows(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """Write a file of rows."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def read_shards(folder: Path) -> dict[str, bytes]:
    """Read the files of all finished shards."""
    return {path.name: path.read_bytes() for path in sorted(folder.glob("rows-*"))}
