"""Damaged input for every reader: it is read, or refused in two lines. `make fuzz` does it 10,000 times each.

Documents are mutated in `test_kinds.py`. All is drawn from one seed for each reader.
"""

import copy
import json
import math
import os
import random
import string
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

import whyword
from whyword.alignment.links import FORMATS, Links, parse_links, write_links
from whyword.alignment.parallel_files import read_words
from whyword.data import read_datasets
from whyword.evaluation.records import read_run
from whyword.evaluation.report import read_report
from whyword.inside.survey import survey
from whyword.inside.tally import read_tally
from whyword.models.open_tokenizer import find_special_ids

import tiny_gguf
import toy_tokenizers
from families import build

FUZZ = int(os.environ.get("WHYWORD_FUZZ", "0"))
STRANGE = (
    None, True, 0, 1, 3, -1, 7, 10**6, 10**9, 10**12, 10**400, 2.5, 1e39, math.nan, "", "3", "gelu", "<s>",
    [], {}, [1, 2], {"a": 1},
)  # fmt: skip


def cases(name: str, few: int) -> Iterator[random.Random]:
    """Give a source of chance for every case: a few, or as many as `make fuzz` asks for."""
    chance = random.Random(name)
    for _ in range(FUZZ or few):
        yield chance


def attempt(read: Callable[[], Any]) -> str:
    """Read something damaged; whatever is refused is refused in two lines."""
    try:
        read()
    except whyword.WhywordError as refused:
        lines = str(refused).splitlines()
    else:
        return "read"
    assert len(lines) == 2, lines
    assert all(lines)
    return "refused"


def garble(content: bytes, chance: random.Random, first: int | None = None) -> bytes:
    """Cut bytes off, change some, or put others in; `first`: only among the first so many."""
    most, damaged, way = first or len(content), bytearray(content), chance.randrange(4)
    if way == 0:
        return content[: chance.randrange(most)]
    for _ in range(chance.choice((1, 1, 2, 4))):
        place = chance.randrange(most)
        if way == 1:
            damaged[place : place + chance.randrange(12)] = chance.randbytes(chance.randrange(12))
        else:
            damaged[min(place, len(damaged) - 1)] = chance.choice((0, 255, chance.randrange(256)))
    return bytes(damaged)


def mutate(document: Any, chance: random.Random) -> Any:
    """Change JSON in one or two random places."""
    changed = copy.deepcopy(document)
    for _ in range(chance.choice((1, 1, 2))):
        where, key = (
            changed,
            chance.choice(list(changed) if isinstance(changed, dict) else range(len(changed))),
        )
        while isinstance(where[key], dict | list) and where[key] and chance.random() < 0.75:
            where = where[key]
            key = chance.choice(list(where)) if isinstance(where, dict) else chance.randrange(len(where))
        value, way = where[key], chance.randrange(5)
        if way == 0 and len(where) > 1:
            del where[key]
        elif way == 1 and isinstance(value, int | float) and abs(value) < 1e15:
            where[key] = chance.choice((value * 2, value + 1, -value, value // 2))
        elif way == 2 and isinstance(value, list):
            chance.shuffle(value)
        else:
            where[key] = copy.deepcopy(chance.choice(STRANGE))
    return changed


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("RUST_BACKTRACE", "0")
    level = transformers.utils.logging.get_verbosity()
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    yield
    transformers.utils.logging.set_verbosity(level)
    transformers.utils.logging.enable_progress_bar()


# ---------------------------------------------------------------- models


def test_fuzz_gguf(tmp_path: Path) -> None:
    tiny_gguf.write_gguf(tmp_path / "whole.gguf")
    content, path = (tmp_path / "whole.gguf").read_bytes(), tmp_path / "damaged.gguf"
    header = content.find(b"blk.0.ffn_down") + 600

    def read() -> None:
        whyword.explain(whyword.load(path), "A report has")

    outcomes = []
    for chance in cases("gguf", 40):
        path.write_bytes(garble(content, chance, chance.choice((None, 100, 500, header))))
        outcomes.append(attempt(read))
    assert {*outcomes} == {"read", "refused"}
    path.write_bytes(content)
    assert attempt(read) == "read"


@pytest.mark.parametrize("family", ["gpt2", "llama", "marian"])
def test_fuzz_config(family: str, tmp_path: Path) -> None:
    build(family, torch.float32).save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    content = path.read_bytes()

    def read() -> None:
        model = whyword.load(tmp_path)
        if model.encoder_stack is None:
            whyword.explain(model, [3, 4, 5]).to_dict()
        else:
            whyword.explain_translation(model, [3, 4], [5, 6]).to_dict()

    outcomes = []
    for chance in cases(f"config {family}", 12):
        if chance.random() < 0.1:
            path.write_bytes(garble(content, chance))
        else:
            path.write_text(json.dumps(mutate(json.loads(content), chance)))
        outcomes.append(attempt(read))
    assert {*outcomes} == {"read", "refused"}


@pytest.mark.parametrize(
    ("name", "number"),
    [("max_position_embeddings", 10**6), ("encoder_layers", 10**6), ("decoder_ffn_dim", 10**6)],
)
def test_what_would_take_a_minute_to_make(name: str, number: int, tmp_path: Path) -> None:
    """Found by 10,000 mutations: Marian computes positions number by number, and makes whatever is asked."""
    build("marian", torch.float32).save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_bytes()), name: number}))
    with pytest.raises(whyword.ModelError, match=f"in config.json {name} is {number}"):
        whyword.load(tmp_path)


@pytest.mark.parametrize("kind", ["byte-level", "unigram", "wordpiece"])
def test_fuzz_tokenizer(kind: str, tmp_path: Path) -> None:
    tokenizer = toy_tokenizers.make(kind)
    build("gpt2", torch.float32, vocab_size=len(tokenizer)).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    whole = {name: (tmp_path / name).read_bytes() for name in ("tokenizer.json", "tokenizer_config.json")}

    def read() -> None:
        model = whyword.load(tmp_path)
        whyword.explain(model, "A report has two", target="has").to_dict()
        whyword.predict(model, [3, 4, 5]).to_dict()

    outcomes = []
    for chance in cases(f"tokenizer {kind}", 10):
        name = chance.choice(list(whole))
        if chance.random() < 0.5:
            (tmp_path / name).write_bytes(garble(whole[name], chance))
        else:
            (tmp_path / name).write_text(json.dumps(mutate(json.loads(whole[name]), chance)))
        outcomes.append(attempt(read))
        (tmp_path / name).write_bytes(whole[name])
    assert "refused" in outcomes
    assert attempt(read) == "read"


def test_a_special_token_that_the_vocabulary_does_not_have() -> None:
    """Found by 10,000 mutations: its id is None, and was compared with numbers."""
    tokenizer = toy_tokenizers.make("byte-level")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(tokenizer), "all_special_ids", property(lambda _: [None]))
        patch.setattr(type(tokenizer), "added_tokens_decoder", property(lambda _: {}))
        assert find_special_ids(tokenizer) == frozenset()


def test_fuzz_prompts() -> None:
    tokenizer = toy_tokenizers.make("byte-level")
    model = whyword.load(build("gpt2", torch.float32, vocab_size=len(tokenizer)), tokenizer)
    outcomes = []
    for number, chance in enumerate(cases("prompts", 150)):
        most = chance.choice((128, 0x3000, 0xE000, 0x110000))
        text = "".join(chr(chance.randrange(most)) for _ in range(chance.randrange(20)))
        outcomes.append(attempt(lambda text=text: whyword.tokenize(model, text)))
        if number % 10 == 0:
            assert attempt(lambda text=text: whyword.explain(model, "A", target=text).to_dict())
    assert {*outcomes} == {"read", "refused"}


# ---------------------------------------------------------------- files of runs


@pytest.fixture(scope="module")
def model() -> whyword.Model:
    tokenizer = toy_tokenizers.make("byte-level")
    network = build("gpt2", torch.float32, vocab_size=len(tokenizer), n_positions=256)
    return whyword.load(network, tokenizer)


@pytest.mark.parametrize("name", ["examples.jsonl", "settings.json", "skipped.jsonl"])
def test_fuzz_evaluation_run(name: str, model: whyword.Model, tmp_path: Path) -> None:
    whyword.evaluate(
        model, ["builtin-aga"], tmp_path, data="builtin", methods=["logit"], limit=3, faithfulness=None
    )
    if name == "skipped.jsonl":
        (tmp_path / name).write_text('{"dataset": "builtin-aga", "row": 1, "reason": "no foil"}\n' * 2)
    content = (tmp_path / name).read_bytes()
    lines = content.decode().splitlines() if name != "settings.json" else [content.decode()]
    outcomes = []
    for chance in cases(name, 60):
        if chance.random() < 0.3:
            (tmp_path / name).write_bytes(garble(content, chance))
        else:
            damaged = [json.dumps(mutate(json.loads(line), chance)) for line in lines]
            (tmp_path / name).write_text("".join(f"{line}\n" for line in damaged))
        outcomes.append(attempt(lambda: (read_run(tmp_path), read_report(tmp_path))))
    assert {*outcomes} == {"read", "refused"}


def test_fuzz_tally(model: whyword.Model, tmp_path: Path) -> None:
    from whyword.data import Dataset, Example

    examples = tuple(Example("toy", row, "A report", "has", "have") for row in range(2))
    dataset = Dataset("toy", "toy", "toy", "subject", examples, (), "1", "here")
    found = survey(model, [dataset], part="heads", folder=tmp_path)
    path = tmp_path / "heads.safetensors"
    content = path.read_bytes()
    header = 8 + int.from_bytes(content[:8], "little")
    assert found.tally is not None
    settings, widths = found.tally.settings, found.tally.widths
    outcomes = []
    for chance in cases("tally", 100):
        path.write_bytes(garble(content, chance, chance.choice((8, header, None))))
        outcomes.append(attempt(lambda: read_tally(path, settings, widths)))
    assert {*outcomes} == {"read", "refused"}


# ---------------------------------------------------------------- links, sentences, datasets


@pytest.mark.parametrize("form", FORMATS)
def test_fuzz_links(form: str) -> None:
    some = [Links(frozenset({(0, 0), (12, 3)}), frozenset({(2, 1)})), Links(frozenset({(4, 4)}))]
    text, letters = write_links(some, form), string.digits * 3 + "-p SP\n\t.e\x00é²" + "9" * 20
    outcomes = []
    for chance in cases(f"links {form}", 200):
        damaged = list(text)
        for _ in range(chance.choice((1, 2, 4))):
            place = chance.randrange(len(damaged))
            damaged[place : place + chance.randrange(2)] = chance.choices(
                letters, k=chance.choice((0, 1, 3, 25))
            )
        joined = "".join(damaged)
        outcomes.append(attempt(lambda text=joined: write_links(parse_links(text, "file").sentences, form)))
    assert {*outcomes} == {"read", "refused"}


def test_fuzz_parallel_files(tmp_path: Path) -> None:
    content = "ein Haus\nzwei Häuser\n".encode()
    (tmp_path / "b").write_bytes(b"a house\ntwo houses\n")
    outcomes = []
    for chance in cases("parallel", 50):
        (tmp_path / "a").write_bytes(garble(content, chance))
        outcomes.append(attempt(lambda: read_words(tmp_path / "a", tmp_path / "b")))
    assert {*outcomes} == {"read", "refused"}


CSV = """sentence_good,one_prefix_prefix,one_prefix_word_good,one_prefix_word_bad,target,target_phrase
Kate can't help herself.,Kate can't help,herself,himself,Kate,Kate
Many boys hurt themselves.,Many boys hurt,themselves,itself,boys,Many boys
"""
JSONL = '{"sentence_good": "Many boys hurt themselves.", "sentence_bad": "Many boys hurt itself."}\n' * 2


@pytest.mark.parametrize(
    ("ending", "text"), [("csv", CSV), ("jsonl", JSONL), ("tsv", CSV.replace(",", "\t"))]
)
def test_fuzz_datasets(ending: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / f"anaphor_gender_agreement.{ending}"
    outcomes = []
    for chance in cases(f"datasets {ending}", 60):
        path.write_bytes(garble(text.encode(), chance))
        outcomes.append(attempt(lambda: read_datasets(["aga"], tmp_path)))
    assert {*outcomes} == {"read", "refused"}
