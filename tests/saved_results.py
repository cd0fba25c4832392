"""One small result of every kind of document, and some that differ in what they hold."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import torch

import toy_translators
import whyword
from whyword.data import Dataset, Example
from whyword.inside.ablation import ablate
from whyword.inside.split import read_split
from whyword.inside.survey import survey
from whyword.inside.top_examples import find_answers
from whyword.pipeline.compared_by_part import compare_parts
from whyword.results.account import describe_fully
from whyword.results.explanation import Explanation

import toy_tokenizers
from families import build

PROMPT = "A report about this"


@cache
def load_toy(family: str) -> whyword.Model:
    tokenizer = toy_tokenizers.make("byte-level")
    return whyword.load(
        build(family, torch.float32, vocab_size=len(tokenizer)), tokenizer=tokenizer, start="tokenizer"
    )


def make_dataset() -> Dataset:
    prefixes = (PROMPT, "The reports about those", "She said that", "They have", "He has seen this")
    pairs = [("has", "have"), ("been", "the")]
    examples = [
        Example("toy", row, prefix, *pairs[row % 2], columns={"kind": "even" if row % 2 == 0 else "odd"})
        for row, prefix in enumerate(prefixes)
    ]
    same = Example("toy", len(examples), "A report", "has", "has", columns={"kind": "odd"})
    return Dataset("toy", "toy", "toy", "subject", (*examples, same), (), "0" * 64, "here")


@cache
def make_results() -> dict[str, Any]:
    """Give results by a name that begins with that of their kind."""
    gpt2, llama, mixture = (load_toy(family) for family in ("gpt2", "llama", "gpt-oss"))
    asked: dict[str, Any] = {"target": "has", "foil": ["have", "been"]}
    explained = whyword.explain(gpt2, PROMPT, **asked, method="alti-logit")
    continuation = whyword.explain_continuation(gpt2, PROMPT, "has been", foil="auto")
    tokenizer = toy_translators.make_m2m_100(Path(mkdtemp()))
    tokenizer.tgt_lang = "en"
    translator = toy_translators.load_tiny(tokenizer)
    sentence: tuple[str, str] = ("Ein Buch.", "The bank is old.")
    data = [make_dataset()]
    return {
        "explanation": explained,
        "explanation, flow": whyword.explain(gpt2, PROMPT, **asked),
        "explanation, logit": whyword.explain(llama, PROMPT, method="logit"),
        "explanation, one row": whyword.explain(gpt2, PROMPT, **asked, method="attention"),
        "explanation, sum": continuation.sum(),
        "explanation, surrogate": replace(explained, target=replace(explained.target, text=" \ud800")),
        "explanation, account": Explanation.from_dict(describe_fully(explained)),
        "continuation": continuation,
        "comparison": whyword.compare(
            gpt2, PROMPT, **asked, methods=["alti-logit", "attention", "gradient-norm"]
        ),
        "comparison, without mixing": whyword.compare(gpt2, PROMPT, **asked, methods=["logit", "random"]),
        "translation": whyword.explain_translation(
            translator, *sentence, foil=("shore", 2), threshold=0.9, method="alti-logit"
        ),
        "translation, flow": whyword.explain_translation(translator, *sentence),
        "translation, logit": whyword.explain_translation(translator, *sentence, method="logit"),
        "alignment": whyword.align(translator, "Die Bank ist alt .", "The bank is old ."),
        "alignment, one block": whyword.align(translator, ["Bank"], ["bank"], method="attention", block=2),
        "alignment, empty": whyword.align(translator, [], []),
        "parts": explained.by("word"),
        "parts, spans": whyword.explain(llama, PROMPT, method="flow").by(spans={"who": (2, 8)}),
        "difference": whyword.difference(
            *(whyword.explain(gpt2, text, **asked) for text in (PROMPT, "The report about this & that"))
        ),
        "difference, one row": whyword.difference(
            *(whyword.explain(model, PROMPT, **asked, method="attention") for model in (gpt2, llama))
        ),
        "compared parts": compare_parts(gpt2, PROMPT, "word", **asked, methods=["flow", "erasure"]),
        "support": whyword.explain_continuation(llama, PROMPT, "has been. They have.").by(columns="word"),
        "prediction": whyword.predict(gpt2, PROMPT, top=3),
        "neurons": whyword.neurons(llama, PROMPT, **asked, top=2),
        "neurons, experts": whyword.neurons(mixture, PROMPT, top=2),
        "survey": survey(llama, data, split=read_split("kind")),
        "survey, heads": survey(llama, data, part="heads"),
        "survey, experts": survey(mixture, data, limit=2),
        "top examples": find_answers(llama, data, "2.17", top=2),
        "ablation": ablate(llama, data, "2.17", split=read_split("kind")),
    }
