"""Starts of text that were found, kept in the cache: one small file for each set of weights."""

import json
import logging
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import xxhash

from ...runs.whole_files import write_aside
from .cache import find_cache

__all__ = ["NONE", "choose_start", "find_record", "keep_record", "list_records"]

NONE = "none"
LEAST_GAIN = 0.1
"""By how many nats per token a candidate must beat none."""
_SCHEMA = "whyword.start/1"
_log = logging.getLogger("whyword")


def choose_start(likelihoods: Mapping[str, float]) -> str:
    """Choose the candidate after which plain sentences are likeliest, if it beats none by enough."""
    best = max(likelihoods, key=lambda name: likelihoods[name])
    return best if likelihoods[best] > likelihoods[NONE] + LEAST_GAIN else NONE


def find_record(weights: str, facts: Mapping[str, Any]) -> dict[str, float] | None:
    """Read the likelihoods that were measured with these weights and tokens; None where there are none."""
    record = _read(_place(weights, facts))
    if record is None or record["weights"] != weights or record["facts"] != facts:
        return None
    return dict(record["likelihoods"])


def keep_record(weights: str, facts: Mapping[str, Any], model: str, likelihoods: Mapping[str, float]) -> None:
    """Keep likelihoods; a cache that cannot be written is no reason to stop."""
    record = {"schema": _SCHEMA, "model": model, "weights": weights, "facts": facts}
    path = _place(weights, facts)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with write_aside(path) as aside:
            text = json.dumps({**record, "likelihoods": likelihoods}, ensure_ascii=False)
            aside.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        _log.info("The start of text of %s is not kept: %s.", model, error)


def list_records() -> list[dict[str, Any]]:
    """List what is kept, by the name of the model."""
    records = [_read(path) for path in sorted(_home().glob("*.json"))]
    return sorted((record for record in records if record is not None), key=lambda record: record["model"])


def _home() -> Path:
    return find_cache().parent / "starts"


def _place(weights: str, facts: Mapping[str, Any]) -> Path:
    tokens = xxhash.xxh3_64(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    return _home() / f"{weights}-{tokens}.json"


def _read(path: Path) -> dict[str, Any] | None:
    """Read a file; None where it is missing, damaged or of another version."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        likelihoods, candidates = record["likelihoods"], record["facts"]["candidates"]
        sound = record["schema"] == _SCHEMA and isinstance(record["model"], str) and NONE in candidates
        sound = sound and likelihoods.keys() == candidates.keys() and isinstance(record["weights"], str)
        sound = sound and all(type(each) is float and math.isfinite(each) for each in likelihoods.values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return dict(record) if sound else None
