"""The foil that the model chooses: a rival of the same kind, or the plain runner-up."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

import whyword
from whyword.ask.rival import find_rival
from whyword.cli import application

import toy_tokenizers
from families import build

TEXT = "A report about the Impressionists"


@pytest.fixture(scope="module")
def model() -> whyword.Model:
    """Its tokenizer knows a few more words, so that every kind of rival is one token."""
    words = "Paris PARIS paris Parisian London an a the him he Rome is was London's can't he's 12 13"
    turned = " ".join(words.split()[::-1])
    corpus = [*toy_tokenizers.CORPUS, *[words, turned] * 18]
    tokenizer = toy_tokenizers.make("byte-level", corpus, vocabulary=800)
    return whyword.load(
        build("gpt2", torch.float32, vocab_size=len(tokenizer)), tokenizer=tokenizer, start="tokenizer"
    )


def rank(model: whyword.Model, texts: list[str]) -> torch.Tensor:
    """Logits of a model that ranks these tokens first, in this order."""
    logits = torch.full((model.vocabulary,), -10.0)
    for place, text in enumerate(texts):
        ids = model.tokenizer(text, add_special_tokens=False).input_ids
        assert len(ids) == 1, text
        logits[ids[0]] = -float(place) / 10
    return logits


@pytest.mark.parametrize(
    ("target", "others", "rival"),
    [
        (" Paris", [",", " the", "Rome", " PARIS", " paris", "Paris", " P", " London"], " London"),
        (" Paris", [" Parisian", " London"], " Parisian"),  # another word, though it begins like the target
        (" the", [" Paris", ",", " a"], " a"),
        (" an", [" a", " the"], " a"),  # one begins the other, but both are words
        (" is", ["is", " London", " was"], " was"),
        ("s", [" the", ",", "is"], "is"),  # within a word, "is" is no function word
        (",", [" the", " London", "."], "."),
        (" 12", [" the", "1", " London", " 13"], " 13"),
        ("'s", [" London", ",", " the", "s", "'t"], "'t"),
    ],
)
def test_a_rival_is_of_the_same_kind(
    model: whyword.Model, target: str, others: list[str], rival: str
) -> None:
    before = whyword.tokenize(model, TEXT, start="none")
    ranked = rank(model, [target, *others])
    (own,) = model.tokenizer(target, add_special_tokens=False).input_ids
    found = model.tokenizer.decode([find_rival(model, before, own, ranked)])
    assert found == rival


def test_a_piece_of_a_longer_word_is_no_rival(model: whyword.Model) -> None:
    before = whyword.tokenize(model, "I like", start="none")
    ranked = rank(model, [" P", " Paris", " London"])
    (own,) = model.tokenizer(" P", add_special_tokens=False).input_ids
    assert model.tokenizer.decode([find_rival(model, before, own, ranked)]) == " Paris"
    assert model.tokenizer.decode([find_rival(model, before, own, ranked, " Parisians")]) == " London"


def test_without_a_tokenizer_the_rival_is_the_runner_up() -> None:
    bare = whyword.load(build("gpt2", torch.float32), start="none")
    first, second = whyword.predict(bare, [3, 4, 5], top=2)
    assert whyword.explain(bare, [3, 4, 5]).foil.id == second.id
    assert whyword.explain(bare, [3, 4, 5], target=second.id).foil.id == first.id


def test_a_part_of_a_character_has_no_kind(model: whyword.Model) -> None:
    """Its rival is the runner-up."""
    first, *_ = model.tokenizer("語", add_special_tokens=False).input_ids
    ranked = rank(model, [",", " London"])
    ranked[first] = 1.0
    before = whyword.tokenize(model, TEXT, start="none")
    assert model.tokenizer.decode([find_rival(model, before, first, ranked)]) == ","


@pytest.mark.real
def test_rivals_of_a_real_model(smollm: whyword.Model) -> None:
    """The runner-up of Paris is "the"; its rival is the beginning of another name."""
    found = whyword.explain(smollm, "The capital of France is", method="logit")
    plain = whyword.explain(smollm, "The capital of France is", foil="runner-up", method="logit")
    assert (found.target.text, plain.foil.text) == (" Paris", " the")
    assert found.foil.text[1:].isalpha()
    assert found.foil.text[1].isupper()
    longer = whyword.explain(smollm, "I ate", target="apples", method="logit")
    assert longer.foil.text.strip() not in "apples"


def test_every_call_takes_both(model: whyword.Model) -> None:
    """Library, batch, continuation and neurons choose the same two foils."""
    first, _ = whyword.predict(model, TEXT, top=2)
    before = whyword.tokenize(model, TEXT)
    (target,) = model.tokenizer(" Paris", add_special_tokens=False).input_ids
    logits = model.network(torch.tensor([before.ids])).logits[0, -1]
    rival = find_rival(model, before, target, logits)
    assert len({rival, first.id, target}) == 3  # otherwise this test says nothing
    for foil, expected in (("auto", rival), ("runner-up", first.id)):
        for found in (
            whyword.explain(model, TEXT, target="Paris", foil=foil),
            whyword.explain(model, TEXT, target="Paris", foil=[foil]),
            next(whyword.explain_batch(model, [TEXT], targets="Paris", foils=foil)),
            whyword.explain_continuation(model, TEXT, "Paris", foil=foil)[0],
            whyword.neurons(model, TEXT, target="Paris", foil=foil, top=1).explanation,
        ):
            assert (found.target.id, found.foil.id) == (target, expected)
    assert whyword.explain(model, TEXT, target="Paris").foil.id == rival
    with pytest.raises(whyword.InputError, match="foil is 'has'"):
        whyword.explain_continuation(model, TEXT, foil="has")


def test_the_command_takes_both(model: whyword.Model, tmp_path: Path) -> None:
    model.network.save_pretrained(tmp_path / "tiny")
    model.tokenizer.save_pretrained(tmp_path / "tiny")
    first, second = whyword.predict(model, TEXT, top=2)

    def explain(*arguments: str) -> Any:
        asked = ["explain", *arguments, "-m", str(tmp_path / "tiny"), "--json"]
        done = CliRunner().invoke(application, asked)
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    paris = explain(TEXT, "--start", "tokenizer", "-t", "Paris")
    assert paris["foils"][0]["id"] == whyword.explain(model, TEXT, target="Paris").foil.id
    assert paris["foils"][0]["id"] != first.id
    ids = " ".join(map(str, whyword.tokenize(model, TEXT).ids))
    assert explain(ids, "--ids", "--foil", "runner-up")["foils"][0]["id"] == second.id
    continued = explain(TEXT, "--start", "tokenizer", "--continue", "1", "--foil", "runner-up")
    assert continued["explanations"][0]["foils"][0]["id"] == second.id
