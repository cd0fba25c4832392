"""One document feeds every view: what is written is what is read."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

import whyword

import toy_tokenizers
from families import build, prompt_of


@pytest.fixture(scope="module")
def model() -> whyword.Model:
    tokenizer = toy_tokenizers.make("byte-level")
    return whyword.load(
        build("gpt2", torch.float32, vocab_size=len(tokenizer)), tokenizer=tokenizer, start="tokenizer"
    )


@pytest.mark.parametrize("method", ["logit", "alti-logit"])
def test_an_explanation_is_given_back(model: whyword.Model, method: str, tmp_path: Path) -> None:
    e = whyword.explain(model, "été 🙂 <b> \\n", target="has", foil=["have", "been"], method=method)
    e.save(tmp_path / "e.json")
    again = whyword.read(tmp_path / "e.json")
    assert again.to_dict() == e.to_dict()
    assert again.tokens == e.tokens
    assert (again.target, again.foils) == (e.target, e.foils)
    torch.testing.assert_close(again.by_head, e.by_head, rtol=0, atol=0)
    torch.testing.assert_close(again.scores, e.scores, rtol=0, atol=0)
    assert again.ledger.error == e.ledger.error


def test_what_the_document_holds(model: whyword.Model) -> None:
    e = whyword.explain(model, "A report about", target="has", foil="have")
    document = json.loads(json.dumps(e.to_dict()))
    assert document["schema"] == "whyword.explanation/1"
    assert document["model"] == "GPT2LMHeadModel"
    assert document["method"] == "flow"
    assert document["tokens"][1] == {
        "id": e.tokens[1].id,
        "text": " report",
        "start": 2,
        "end": 8,
        "word": 1,
        "special": False,
        "role": None,
        "turn": None,
        "part": None,
    }
    assert document["target"]["text"] == " has"
    assert [foil["text"] for foil in document["foils"]] == [" have"]
    shape = (len(document["by_head"]), len(document["by_head"][0]), len(document["by_head"][0][0]))
    assert shape == (3, 4, 3)
    assert sum(document["scores"]) == pytest.approx(sum(map(sum, document["by_block"])), rel=1e-4)
    assert set(document["ledger"]) == {
        "embedding",
        "attention",
        "attention_bias",
        "mlp",
        "norm_bias",
        "unembedding_bias",
        "total",
        "logit",
        "error",
    }
    assert document["ledger"]["error"] <= 1e-4
    assert set(document["notes"]) == {"exact", "held fixed", "use"}


def test_how_things_show_themselves(model: whyword.Model) -> None:
    assert repr(model) == (
        "<Model GPT2LMHeadModel: GPT2LMHeadModel, 3 blocks, torch.float32, cpu, "
        f"{type(model.tokenizer).__name__}, described as gpt2>"
    )
    e = whyword.explain(model, "A report", target="has", foil=["have", "been"], method="logit")
    assert repr(e).startswith(
        "<Explanation: why ' has' not ' have' | ' been' after 2 tokens; logit on GPT2LMHea"
    )
    assert "error" in repr(e)
    assert e != whyword.explain(model, "A report", target="has")


def test_a_sum_is_a_document_too(model: whyword.Model, tmp_path: Path) -> None:
    whole = whyword.explain_continuation(model, "A report", "about the painters").sum()
    whole.save(tmp_path / "sum.json")
    assert whyword.read(tmp_path / "sum.json").to_dict() == whole.to_dict()


def test_threads_do_not_disturb_each_other() -> None:
    """Runs of one model and of two models at a time give what they give alone."""
    models = [whyword.load(build(family, torch.float64)) for family in ("gpt2", "llama")]
    jobs = [(models[count % 2], prompt_of(5 + count)) for count in range(8)]

    def scores(job: tuple[whyword.Model, list[int]]) -> torch.Tensor:
        return whyword.explain(*job, target=5).by_block

    alone = [scores(job) for job in jobs]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(scores, jobs))
    for one, other in zip(alone, together, strict=True):
        torch.testing.assert_close(one, other)
    assert [model.network.config._attn_implementation for model in models] == ["sdpa", "sdpa"]


def test_other_users_of_the_network_are_not_disturbed() -> None:
    """While one thread explains, another runs the same network, generates and loads."""
    network = build("gpt2", torch.float64)
    model, ids = whyword.load(network), prompt_of(7)
    with torch.no_grad():
        expected = network(torch.tensor([ids])).logits
    scores = whyword.explain(model, prompt_of(40), target=5).scores
    stop = threading.Event()

    def explain_on() -> int:
        count = 0
        while not stop.is_set():
            torch.testing.assert_close(whyword.explain(model, prompt_of(40), target=5).scores, scores)
            count += 1
        return count

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(explain_on)
        try:
            for _ in range(10):
                with torch.no_grad():
                    torch.testing.assert_close(network(torch.tensor([ids])).logits, expected)
                whyword.explain_continuation(model, ids, new_tokens=2)
                whyword.load(network)
        finally:
            stop.set()
        assert other.result() > 0
