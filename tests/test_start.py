"""The start of text: found by the model's own likelihood, kept by its weights, shown apart from words."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

import whyword
from whyword.ask import start_of_text
from whyword.ask.start_of_text import SENTENCES, find_start
from whyword.cli import application
from whyword.evaluation import evaluate
from whyword.evaluation.records import read_run
from whyword.models.bundled.starts import list_records
from whyword.view.terminal import print_document

import toy_tokenizers
from families import build

TEXT = "A report about the Impressionists"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WHYWORD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "starts"


@pytest.fixture(scope="module")
def network() -> Any:
    """A tiny network that was trained on texts after "</s>", and has never seen one without."""
    tokenizer = toy_tokenizers.make("byte-level", SENTENCES)
    network = build("gpt2", torch.float32, vocab_size=len(tokenizer))
    torch.manual_seed(0)
    optimiser = torch.optim.AdamW(network.parameters(), lr=1e-2)
    texts = [[2, *tokenizer(text, add_special_tokens=False).input_ids] for text in SENTENCES]
    network.train()
    for step in range(80):
        ids = torch.tensor([texts[step % len(texts)]])
        network(input_ids=ids, labels=ids).loss.backward()
        optimiser.step()
        optimiser.zero_grad()
    return network.eval()


@pytest.fixture(scope="module")
def trained(network: Any) -> whyword.Model:
    return whyword.load(network, tokenizer=toy_tokenizers.make("byte-level", SENTENCES))


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count how often a network is run to compare candidates."""
    runs: list[int] = []
    run = start_of_text.run
    monkeypatch.setattr(start_of_text, "run", lambda *given: runs.append(1) or run(*given))
    return runs


def show(result: whyword.Explanation) -> str:
    console = Console(width=200, no_color=True)
    with console.capture() as captured:
        print_document(result.to_dict(), console)
    return captured.get()


def load_again(model: whyword.Model, **changes: Any) -> whyword.Model:
    return replace(model, **changes)


def test_the_model_itself_chooses(trained: whyword.Model) -> None:
    found = find_start(load_again(trained))
    assert (found.text, found.ids, found.chosen) == ("</s>", (2,), "found")
    for name, likelihood in found.likelihoods.items():  # one sentence at a time, by the network's own loss
        front = [] if name == "none" else [trained.tokenizer.convert_tokens_to_ids(name)]
        total = count = 0
        for text in SENTENCES:
            ids = trained.tokenizer(text, add_special_tokens=False).input_ids
            labels = [-100] * (len(front) + 1) + ids[1:]
            loss = trained.network(input_ids=torch.tensor([front + ids]), labels=torch.tensor([labels])).loss
            total -= float(loss.detach()) * (len(ids) - 1)
            count += len(ids) - 1
        assert likelihood == pytest.approx(total / count, abs=1e-5)
    tokens = whyword.tokenize(trained, TEXT)
    assert tokens.ids == [2, *whyword.tokenize(trained, TEXT, start="none").ids]
    assert (tokens.start, tokens.chosen, tokens[0].special) == (1, "found", True)


def test_what_wins_by_little_is_not_taken(trained: whyword.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    even = {"none": -3.0, "<s>": -2.95, "</s>": -2.91}
    monkeypatch.setattr(start_of_text, "_measure", lambda *_: even)
    found = find_start(load_again(trained))
    assert (found.text, found.chosen, found.likelihoods) == (None, "none found", even)
    assert whyword.tokenize(load_again(trained), TEXT).start == 0


def test_found_once_and_kept_by_weights(trained: whyword.Model, cache: Path, measured: list[int]) -> None:
    first = load_again(trained)
    found = find_start(first)
    assert find_start(first) == find_start(load_again(trained)) == found
    assert len(measured) == len(list(cache.iterdir())) == 1
    assert [record["model"] for record in list_records()] == [trained.name]


def test_nothing_is_measured_before_a_text_is_read(trained: whyword.Model, measured: list[int]) -> None:
    model = whyword.load(trained.network, tokenizer=trained.tokenizer)
    whyword.predict(model, [5, 6, 7])
    whyword.predict(model, [{"role": "user", "content": "A report"}])
    assert not measured
    assert whyword.predict(model, TEXT).start == whyword.tokenize(model, TEXT).describe_start()
    assert len(measured) == 1


def test_a_start_of_other_weights_is_never_used(
    trained: whyword.Model, cache: Path, measured: list[int]
) -> None:
    model = load_again(trained)
    assert find_start(model).text == "</s>"
    weight, (kept,) = model.network.transformer.wpe.weight, cache.iterdir()
    with torch.no_grad():  # changed in place after it was loaded: another checkpoint
        weight.add_(1.0)
        try:
            other = find_start(model)
            assert len(measured) == 2
            planted = [path for path in cache.iterdir() if path != kept]
            planted[0].write_text(kept.read_text())  # the file of one under the name of the other
            assert find_start(load_again(trained)).likelihoods == other.likelihoods
            assert len(measured) == 3
        finally:
            weight.sub_(1.0)
    for damaged in (
        "",
        "{",
        json.dumps({"schema": "whyword.start/1"}),
        kept.read_text().replace("-", "")[:90],
    ):
        kept.write_text(damaged)
        assert find_start(load_again(trained)).text == "</s>"


def test_a_cache_that_cannot_be_written(
    trained: whyword.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("WHYWORD_CACHE", str(tmp_path / "file"))
    assert find_start(load_again(trained)).text == "</s>"


def test_what_a_tokenizer_adds_is_the_start(measured: list[int]) -> None:
    tokenizer = toy_tokenizers.make("sentencepiece-bos")
    model = whyword.load(build("llama", torch.float32, vocab_size=len(tokenizer)), tokenizer=tokenizer)
    assert (find_start(model).text, find_start(model).chosen) == ("<s>", "tokenizer")
    tokens = whyword.tokenize(model, TEXT)
    assert (tokens[0].text, tokens.start, tokens.chosen) == ("<s>", 1, "tokenizer")
    assert whyword.tokenize(model, TEXT, start="none").ids == tokens.ids[1:]
    assert whyword.tokenize(model, TEXT, start="</s>").ids == [2, *tokens.ids[1:]]
    assert not measured


def test_ids_chat_and_typed_marks_are_read_as_they_are(trained: whyword.Model) -> None:
    ids = whyword.tokenize(trained, TEXT, start="none").ids
    assert whyword.explain(trained, ids).tokens.ids == ids
    assert whyword.explain(trained, [2, *ids]).tokens.start == 1
    chat = whyword.explain(trained, [{"role": "user", "content": TEXT}]).tokens
    assert (chat[0].text, chat.start, chat.chosen) == ("<|turn|>", 1, "as given")
    assert whyword.tokenize(trained, f"<s>{TEXT}").ids[0] == 1
    assert whyword.tokenize(trained, f"</s>{TEXT}").ids.count(2) == 1


@pytest.mark.parametrize(
    ("start", "wrong", "remedy"),
    [
        (
            "nowhere near",
            "start is 'nowhere near', which is not one token of ",
            "Its special tokens: <pad>, <s>",
        ),
        ("", "start is ''.", "Pass auto, none, bos"),
    ],
)
def test_a_start_that_is_not_one_token(trained: whyword.Model, start: Any, wrong: str, remedy: str) -> None:
    with pytest.raises(whyword.InputError) as refused:
        whyword.load(trained.network, tokenizer=trained.tokenizer, start=start)
    assert refused.value.wrong.startswith(wrong)
    assert refused.value.remedy.startswith(remedy)


def test_models_without_special_tokens_or_tokenizer(trained: whyword.Model) -> None:
    tokenizer = toy_tokenizers.make("byte-level", SENTENCES)
    tokenizer.bos_token = tokenizer.eos_token = None
    bare = replace(trained, tokenizer=tokenizer, special_ids=frozenset())
    assert find_start(bare).chosen == "none found"
    with pytest.raises(whyword.InputError, match=r"has no BOS token\.[\s\S]*It has no special tokens\."):
        find_start(bare, "bos")
    assert find_start(whyword.load(trained.network)).ids == ()
    with pytest.raises(whyword.InputError, match="was loaded without a tokenizer"):
        whyword.load(trained.network, start="bos")


def test_the_score_of_the_start_stands_apart(trained: whyword.Model) -> None:
    for method in ("logit", "alti-logit", "flow", "erasure"):
        explained = whyword.explain(trained, TEXT, method=method)
        words = explained.words()
        assert [word for word, _ in words] == ["start", "A", "report", "about", "the", "Impressionists"]
        assert sum(score for _, score in words) == pytest.approx(float(explained.scores.sum()), abs=1e-5)
        assert explained.start == words[0][1] == pytest.approx(float(explained.scores[0]))
        document = explained.to_dict()
        start = {"tokens": 1, "text": "</s>", "chosen": "found", "score": explained.start}
        assert document["start"] == start
        assert whyword.Explanation.from_dict(document).tokens == explained.tokens
        answer = "".join(document["wording"]["answer"])
        assert f"{explained.start:+.2f}".replace("-", "−") in answer
        assert "</s>" not in answer
    with pytest.raises(whyword.InputError, match=r"start\.tokens"):
        whyword.Explanation.from_dict({**document, "start": {**start, "tokens": 3}})


def test_a_first_token_that_is_a_sink_is_named(trained: whyword.Model) -> None:
    explained = whyword.explain(trained, TEXT, method="logit")
    without = whyword.explain(load_again(trained, start="none"), TEXT, method="logit")
    by_block = without.by_block.clone()
    by_block[:, 0] = 9.0
    sink = replace(without, by_block=by_block, first_attention=0.67)
    said = "The strongest score is on the first token: “A” is an attention sink (67 % of the attention goes"
    assert said in " ".join(show(sink).split())
    assert "sink" in sink.to_dict()["wording"]
    assert "attention sink" in str(sink._repr_html_())
    for other in (
        explained,
        without,
        replace(sink, first_attention=0.1),
        replace(sink, tokens=explained.tokens.first(6)),
    ):
        assert "sink" not in other.to_dict()["wording"]


def test_the_share_of_attention_on_the_first_token(trained: whyword.Model) -> None:
    explained = whyword.explain(trained, TEXT)
    network = trained.network
    before = network.config._attn_implementation
    network.set_attn_implementation("eager")
    weights = network(torch.tensor([explained.tokens.ids]), output_attentions=True).attentions
    network.set_attn_implementation(before)
    expected = torch.stack([block[0, :, -1, 0] for block in weights]).mean()
    assert explained.first_attention == pytest.approx(float(expected.detach()), abs=1e-5)


def test_evaluations_note_their_start(trained: whyword.Model, tmp_path: Path) -> None:
    for name, given, expected in (
        ("ours", {}, "</s>"),
        ("none", {"start": "none"}, None),
        ("paper", {"conventions": "paper"}, None),
        ("asked", {"conventions": "paper", "start": "<s>"}, "<s>"),
    ):
        evaluate(trained, ["builtin-aga"], tmp_path / name, data="builtin", methods="logit", limit=2, **given)
        settings, records = read_run(tmp_path / name)
        assert settings["start"] == expected
        assert all(
            (record.left_out == (0,)) == (expected is not None) or name == "asked" for record in records
        )


def test_the_command(trained: whyword.Model, tmp_path: Path) -> None:
    trained.network.save_pretrained(tmp_path / "tiny")
    trained.tokenizer.save_pretrained(tmp_path / "tiny")
    folder, run = str(tmp_path / "tiny"), CliRunner().invoke
    for start, text in (("auto", "</s>"), ("none", ""), ("bos", "<s>"), ("</s>", "</s>")):
        shown = run(application, ["predict", TEXT, "-m", folder, "--start", start, "--json"]).stdout
        assert json.loads(shown)["start"]["text"] == text
    doctor = run(application, ["doctor", folder]).stdout
    assert "start of text: </s>, after which plain sentences have </s> -" in doctor
    assert "): </s>" in run(application, ["models"]).stdout
    refused = run(application, ["predict", "5 6", "-m", folder, "--ids", "--start", "bos"])
    assert refused.exit_code == 2
    assert "read as they are" in refused.stderr
    for old, new in (("--bos", "--start bos"), ("--no-bos", "--start none")):
        refused = run(application, ["predict", TEXT, "-m", folder, old])
        assert refused.exit_code == 2
        assert f"Give {new}." in refused.stderr


def test_depth_on_the_command(trained: whyword.Model, tmp_path: Path) -> None:
    trained.network.save_pretrained(tmp_path / "tiny")
    trained.tokenizer.save_pretrained(tmp_path / "tiny")
    asked, run = ["explain", TEXT, "-m", str(tmp_path / "tiny")], CliRunner().invoke
    at_input = json.loads(run(application, [*asked, "--depth", "0", "--json"]).stdout)
    assert (at_input["flow"]["depth"], at_input["method"]) == (0, "flow")
    assert at_input["scores"] == pytest.approx(at_input["flow"]["by_depth"][0], abs=1e-5)
    for options, wrong, remedy in (
        (["--depth", "9"], "--depth is 9.", "Give 0 (before block 1) to 3"),
        (["--depth", "-1"], "--depth is -1.", "Give 0 (before block 1) to 3"),
        (["--depth", "1", "--method", "logit"], "--depth is 1, but logit has no depth.", "flow."),
    ):
        refused = run(application, [*asked, *options])
        assert refused.exit_code == 2
        assert wrong in refused.stderr
        assert remedy in refused.stderr
