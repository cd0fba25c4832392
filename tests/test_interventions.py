"""Flow at several depths from one run, and agreement with swaps: against plain runs of the network."""

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import whyword
from test_foreign_code import steer_last, steer_row
from whyword.ask.prompt import token_text
from whyword.cli import application
from whyword.data import read_datasets
from whyword.evaluation import evaluate, read_report
from whyword.evaluation.conventions import CONVENTIONS, Prepared, prepare
from whyword.evaluation.metrics import correlate, correlate_ranks
from whyword.evaluation.reading_depth import measure_depths
from whyword.evaluation.records import Record, read_run
from whyword.evaluation.swaps import Swaps, _draw_rounds, measure_swaps

import toy_tokenizers
from families import build

NAMES = ["builtin-aga", "builtin-ioi"]
METHODS = ["flow", "flow@0", "flow@2", "logit", "gim"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "tiny"
    examples = [example for dataset in read_datasets(NAMES, "builtin") for example in dataset.examples]
    words = [f"{example.prefix} {word}" for example in examples for word in (example.target, example.foil)]
    tokenizer = toy_tokenizers.make("byte-level", words, 2000)
    build("llama", torch.float32, vocab_size=len(tokenizer)).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def model(folder: Path) -> whyword.Model:
    return whyword.load(str(folder))


@pytest.fixture(scope="module")
def run(model: whyword.Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "run"
    more: dict[str, Any] = {"limit": 4, "faithfulness": None, "swaps": 2, "swap_depths": [None, 2]}
    evaluate(model, NAMES, out, data="builtin", methods=METHODS, **more)
    return out


def list_prepared(model: whyword.Model, run: Path) -> list[tuple[Prepared, Record]]:
    used = [
        each
        for dataset in read_datasets(NAMES, "builtin")
        for each in prepare(model, dataset.first(4), CONVENTIONS["ours"])[0]
    ]
    return list(zip(used, read_run(run)[1], strict=True))


def test_several_depths_are_read_from_one_pull_back(model: whyword.Model, run: Path) -> None:
    for each, record in list_prepared(model, run):
        for name, depth in (("flow", None), ("flow@0", 0), ("flow@2", 2)):
            alone = whyword.explain(
                model, each.context, target=each.target, foil=each.foil, method="flow", depth=depth
            )
            assert record.scores[name] == pytest.approx(alone.scores.tolist(), rel=1e-4, abs=1e-5)
        scores, evidence = record.ranked("flow@2")
        assert record.rank_by_depth["flow"][2] == pytest.approx(CONVENTIONS["ours"].rank(scores, evidence))
        assert len(record.rank_by_depth["flow"]) == 4


@pytest.mark.usefixtures("as_in_a_library")
def test_depths_share_the_recorded_run(model: whyword.Model, tmp_path: Path) -> None:
    counts = []
    for methods in (["flow"], ["flow", "flow@0", "flow@3", "logit"]):
        runs: list[int] = []
        handle = model.network.register_forward_pre_hook(lambda *_, runs=runs: runs.append(1))
        evaluate(
            model,
            NAMES[:1],
            tmp_path / str(len(methods)),
            data="builtin",
            methods=methods,
            limit=4,
            faithfulness=None,
        )
        handle.remove()
        counts.append(len(runs))
    assert counts[0] == counts[1] > 0


def difference(network: Any, ids: list[int], each: Prepared) -> float:
    with torch.no_grad():
        logits = network(torch.tensor([ids])).logits[0, -1]
    return float(logits[each.target] - logits[each.foil])


def test_a_swap_is_a_plain_run_with_another_word(model: whyword.Model, run: Path) -> None:
    for example, (each, record) in enumerate(list_prepared(model, run)):
        rounds = _draw_rounds(model, example, each.context, record, Swaps(2))
        changes = []
        for made in rounds:
            whole, *swapped = made.ids
            assert whole == each.context.ids
            for position, ids in zip(made.positions, swapped, strict=True):
                assert [place for place in range(len(ids)) if ids[place] != whole[place]] == [position]
                word = token_text(model, ids[position], each.context)
                assert word.startswith(" ")
                assert word[1:].isalpha()
            before = difference(model.network, whole, each)
            changes.append([before - difference(model.network, ids, each) for ids in swapped])
        assert record.swaps["input"] == pytest.approx(np.mean(changes, axis=0).tolist(), abs=1e-4)
        assert rounds == _draw_rounds(model, example, each.context, record, Swaps(2))
        assert rounds != _draw_rounds(model, example, each.context, record, Swaps(2, seed=1))


def difference_with_another(
    model: whyword.Model, each: Prepared, whole: list[int], ids: list[int], position: int
) -> float:
    """Run a context with the stream of another before block 3 at one position, with a hook of this test."""
    with torch.no_grad():
        other = model.network(torch.tensor([ids]), output_hidden_states=True).hidden_states[2]

    def put(_module: Any, args: Any) -> Any:
        stream = args[0].clone()
        stream[0, position] = other[0, position]
        return (stream, *args[1:])

    handle = model.blocks[2].register_forward_pre_hook(put)
    found = difference(model.network, whole, each)
    handle.remove()
    return found


def test_a_swap_at_a_depth_changes_one_position_of_the_stream(model: whyword.Model, run: Path) -> None:
    """One position of one run after the other."""
    each, record = list_prepared(model, run)[-1]
    changes = []
    for made in _draw_rounds(model, 0, each.context, record, Swaps(2)):
        whole, *swapped = made.ids
        before, own = difference(model.network, whole, each), []
        for position, ids in zip(made.positions, swapped, strict=True):
            own.append(before - difference_with_another(model, each, whole, ids, position))
        changes.append(own)
    assert record.swaps["depth 2"] == pytest.approx(np.mean(changes, axis=0).tolist(), abs=1e-4)
    assert record.swaps["depth 2"] != pytest.approx(record.swaps["input"], abs=1e-4)


@pytest.mark.parametrize("hook", [steer_row, steer_last])
def test_a_swap_of_a_network_with_hooks_is_that_of_runs_alone(
    hook: Any, model: whyword.Model, run: Path
) -> None:
    """Hooks on one row of several, or on the last position of each."""
    each, record = list_prepared(model, run)[-1]
    handle = model.network.model.layers[0].mlp.register_forward_hook(hook)
    try:
        (made,) = _draw_rounds(model, 0, each.context, record, Swaps(1))
        whole, *swapped = made.ids
        before = difference(model.network, whole, each)
        record = replace(record, difference=before)
        (found,) = measure_swaps(model, [each], [record], Swaps(1, (None, 2)))
        at_input, at_depth = [], []
        for position, ids in zip(made.positions, swapped, strict=True):
            at_input.append(before - difference(model.network, ids, each))
            at_depth.append(before - difference_with_another(model, each, whole, ids, position))
    finally:
        handle.remove()
    assert found["input"] == pytest.approx(at_input, abs=1e-4)
    assert found["depth 2"] == pytest.approx(at_depth, abs=1e-4)


def test_before_the_first_block_the_stream_is_the_token(model: whyword.Model, run: Path) -> None:
    used = list_prepared(model, run)
    found = measure_swaps(
        model, [each for each, _ in used], [record for _, record in used], Swaps(1, (None, 0))
    )
    for each in found:
        assert each["depth 0"] == pytest.approx(each["input"], abs=1e-5)


def test_special_tokens_are_not_swapped(model: whyword.Model, run: Path) -> None:
    each, record = list_prepared(model, run)[0]
    without = Record(**{**vars(record), "left_out": (0,)})
    (made,) = _draw_rounds(model, 0, each.context, without, Swaps(1))
    assert 0 not in made.positions


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=1, max_size=9))
def test_correlations(pairs: list[tuple[int, int]]) -> None:
    one, two = ([float(pair[side]) for pair in pairs] for side in (0, 1))
    found = correlate_ranks(one, two)
    if len(pairs) < 3 or len(set(one)) == 1 or len(set(two)) == 1:
        assert np.isnan(found)
        assert np.isnan(correlate(one, two))
        return
    ranks = [
        [np.mean([sorted(each).index(number) + each.count(number) / 2]) for number in each]
        for each in (one, two)
    ]
    assert found == pytest.approx(np.corrcoef(*ranks)[0, 1])
    assert correlate(one, two) == pytest.approx(np.corrcoef(one, two)[0, 1])
    assert correlate_ranks(one, [number**3 for number in one]) == pytest.approx(1)


def test_the_depth_is_chosen_on_even_rows_and_reported_on_odd_ones() -> None:
    def record(row: int, ranks: tuple[float, ...]) -> Record:
        return Record("a", row, 3, (0,), (), 1.0, (), (), {}, {}, {"flow": ranks})

    even, odd = (0.2, 0.4, 0.9, 0.5), (0.1, 0.8, 0.3, 0.2)
    settings = {"datasets": {"a": {"group": "A"}}, "seed": 0}
    (table,) = measure_depths(settings, [record(0, even), record(1, odd), record(2, even), record(3, odd)])
    assert (table.chosen, table.default) == (2, 1)
    assert table.chosen_on_odd == pytest.approx((0.3, 0.3, 0.3))
    assert table.default_on_odd[0] == pytest.approx(0.8)
    assert table.by_group["A"] == pytest.approx([0.15, 0.6, 0.6, 0.35])
    assert measure_depths(settings, [record(0, even)]) == ()


def test_tables_figures_and_documents(run: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    report, text = read_report(run), (run / "table.md").read_text()
    for place in ("", " at depth 2"):
        for kind in ("rank", "linear"):
            assert f"## {kind} correlation with swaps{place}\n" in text
    assert "## MRR by depth, Flow on tiny" in text
    assert "Flow@2" in text
    assert "Flow has its highest MRR on even rows at depth" in text
    assert "|swaps:2@input,depth 2|" in text
    cells = report.rows[0].cells["rank correlation with swaps"]
    records = [record for record in read_run(run)[1] if record.dataset == report.rows[0].name]
    expected = [correlate_ranks(record.ranked("gim")[0], record.swaps["input"]) for record in records]
    assert cells["gim"].mean == pytest.approx(np.nanmean(expected), abs=1e-6)
    assert cells["gim"].low <= cells["gim"].mean <= cells["gim"].high
    lines = list(csv.DictReader((run / "table.csv").open()))
    by_depth = [line for line in lines if line["metric"] == "MRR by depth"]
    assert [line["method"] for line in by_depth[:4]] == ["flow@0", "flow@1", "flow@2", "flow@3"]
    result = CliRunner().invoke(application, ["figures", str(run), "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert {"mrr-by-depth.png", "swaps.svg"} <= {path.name for path in tmp_path.iterdir()}
    document = json.loads(CliRunner().invoke(application, ["table", str(run), "--json"]).stdout)[0]
    assert document["depths"][0]["method"] == "flow"
    assert "linear correlation with swaps at depth 2" in document["rows"][0]["cells"]


def test_the_command(folder: Path, tmp_path: Path) -> None:
    asked = ["evaluate", "aga", "-m", str(folder), "--data", "builtin", "--out", str(tmp_path / "run")]
    asked += ["--limit", "2", "--methods", "flow@1,logit", "--faithfulness", "0", "--swaps", "1"]
    result = CliRunner().invoke(application, [*asked, "--swap-depths", "input,1"], env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.output
    assert "rank correlation with swaps at depth 1" in " ".join(result.stdout.split())
    assert "Flow@" in result.stdout
    wrong = CliRunner().invoke(application, [*asked, "--swap-depths", "first"])
    assert wrong.exit_code == 2
    assert "--swap-depths has 'first'" in wrong.stderr


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"methods": ["logit@3"]}, r"'logit@3': logit has no depth\.\nWrite logit, or flow@3\."),
        ({"methods": ["flow@x"]}, r"'flow@x': 'x' is not a depth\.\nWrite a number, such as flow@3\."),
        ({"methods": ["flow@9"]}, r"depth is 9\.\nGive 0 \(before block 1\) to 3"),
        ({"methods": ["flows@1"]}, r"There is no method 'flows'"),
        ({"swaps": 0}, r"swaps is 0\.\nSwap each token for at least 1 other word\."),
        ({"swaps": 1, "swap_depths": [3]}, r"The depth of swaps is 3\.\nGive 0 \(before block 1\) to 2"),
    ],
)
def test_bad_input(model: whyword.Model, tmp_path: Path, asked: dict[str, Any], said: str) -> None:
    with pytest.raises(whyword.InputError, match=said):
        evaluate(model, ["builtin-aga"], tmp_path, data="builtin", **asked)
    assert not any(tmp_path.iterdir())


def test_a_vocabulary_without_words_has_nothing_to_swap(run: Path) -> None:
    tokenizer = toy_tokenizers.make("byte-level", ["ab"], 258)
    model = whyword.load(
        build("llama", torch.float32, vocab_size=len(tokenizer)), tokenizer=tokenizer, start="tokenizer"
    )
    context, record = whyword.tokenize(model, "ab"), read_run(run)[1][0]
    with pytest.raises(whyword.InputError, match="has no tokens that are whole words"):
        _draw_rounds(model, 0, context, Record(**{**vars(record), "tokens": 2}), Swaps(1))
