"""Runs over datasets: what is measured, what is written, and that nothing is lost or mixed."""

import csv
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

import made_runs
import whyword
from whyword.cli import application
from whyword.data import locate_tokens, read_datasets
from whyword.evaluation import compare_with, evaluate, read_report
from whyword.evaluation.evaluating import FOR_SOURCES, list_evaluated
from whyword.evaluation.figures import FIGURES
from whyword.evaluation.metrics import expect_reciprocal_rank
from whyword.evaluation.panels import STYLE
from whyword.evaluation.printed_tables import print_reports
from whyword.evaluation.records import read_run
from whyword.evaluation.report import summarise
from whyword.evaluation.tables import lay_out
from whyword.trace import untouched_run

import toy_tokenizers
from families import build, other_weights

NAMES = ["builtin-aga", "builtin-dna", "builtin-ioi"]
METHODS = ["logit", "alti-logit", "erasure", "gradient-norm"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model whose tokenizer knows the words of the built-in suite."""
    path = tmp_path_factory.mktemp("model") / "tiny"
    examples = [example for dataset in read_datasets(NAMES, "builtin") for example in dataset.examples]
    words = [f"{example.prefix} {word}" for example in examples for word in (example.target, example.foil)]
    tokenizer = toy_tokenizers.make("byte-level", words, 2000)
    build("gpt2", torch.float32, vocab_size=len(tokenizer), n_positions=256).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def model(folder: Path) -> whyword.Model:
    return whyword.load(str(folder), start="tokenizer")


@pytest.fixture(scope="module")
def run(model: whyword.Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "whole"
    evaluate(model, NAMES, out, data="builtin", methods=METHODS, limit=4)
    return out


def test_mrr_is_what_explanations_give(model: whyword.Model, run: Path) -> None:
    report = read_report(run)
    for dataset in read_datasets(NAMES, "builtin"):
        used = [record for record in read_run(run)[1] if record.dataset == dataset.name]
        row = next(row for row in report.rows if row.name == dataset.name)
        assert row.used == len(used) > 0
        for method in ("logit", "alti-logit", "erasure"):
            ranks = []
            for record in used:
                example = dataset.examples[record.row]
                e = whyword.explain(
                    model, example.prefix, target=example.target, foil=example.foil, method=method
                )
                assert e.ledger.logit == pytest.approx(record.difference, rel=1e-4, abs=1e-5)
                ranks.append(expect_reciprocal_rank(e.scores.tolist(), locate_tokens(e.tokens, example.word)))
            cell = row.cells["MRR"][method]
            assert cell.mean == pytest.approx(sum(ranks) / len(ranks), abs=1e-6)
            assert cell.low <= cell.mean <= cell.high
        assert row.accuracy == sum(record.difference > 0 for record in used) / len(used)


def test_every_row_is_used_or_listed(run: Path) -> None:
    report = read_report(run)
    assert all(row.used + sum(row.skipped.values()) == 4 for row in report.rows)
    skipped = [json.loads(line) for line in (run / "skipped.jsonl").read_text().splitlines()]
    assert len(skipped) == sum(sum(row.skipped.values()) for row in report.rows)


def test_the_tables(run: Path) -> None:
    text = (run / "table.md").read_text()
    for heading in ("## MRR", "## probes needed", "## dot product", "## AUPRC", "## comprehensiveness"):
        assert heading in text
    assert "| **builtin** |" in text
    assert "| ALTI-Logit |" in text.replace("  ", " ")
    assert "Signature: model:tiny@" in text
    assert "conventions:ours" in text
    numbers = list(csv.DictReader((run / "table.csv").open()))
    report = read_report(run)
    for line in numbers:
        row = next(row for row in (*report.rows, *report.groups) if row.name == line["dataset"])
        assert float(line["mean"]) == pytest.approx(row.cells[line["metric"]][line["method"]].mean, abs=1e-4)
    latex = (run / "table.tex").read_text()
    assert latex.count(r"\begin{tabular}") == latex.count(r"\end{tabular}") == 7


@pytest.mark.real
def test_documents_are_ranked_where_the_model_answers_right(smollm: whyword.Model, tmp_path: Path) -> None:
    made = evaluate(smollm, ["builtin-sources-2"], tmp_path, limit=4)
    (dataset,) = read_datasets(["builtin-sources-2"])
    settings, records = read_run(tmp_path)
    assert settings["methods"] == list(FOR_SOURCES)
    row = made.rows[0]
    first = [whyword.predict(smollm, each.prefix, top=1)[0].text.strip() for each in dataset.examples[:4]]
    right = [place for place, word in enumerate(first) if dataset.examples[place].target.startswith(word)]
    assert [record.row for record in records] == right
    assert row.used + sum(row.skipped.values()) == 4
    example = dataset.examples[records[0].row]
    spans = {f"documents[{place}]": span for place, span in enumerate(example.parts)}
    for method in ("flow", "erasure"):
        erased = {"parts": spans} if method == "erasure" else {}
        e = whyword.explain(
            smollm, example.prefix, target=example.target, foil=example.foil, method=method, **erased
        )
        found = [e.by(spans=spans)[name] for name in spans]
        assert list(records[0].scores[method]) == pytest.approx(found, rel=1e-3, abs=1e-4)
    assert (records[0].tokens, records[0].evidence) == (2, (example.parts.index(example.word[0]),))
    assert set(records[0].faithfulness) == set(FOR_SOURCES)
    assert sum(each.used for each in made.positions[0].rows) == row.used
    assert "## top 1 by position, builtin-sources-2" in (tmp_path / "table.md").read_text()
    with pytest.raises(whyword.InputError, match="builtin-sources-2 ranks documents"):
        evaluate(smollm, ["builtin-sources-2"], tmp_path / "other", swaps=1)


def test_faithfulness_is_what_erasing_does(model: whyword.Model, run: Path) -> None:
    """One example done again by hand, with the attention mask of the network itself."""
    record = max((each for each in read_run(run)[1]), key=lambda each: each.tokens)
    (dataset,) = read_datasets([record.dataset], "builtin")
    example = dataset.examples[record.row]
    e = whyword.explain(model, example.prefix, target=example.target, foil=example.foil, method="alti-logit")
    assert len(e.tokens) == record.tokens
    count = -(-record.tokens // 5)
    top = e.scores.argsort(descending=True)[:count].tolist()

    def prefer(hidden: list[int]) -> float:
        mask = torch.ones(1, record.tokens, dtype=torch.long)
        mask[0, hidden] = 0
        with torch.no_grad():
            logits = model.network(torch.tensor([e.tokens.ids]), attention_mask=mask).logits[0, -1]
        chances = logits.softmax(-1)
        return float(chances[e.target.id] / (chances[e.target.id] + chances[e.foil.id]))

    rest = [index for index in range(record.tokens) if index not in top]
    comprehensiveness, sufficiency = record.faithfulness["alti-logit"]
    assert comprehensiveness == pytest.approx(prefer([]) - prefer(top), abs=1e-5)
    assert sufficiency == pytest.approx(prefer([]) - prefer(rest), abs=1e-5)


def test_what_was_compared_in_one_evaluation_is_not_compared_in_the_next(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, runs = whyword.load(str(folder), start="tokenizer"), []
    run_untouched = untouched_run._run_untouched
    monkeypatch.setattr(
        untouched_run, "_run_untouched", lambda *given: runs.append(given) or run_untouched(*given)
    )
    for name in ("first", "second"):
        runs.clear()
        evaluate(own, NAMES[:1], tmp_path / name, data="builtin", methods=["logit"], limit=4)
        assert bool(runs) == (name == "first")


def test_a_run_that_is_there_goes_on_and_repairs_a_cut_line(
    model: whyword.Model, run: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = (run / "examples.jsonl").read_bytes()
    for name in ("settings.json", "examples.jsonl"):
        (tmp_path / name).write_bytes((run / name).read_bytes())
    (tmp_path / "examples.jsonl").write_bytes(whole[: len(whole) * 2 // 3])
    evaluate(model, NAMES, tmp_path, data="builtin", methods=METHODS, limit=4)
    assert "the last line is incomplete" in caplog.text
    assert sorted((tmp_path / "examples.jsonl").read_bytes().splitlines()) == sorted(whole.splitlines())
    assert (tmp_path / "table.md").read_bytes() == (run / "table.md").read_bytes()


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"methods": ["logit"]}, "the number of entries of methods"),
        ({"limit": 3}, r"datasets.builtin-aga.rows"),
        ({"conventions": "paper"}, "conventions"),
        ({"seed": 1}, "seed"),
    ],
)
def test_other_settings_are_refused(
    model: whyword.Model, run: Path, changed: dict[str, Any], named: str
) -> None:
    settings: dict[str, Any] = {"data": "builtin", "methods": METHODS, "limit": 4, **changed}
    before = (run / "examples.jsonl").read_bytes()
    with pytest.raises(whyword.InputError, match=rf"holds a run with other settings: {named} is ") as error:
        evaluate(model, NAMES, run, **settings)
    assert "runs are not mixed" in str(error.value)
    with (
        other_weights(model.network),
        pytest.raises(whyword.InputError, match="holds a run with other settings: weights is"),
    ):
        evaluate(model, NAMES, run, data="builtin", methods=METHODS, limit=4)
    assert (run / "examples.jsonl").read_bytes() == before


def test_the_published_protocol(model: whyword.Model, tmp_path: Path) -> None:
    """The embedding is added at the last token, and words are cut to their first tokens."""
    report = evaluate(
        model, ["builtin-dna"], tmp_path, data="builtin", methods=["logit"], limit=6, conventions="paper"
    )
    assert report.settings["evidence"] == "paper"
    for record in read_run(tmp_path)[1]:
        example = read_datasets(["builtin-dna"], "builtin")[0].examples[record.row]
        e = whyword.explain(model, example.prefix, target=example.target, foil=example.foil, method="logit")
        assert len(e.tokens) == record.tokens
        expected = e.scores.clone()
        expected[-1] += e.ledger.embedding
        assert record.scores["logit"] == pytest.approx(expected.tolist(), rel=1e-4, abs=1e-5)


KILLED = """
import os, random, signal, sys, time
import torch
torch.set_num_threads(1)
import whyword
from whyword.evaluation import evaluate, evaluating
evaluating._WINDOW = 3
folder, out, cycles, rows = *sys.argv[1:3], *map(int, sys.argv[3:])
model = whyword.load(folder, start="tokenizer")
random.seed(0)
refused = killed = 0

def run():
    child = os.fork()
    if child:
        return child
    names, methods = ["builtin-aga", "builtin-dna"], ["logit", "alti-logit"]
    try:
        evaluate(model, names, out, data="builtin", methods=methods, limit=rows)
    except whyword.InputError as error:
        os._exit(2 if "is being written by process" in str(error) else 3)
    except BaseException:
        os._exit(4)
    os._exit(0)

for cycle in range(cycles):
    children = [run(), run()]
    time.sleep(random.uniform(0.05, 0.4))
    for child in random.sample(children, 2):
        os.kill(child, signal.SIGKILL)
    statuses = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert set(statuses) <= {0, 2, -signal.SIGKILL}, statuses
    refused, killed = refused + statuses.count(2), killed + statuses.count(-signal.SIGKILL)
    path = out + "/examples.jsonl"
    if os.path.exists(path) and cycle % 3 == 2:  # what a machine that goes down may leave
        os.truncate(path, max(0, os.path.getsize(path) - random.randrange(1, 40)))
print(refused, killed)
"""
CYCLES = int(os.environ.get("WHYWORD_CYCLES", "8"))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="starts its processes as POSIX does")
def test_two_processes_killed_and_resumed_again_and_again(
    folder: Path, model: whyword.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`make fuzz` does it a hundred times: one table, byte-equal to that of a run that nobody disturbed."""
    rows = 60 + CYCLES
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(folder), str(tmp_path / "killed"), str(CYCLES), str(rows)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    refused, killed = map(int, done.stdout.split())
    assert refused > 0
    assert killed > 0
    monkeypatch.setattr("whyword.evaluation.evaluating._WINDOW", 3)
    for out in ("killed", "whole"):
        evaluate(
            model,
            ["builtin-aga", "builtin-dna"],
            tmp_path / out,
            data="builtin",
            methods=["logit", "alti-logit"],
            limit=rows,
        )
    for name in ("examples.jsonl", "skipped.jsonl", "table.csv", "table.md", "table.tex"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
    found = [(record.dataset, record.row) for record in read_run(tmp_path / "killed")[1]]
    assert len(found) == len(set(found)) == 2 * rows


def command(*arguments: str, code: int = 0) -> tuple[str, str]:
    result = CliRunner().invoke(application, list(arguments), env={"COLUMNS": "80"})
    assert result.exit_code == code, result.output + repr(result.exception)
    return result.stdout, result.stderr


def test_the_command_and_what_is_expected(folder: Path, tmp_path: Path) -> None:
    out, expected = tmp_path / "run", tmp_path / "published.csv"
    asked = ["evaluate", "aga", "ioi", "-m", str(folder), "--data", "builtin", "--out", str(out)]
    asked += ["--limit", "6", "--methods", "logit,random", "--faithfulness", "0"]
    shown, said = command(*asked)
    assert "builtin-aga" in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert "model:" not in shown
    assert "model:tiny@" in command("table", str(out), "--signature")[0]
    assert "table.tex" in said
    report = read_report(out)
    mean = report.rows[0].cells["MRR"]["logit"].mean
    expected.write_text(
        f"dataset,Logit,Random,unknown\nbuiltin-aga,{mean + 0.015:.3f},,\nbuiltin-ioi,9.0,,1\n"
    )
    shown, _ = command(*asked, "--expect", str(expected), code=1)
    assert "builtin-ioi, logit: " in shown
    assert "9.000 expected" in shown
    assert "1 of 2 figures within 0.02" in shown
    document = json.loads(command(*asked, "--json")[0])
    assert document["schema"] == "whyword.table/1"


def test_runs_side_by_side(run: Path) -> None:
    shown, _ = command("table", str(run), str(run), "--format", "md")
    assert shown.count("tiny: ALTI-Logit |") >= 2
    assert command("table", str(run), "--format", "csv")[0] == (run / "table.csv").read_text()
    assert json.loads(command("table", str(run), "--json")[0])[0]["settings"]["model"] == "tiny"


def test_figures(run: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    _, said = command("figures", str(run), str(run), code=2)
    assert "Name one: --out DIR." in said
    shown, _ = command("figures", str(run), str(run), "--out", str(tmp_path))
    names = {"mrr", "mrr-by-block", "evidence", "difference", "parts"}
    assert {Path(line).name for line in shown.split()} == {f"{n}.{e}" for n in names for e in ("png", "svg")}
    assert b"ALTI-Logit" in (tmp_path / "mrr.svg").read_bytes()
    assert all(path.stat().st_size > 5000 for path in tmp_path.iterdir())


def test_flow_comes_first_and_the_conventions_of_the_paper_have_its_methods_only() -> None:
    published = ("erasure", "logit", "alti-logit", "gradient-norm", "gradient-x-input")
    assert set(list_evaluated("paper")) == set(published)
    assert list_evaluated(None) == ("flow", *list_evaluated("paper"))
    assert list_evaluated(None, "paper") == list_evaluated("paper")


def test_bad_input(model: whyword.Model, run: Path, tmp_path: Path) -> None:
    with pytest.raises(whyword.InputError, match=r"There is no dataset 'agaa'"):
        evaluate(model, ["agaa"], tmp_path, data="builtin")
    with pytest.raises(whyword.InputError, match=r"There is no method 'logits'\.\nMethods: "):
        evaluate(model, ["aga"], tmp_path, data="builtin", methods=["logits"])
    with pytest.raises(whyword.InputError, match=r"no conventions 'mine'\.\nThere are: ours, paper"):
        evaluate(model, ["aga"], tmp_path, data="builtin", conventions="mine")
    with pytest.raises(whyword.InputError, match="is not the folder of a run"):
        read_report(tmp_path)
    strange = tmp_path / "strange.csv"
    strange.write_text("set,logit\naga,1\n")
    with pytest.raises(whyword.InputError, match="It needs a column dataset"):
        compare_with(strange, read_report(run))
    strange.write_text("dataset,logit\nnpi,1\n")
    with pytest.raises(whyword.InputError, match="has no figure for what was measured"):
        compare_with(strange, read_report(run))
    (tmp_path / "examples.jsonl").write_text("{}\n")
    with pytest.raises(whyword.InputError, match=r"has examples.jsonl but no settings\.json"):
        evaluate(model, ["aga"], tmp_path, data="builtin")


REFERENCE = {
    "aga": (0.82, 0.89),
    "dnaa": (0.64, 0.40),
}
"""MRR of logit and alti-logit on the default model, first 100 rows, evidence = the word."""


@pytest.mark.real
def test_the_default_model_on_published_data(smollm: whyword.Model, shared: Path, tmp_path: Path) -> None:
    report = evaluate(
        smollm,
        list(REFERENCE),
        tmp_path,
        data=shared / "data",
        methods=["logit", "alti-logit"],
        limit=100,
        faithfulness=None,
        start="none",
    )
    found = {
        row.name: tuple(row.cells["MRR"][method].mean for method in ("logit", "alti-logit"))
        for row in report.rows
    }
    assert found == {name: pytest.approx(numbers, abs=0.02) for name, numbers in REFERENCE.items()}


def test_a_table_of_runs_of_different_size_shows_the_size_of_each() -> None:
    whole = made_runs.make_run("one")
    records = [
        each for name, own in whole.records.items() for each in own if each.row < (4 if name == "aga" else 6)
    ]
    short = summarise(whole.report.settings, records, [])
    sheet = lay_out([whole.report, short])
    rows = {name: (used, skipped) for name, used, skipped, *_ in sheet.rows}
    assert rows["aga"] == ("6/4", "0")
    assert rows["ana"] == ("6", "0")


@pytest.mark.parametrize("prefix", ["", "builtin-"])
def test_no_label_of_a_figure_is_on_another(prefix: str) -> None:
    """18 blocks, 14 datasets, 7 methods, a model with a long name: matplotlib says where every text is."""
    matplotlib = pytest.importorskip("matplotlib")
    long = "organisation/a-model-with-a-very-long-name-7b-instruct-v2"
    runs = [made_runs.make_run(model, prefix=prefix) for model in ("smollm2-135m-instruct", long)]
    for name, draw in FIGURES.items():
        with matplotlib.rc_context(STYLE):
            if (figure := draw(runs)) is None:
                continue
            figure.draw_without_rendering()
            boxes = {text: place_of(text) for text in list_texts(figure) if text.get_text()}
        assert len(boxes) > 20, name
        texts, corners = list(boxes), list(boxes.values())
        for one, two in list_near(np.stack(corners)):
            shown = name, texts[one].get_text(), texts[two].get_text()
            assert not overlap(corners[one], corners[two]), shown
        for text, box in boxes.items():
            assert (box >= -1).all(), (name, text.get_text())
            assert (box <= [figure.bbox.width + 1, figure.bbox.height + 1]).all(), (name, text.get_text())


def list_texts(figure: Any) -> Iterator[Any]:
    """Give the texts of a figure: titles, labels of axes and of ticks, legends."""
    for legend in figure.legends:
        yield from legend.get_texts()
    for axes in figure.axes:
        if not axes.axison:
            continue
        yield from (axes._left_title, *axes.texts)
        for axis, place, limits in ((axes.xaxis, 0, axes.get_xlim()), (axes.yaxis, 1, axes.get_ylim())):
            if not axis.get_visible():  # that of a twin
                continue
            yield axis.label
            for label in axis.get_ticklabels():
                if min(limits) <= label.get_position()[place] <= max(limits):
                    yield label


def place_of(text: Any) -> Any:
    """Give the corners of a text, turned as it is."""
    angle = text.get_rotation()
    upright = copy(text)
    if aslant := angle % 90:
        upright.set_rotation(0)
    box = upright.get_window_extent()
    corners = np.array([[box.x0, box.y0], [box.x1, box.y0], [box.x1, box.y1], [box.x0, box.y1]])
    if not aslant:
        return corners
    anchor = text.get_transform().transform(text.get_position())
    turn = np.radians(angle)
    return (corners - anchor) @ [[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]] + anchor


def list_near(corners: Any) -> list[tuple[int, int]]:
    """List pairs of rectangles whose upright hulls share points: no others can overlap."""
    low, high = corners.min(1), corners.max(1)
    near = ((low[:, None] < high) & (low < high[:, None])).all(2)
    return [(int(one), int(two)) for one, two in np.argwhere(np.triu(near, 1))]


def test_rectangles_that_share_points_overlap() -> None:
    square = np.array([[0, 0], [2, 0], [2, 2], [0, 2]])
    corners = np.stack([square, square + 1, square + 2, square * [1, -1] - 0.5])
    assert list_near(corners) == [(0, 1), (1, 2)]
    assert overlap(corners[0], corners[1])
    assert not overlap(corners[0], corners[2])
    tilted = np.array([[1, -1], [3, 1], [1, 3], [-1, 1]])
    assert list_near(np.stack([tilted, square + 2])) == [(0, 1)]
    assert not overlap(tilted, square + 2)


def overlap(one: Any, two: Any) -> bool:
    """Tell whether two rectangles share points: no side of either is between them."""
    sides = [box[corner + 1] - box[corner] for box in (one, two) for corner in (0, 1)]
    return all(
        (one @ side).max() > (two @ side).min() and (two @ side).max() > (one @ side).min() for side in sides
    )


def test_tables_of_two_models_fit_80_columns() -> None:
    """Datasets are rows; no line is longer than the terminal, and every number of the table is there."""
    runs = [made_runs.make_run("smollm2-135m-instruct"), made_runs.make_run("gemma-3-270m", seed=1)]
    for width in (80, 140):
        console = Console(width=width, record=True, file=io.StringIO())
        print_reports([run.report for run in runs], console)
        shown = console.export_text()
        assert max(map(len, shown.splitlines())) <= width
        for run in runs:
            for row in (*run.report.rows, *run.report.groups):
                for cell in row.cells["MRR"].values():
                    assert f"{cell.mean:.3f}" in shown
        words = " ".join(shown.split())
        assert words.count("dnaa = determiner–noun agreement with an adjective;") == 1
        assert "ALTI.L = ALTI-Logit" in words
        assert "model:" not in shown
        assert {line.split()[0] for line in shown.splitlines() if line.startswith("dnaa ")} == {"dnaa"}
    assert shown.count("signature ") == 2
