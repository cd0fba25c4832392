"""Evidence from parses, with any English spaCy pipeline."""

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from ..errors import InputError
from ..runs.progress import report
from .evidence_rules import PHENOMENA, require_phenomenon
from .examples import Dataset, Example, Skipped, Spans

__all__ = ["add_evidence", "find_evidence", "list_pipelines", "open_pipeline"]

_PREFERRED = ("en_core_web_lg", "en_core_web_md", "en_core_web_sm", "en_core_web_trf")
_NEEDED = ("tagger", "parser", "attribute_ruler")
_NOT_NEEDED = ["ner", "lemmatizer"]
_BATCH = 128


def find_evidence(
    examples: Sequence[Example], phenomenon: str, pipeline: str | None = None
) -> tuple[list[Example], list[Skipped]]:
    """Find the evidence of examples by parsing them; evidence that they already have is ignored.

    `phenomenon` is one of `PHENOMENA` or the name of a dataset; `pipeline` the name of an English spaCy
    pipeline (None: one that is installed). Examples whose evidence is not found are returned as skipped.
    """
    rule = PHENOMENA[require_phenomenon(phenomenon)]
    parse = open_pipeline(pipeline)
    found: list[Example] = []
    skipped: list[Skipped] = []
    documents = parse.pipe((rule.text(example) for example in examples), batch_size=_BATCH)
    for done, (example, document) in enumerate(zip(examples, documents, strict=True), 1):
        token = rule.find(document, example)
        if token is None:
            skipped.append(Skipped(example.dataset, example.row, "no evidence found in the parse"))
        else:
            phrase = _phrase_of(token, example) if rule.has_phrase else ()
            found.append(replace(example, word=((token.idx, token.idx + len(token)),), phrase=phrase))
        report("sentences", done, len(examples))
    return found, skipped


def add_evidence(dataset: Dataset, pipeline: str | None = None) -> Dataset:
    """Return a dataset with evidence found by parsing, where the file had none."""
    examples, skipped = find_evidence(dataset.examples, dataset.phenomenon, pipeline)
    rows = sorted((*dataset.skipped, *skipped), key=lambda each: each.row)
    return replace(dataset, examples=tuple(examples), skipped=tuple(rows))


def open_pipeline(name: str | None = None) -> Any:
    """Load a pipeline that tags and parses English."""
    installed = list_pipelines()
    if name is None and not installed:
        raise InputError(
            "No English spaCy pipeline is installed.", "Run: python -m spacy download en_core_web_sm"
        )
    try:
        pipeline = _load(name or installed[0])
    except (OSError, ImportError, ValueError) as error:
        known = f"Installed: {', '.join(installed)}. " if installed else ""
        raise InputError(
            f"The pipeline {name or installed[0]!r} cannot be loaded: {str(error).splitlines()[0]}",
            f"{known}To install another: python -m spacy download en_core_web_sm",
        ) from None
    missing = [part for part in _NEEDED if part not in pipeline.pipe_names]
    if missing or pipeline.lang != "en":
        lacks = f"has no {' and no '.join(missing)}" if missing else f"is for {pipeline.lang!r}, not English"
        raise InputError(
            f"The pipeline {name or installed[0]!r} {lacks}.",
            "Use one that tags and parses English, such as en_core_web_sm.",
        )
    return pipeline


@lru_cache(maxsize=2)
def _load(name: str) -> Any:
    """Load a pipeline once: it takes longer than parsing a dataset."""
    return _import_spacy().load(name, exclude=_NOT_NEEDED)


def list_pipelines() -> list[str]:
    """List the installed English pipelines, the default first."""
    spacy = _import_spacy()
    english = []
    for name in spacy.util.get_installed_models():
        meta = json.loads((spacy.util.get_package_path(name) / "meta.json").read_text(encoding="utf-8"))
        if meta.get("lang") == "en" and "parser" in meta.get("pipeline", ()):
            english.append(name)
    return sorted(english, key=lambda name: (_PREFERRED.index(name) if name in _PREFERRED else 9, name))


def _phrase_of(token: Any, example: Example) -> Spans:
    """Return the phrase that a token heads, as far as it is in the prefix."""
    start, last = token.left_edge.idx, token.right_edge
    end = min(last.idx + len(last), len(example.prefix))
    return ((start, start + len(example.prefix[start:end].rstrip())),)


def _import_spacy() -> Any:
    try:
        import spacy
        import spacy.util
    except ImportError:
        raise InputError(
            "Evidence is found with spaCy, which is not installed.",
            "Install it: pip install spacy, then: python -m spacy download en_core_web_sm",
        ) from None
    return spacy
