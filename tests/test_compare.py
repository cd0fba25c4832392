"""Several methods for one prediction: one document, and every view of it and of a baseline alone."""

import csv
import io
import json
import math
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.cells import cell_len
from rich.console import Console

import whyword
from whyword.attribute.methods import COMPARED, METHODS
from whyword.view.grid import lay_out, name_unit
from whyword.view.html import render_html
from whyword.view.latex import render_latex
from whyword.view.terminal import print_document
from whyword.view.wording import caution, prediction

from families import build

TEXT = "A report about the Impressionists"


@pytest.fixture(scope="module")
def model(byte_level: whyword.Model) -> whyword.Model:
    return byte_level


@pytest.fixture(scope="module")
def comparison(model: whyword.Model) -> whyword.Comparison:
    return whyword.compare(model, TEXT, target="has", foil="have")


def draw(document: dict[str, Any], width: int, **options: Any) -> str:
    file = io.StringIO()
    print_document(document, Console(width=width, file=file, color_system=None), **options)
    return file.getvalue()


def test_a_comparison_is_an_explanation_for_every_method(
    model: whyword.Model, comparison: whyword.Comparison
) -> None:
    assert tuple(comparison) == COMPARED
    for name in ("alti-logit", "erasure", "gradient-norm"):
        alone = whyword.explain(model, TEXT, target="has", foil="have", method=name)
        torch.testing.assert_close(comparison[name].by_block, alone.by_block)
        assert comparison[name].method == name
    assert repr(comparison).startswith("<Comparison: why ' has' not ' have' after ")
    with pytest.raises(KeyError):
        comparison["erasure-logits"]


def test_a_comparison_is_saved_and_read(comparison: whyword.Comparison, tmp_path: Path) -> None:
    comparison.save(tmp_path / "c.json")
    again = whyword.read(tmp_path / "c.json")
    assert isinstance(again, whyword.Comparison)
    assert again.to_dict() == comparison.to_dict()
    for name in comparison:
        assert torch.equal(again[name].by_block, comparison[name].by_block)
    document = json.loads((tmp_path / "c.json").read_text())
    assert document["schema"] == "whyword.comparison/1"
    assert document["methods"][3]["measure"]["unit"] == "probability"


@pytest.mark.parametrize("method", sorted(METHODS))
def test_a_baseline_is_saved_and_read(model: whyword.Model, method: str, tmp_path: Path) -> None:
    e = whyword.explain(model, TEXT, target="has", foil="have", method=method)
    e.save(tmp_path / "e.json")
    assert whyword.read(tmp_path / "e.json").to_dict() == e.to_dict()
    assert e.to_dict()["measure"]["unit"] == METHODS[method].measure.unit


def test_methods_that_cannot_be_compared(model: whyword.Model) -> None:
    with pytest.raises(whyword.InputError, match=r"The methods are one text, 'logit'\.\nPass a list"):
        whyword.compare(model, TEXT, methods="logit")
    with pytest.raises(whyword.InputError, match=r"There is no method 'shap'\.\nMethods: flow, alti-logit"):
        whyword.compare(model, TEXT, methods=["logit", "shap"])
    with pytest.raises(whyword.InputError, match="No method is named"):
        whyword.compare_batch(model, [TEXT], methods=[])


def test_a_grid_has_a_row_and_a_unit_for_every_method(comparison: whyword.Comparison) -> None:
    document = comparison.to_dict()
    grid = lay_out(document)
    assert [row.label for row in grid.rows] == list(COMPARED)
    assert grid.sum is None
    for row, each in zip(grid.rows, document["methods"], strict=True):
        assert row.unit is not None
        assert row.unit.startswith(each["measure"]["unit"].replace("none", "no unit").split(" ×")[0])
        assert grid.scale_of(row) == row.largest
        power = 0 if "10" not in row.unit else round(_power_of(row.values, each["scores"]))
        assert list(row.values) == pytest.approx([score / 10**power for score in each["scores"]])
    words = lay_out(document, "word")
    assert words.columns == ("A", "report", "about", "the", "Impressionists")
    with pytest.raises(whyword.InputError, match=r"by is 'head'\.\nA comparison is shown by token or word"):
        lay_out(document, "head")
    assert len(lay_out(document, "token", top=2).columns) == 2


def _power_of(shown: Any, scores: list[float]) -> float:
    place = max(range(len(scores)), key=lambda index: abs(scores[index]))
    return math.log10(scores[place] / shown[place])


def test_units_have_powers_of_ten() -> None:
    assert name_unit("probability", -2) == "probability × 10⁻²"
    assert name_unit("share", 0) == "share"
    assert (name_unit("none", 0), name_unit("none", 3)) == ("no unit", "10³")


@pytest.mark.parametrize("width", [60, 80, 140])
@pytest.mark.parametrize("by", ["token", "word"])
def test_the_terminal_keeps_to_its_width(comparison: whyword.Comparison, width: int, by: str) -> None:
    shown = draw(comparison.to_dict(), width, by=by)
    assert all(cell_len(line) <= width for line in shown.splitlines())
    assert all(name in shown for name in COMPARED)
    assert "probability" in shown


@pytest.mark.parametrize("by", ["block", "token", "word", "head"])
def test_the_terminal_says_what_the_scores_of_a_baseline_are(model: whyword.Model, by: str) -> None:
    e = whyword.explain(model, TEXT, target="has", foil="have", method="attention")
    shown = draw(e.to_dict(), 100, by=by)
    assert "error" in shown
    if by == "head":
        assert "updates before mixing" in shown
    else:
        assert "score: attention weights in the last block, averaged over heads; in share" in shown
        assert "scores do not add up to it · the same for every target and foil" in shown.replace("\n", " ")


def test_scores_that_add_up_are_shown_as_before(model: whyword.Model) -> None:
    e = whyword.explain(model, TEXT, target="has", foil="have", method="logit")
    assert "score:" not in draw(e.to_dict(), 100)
    assert caution(e.to_dict()).startswith("exact: tokens add up to attention's part · ")


def test_a_capped_logit_stands_beside() -> None:
    model = whyword.load(build("gemma2", torch.float64))
    document = whyword.explain(model, [3, 4, 5], target=5, foil=9, method="erasure").to_dict()
    assert f"(capped {document['target']['capped']:.2f})" in prediction(document)
    old = {**document, "target": {k: v for k, v in document["target"].items() if k != "capped"}, "foils": []}
    assert "capped" not in prediction(old)


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_latex_compiles(comparison: whyword.Comparison, tmp_path: Path) -> None:
    for name, each in {"all": comparison, "one": comparison["erasure"]}.items():
        (tmp_path / f"{name}.tex").write_text(render_latex(each.to_dict()), encoding="utf-8")
        command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", f"{name}.tex"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace")
        assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "all.tex").read_text().count(r"\whyrow{") == len(COMPARED)


def test_pictures_tables_and_pages(comparison: whyword.Comparison, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    comparison.save(tmp_path / "c.svg")
    drawn = (tmp_path / "c.svg").read_text()
    assert all(f">{name}<" in drawn for name in COMPARED)
    comparison["erasure"].save(tmp_path / "e.png")
    assert (tmp_path / "e.png").read_bytes().startswith(b"\x89PNG")
    comparison.save(tmp_path / "c.csv")
    with open(tmp_path / "c.csv", newline="") as file:
        records = list(csv.DictReader(file))
    assert len(records) == len(COMPARED) * len(comparison.tokens)
    erased = [record for record in records if record["method"] == "erasure"]
    assert {record["unit"] for record in erased} == {"probability"}
    assert [float(record["score"]) for record in erased] == pytest.approx(
        comparison["erasure"].scores.tolist()
    )
    page = render_html([comparison.to_dict(), comparison["erasure"].to_dict()])
    assert "whyword.comparison/1" in page


def test_a_continuation_by_a_baseline(model: whyword.Model, tmp_path: Path) -> None:
    c = whyword.explain_continuation(model, "A report", " about the", foil="auto", method="erasure")
    c.save(tmp_path / "c.json")
    assert whyword.read(tmp_path / "c.json").to_dict() == c.to_dict()
    shown = draw(c.to_dict(), 140)
    assert "in probability" in shown
    assert "scores do not add up" in shown
