"""Two explanations word by word: what another prompt or another model changes."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

import whyword
from whyword.cli import application
from whyword.view.difference_table import print_difference

import toy_tokenizers
from families import build

FIRST, LONGER, OTHER = "The report about the painter", "The old reports about painters", "She said that he"
ASKED: dict[str, Any] = {"target": "has", "foil": "have"}


def make_model(family: str, name: str) -> whyword.Model:
    tokenizer = toy_tokenizers.make("byte-level")
    network = build(family, torch.float32, vocab_size=len(tokenizer))
    network.config._name_or_path = name
    return whyword.load(network, tokenizer=tokenizer, start="bos")


@pytest.fixture(scope="module")
def gpt2() -> whyword.Model:
    return make_model("gpt2", "one")


@pytest.fixture(scope="module")
def llama() -> whyword.Model:
    return make_model("llama", "two")


@pytest.mark.parametrize("method", ["flow", "logit", "alti-logit"])
@pytest.mark.parametrize("second", [LONGER, OTHER, FIRST])
def test_both_columns_and_the_difference_add_up(
    gpt2: whyword.Model, llama: whyword.Model, method: str, second: str
) -> None:
    """To the model's own numbers, whatever is paired with what."""
    other = llama if second == FIRST else gpt2
    one = whyword.explain(gpt2, FIRST, **ASKED, method=method)
    two = whyword.explain(other, second, **ASKED, method=method)
    found = whyword.difference(one, two)
    assert found.rest is not None
    rows = [*found.words, found.rest]
    assert sum(row.first_score for row in rows) == pytest.approx(one.ledger.logit, abs=1e-4)
    assert sum(row.second_score for row in rows) == pytest.approx(two.ledger.logit, abs=1e-4)
    assert sum(row.difference for row in rows) == pytest.approx(found.difference, abs=1e-4)
    assert found.difference == two.ledger.logit - one.ledger.logit
    for row in rows:
        assert row.difference == pytest.approx(row.second_score - row.first_score)
    scores = dict(one.words())
    assert {row.first: row.first_score for row in found.words if row.first in scores} == pytest.approx(scores)
    assert found.words[0].start


def test_words_are_paired_by_place_or_by_what_both_have(gpt2: whyword.Model) -> None:
    one, two, three = (whyword.explain(gpt2, text, **ASKED) for text in (FIRST, LONGER, OTHER))
    pairs = [(row.first, row.second) for row in whyword.difference(one, two).words]
    assert pairs == [("start", "start"), *zip(FIRST.split(), LONGER.split(), strict=True)]
    longer = whyword.explain(gpt2, "The old report about the other painter", **ASKED)
    pairs = [(row.first, row.second) for row in whyword.difference(one, longer).words[1:]]
    assert pairs == [
        ("The", "The"),
        (None, "old"),
        ("report", "report"),
        ("about", "about"),
        ("the", "the"),
        (None, "other"),
        ("painter", "painter"),
    ]
    back = [(row.second, row.first) for row in whyword.difference(longer, one).words[1:]]
    assert back == pairs
    assert [row.first for row in whyword.difference(one, three).words if row.first][1:] == FIRST.split()


def test_what_is_shown(gpt2: whyword.Model) -> None:
    one, two = (whyword.explain(gpt2, text, **ASKED) for text in (FIRST, LONGER))
    found = whyword.difference(one, two)
    for width in (80, 140):
        console = Console(width=width, record=True, file=io.StringIO())
        print_difference(found.to_dict(), console)
        shown = console.export_text()
        assert max(map(len, shown.splitlines())) <= width
        assert shown.startswith("Why “has” and not “have”: what changes?")
        assert "report → reports" in shown or "old → report" in shown or "report → old" in shown
        assert f"{one.ledger.logit:+.2f}" in shown
        assert f"{two.ledger.logit:+.2f}" in shown
    wording = found.to_dict()["wording"]
    assert wording["answer"][0].startswith("The logit difference goes from ")


def test_what_has_no_difference(gpt2: whyword.Model) -> None:
    one = whyword.explain(gpt2, FIRST, **ASKED)
    with pytest.raises(whyword.InputError, match="another method: 'flow' and 'logit'"):
        whyword.difference(one, whyword.explain(gpt2, FIRST, **ASKED, method="logit"))
    with pytest.raises(whyword.InputError, match="another target: 'has' and 'been'"):
        whyword.difference(one, whyword.explain(gpt2, FIRST, target="been", foil="have"))
    with pytest.raises(whyword.InputError, match="two explanations, not a Prediction"):
        whyword.difference(one, whyword.predict(gpt2, FIRST))  # type: ignore[arg-type]
    blind = whyword.difference(
        *(whyword.explain(gpt2, text, **ASKED, method="attention") for text in (FIRST, LONGER))
    )
    assert blind.rest is None


def test_the_command(gpt2: whyword.Model, llama: whyword.Model, tmp_path: Path) -> None:
    for model, name in ((gpt2, "one"), (llama, "two")):
        model.network.save_pretrained(tmp_path / name)
        model.tokenizer.save_pretrained(tmp_path / name)
    models = ["-m", str(tmp_path / "one"), "-m", str(tmp_path / "two")]

    def run(*arguments: str, code: int = 0) -> Any:
        done = CliRunner().invoke(application, ["explain", FIRST, *arguments], env={"COLUMNS": "80"})
        assert done.exit_code == code, done.output + repr(done.exception)
        return done

    words = ["-t", "has", "-f", "have", "--start", "bos"]
    files = [tmp_path / f"d.{ending}" for ending in ("json", "html", "tex", "png", "svg", "csv")]
    saving = [part for file in files for part in ("-o", str(file))]
    done = run("--versus", LONGER, *models[:2], *words, *saving)
    assert "what changes?" in done.stdout
    assert all(file.stat().st_size > 100 for file in files)
    found = whyword.read(files[0])
    expected = whyword.difference(*(whyword.explain(gpt2, text, **ASKED) for text in (FIRST, LONGER)))
    assert found.difference == pytest.approx(expected.difference, abs=1e-4)
    both = json.loads(run("--difference", *models, *words, "--json").stdout)
    assert both["first"]["model"] != both["second"]["model"]
    assert both["second"]["logit"] == pytest.approx(
        whyword.explain(llama, FIRST, **ASKED).ledger.logit, abs=1e-4
    )
    # What the first model chose itself is asked of the second, too.
    chosen = json.loads(run("--versus", OTHER, *models[:2], "--start", "bos", "--json").stdout)
    own = whyword.explain(gpt2, FIRST)
    assert [chosen[side]["target"]["id"] for side in ("first", "second")] == [own.target.id] * 2
    assert [chosen[side]["foils"][0]["id"] for side in ("first", "second")] == [own.foil.id] * 2
    assert "Name two: -m A -m B." in run("--difference", *models[:2], code=2).stderr
    assert "one at a time" in run("--difference", "--versus", LONGER, *models, code=2).stderr
    assert "leave them out" in run("--versus", LONGER, "--by", "head", *models[:2], code=2).stderr
