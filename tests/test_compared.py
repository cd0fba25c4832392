"""The comparison with other tools: its page is what the results say; every tool is ranked alike."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import transformers

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import compared.protocol as protocol
from compared.answers import GROUPS, NETWORKS, TITLES
from compared.claim import word_claim
from compared.documents import DOCUMENTS
from compared.environments import PACKAGES
from compared.lines import count_lines
from compared.page import measure_error, render_page, show_multiple
from compared.questions import Row
from compared.ranking import rank_rows
from compared.sections import describe_better, describe_documents

RESULTS = json.loads((ROOT / "benchmarks" / "compared" / "results.json").read_text())


def test_the_page_is_what_the_results_say() -> None:
    written = (ROOT / "docs" / "compared.md").read_text()
    made = render_page(RESULTS, "compared.png")
    assert written == made, "make it anew: python benchmarks/peers.py --write docs/compared.md"
    assert word_claim(RESULTS) in (ROOT / "README.md").read_text()
    for title in TITLES.values():
        assert title in written


def test_every_tool_has_a_driver() -> None:
    for name in ("whyword", *PACKAGES):
        driver = ROOT / "benchmarks" / "compared" / f"with_{name.replace('-', '_')}.py"
        assert count_lines(driver, ["load"]) > 1, driver
    assert set(TITLES) == {"whyword", *PACKAGES}


def test_lines_of_code(tmp_path: Path) -> None:
    driver = tmp_path / "with_tool.py"
    driver.write_text(
        '"""A tool."""\n\nimport tool\nimport unused\n\n\n'
        "def load(folder):\n    return tool.load(folder)\n\n\n"
        "def explain(loaded, ids):\n    # they say\n    return helper(loaded)\n\n\n"
        "def helper(loaded):\n    return loaded\n\n\ndef other():\n    pass\n"
    )
    assert count_lines(driver, ["load", "explain"]) == 1 + 2 + 3 + 2


def test_scores_of_any_tool_are_ranked_alike() -> None:
    few, more = ({"ids": [0, 1, 2, 3], "target": 1, "foil": 2, "few": few} for few in (True, False))
    rows = [Row("BLiMP", few, (2,), (0,)), Row("BLiMP", more, (1,), (0,)), Row("BLiMP", more, (3,), (0,))]
    scores = {"scores": [9.0, 1.0, 2.0, 3.0]}
    answers = {"fast": [scores, {"failed": "too long"}, scores], "slow": [scores, None, None]}
    ranked = rank_rows(rows, {"methods": {name: {"rows": found} for name, found in answers.items()}})
    fast, slow = ranked["methods"]["fast"], ranked["methods"]["slow"]
    assert fast["mrr"]["BLiMP"] == {"mean": 0.75, "n": 2}  # the start is not ranked
    assert fast["few"] == slow["few"] == slow["mrr"] == {"BLiMP": {"mean": 0.5, "n": 1}}
    assert (fast["asked"], fast["failed_rows"], fast["reason"]) == (3, 1, "too long")
    assert (slow["asked"], slow["failed_rows"], slow["reason"]) == (1, 0, None)
    assert ranked["random"]["mrr"]["BLiMP"]["mean"] == pytest.approx((1 + 1 / 2 + 1 / 3) / 3)


def test_sums_are_compared_with_the_models_own_difference() -> None:
    exact = {"sum": 1.5, "rest": 0.5, "difference": 2.0}
    wrong = {"sum": 1.0, "rest": 0.5, "difference": 2.0}
    assert measure_error({"costs": [exact, {"failed": "no"}]}) == 0
    assert measure_error({"costs": [exact, wrong]}) == 0.25
    assert measure_error({"costs": []}) is None


def test_ours_adds_up_and_every_peer_was_asked() -> None:
    for network in NETWORKS:
        methods = RESULTS["whyword"]["costs"][network]["methods"]
        for method in ("flow", "logit", "alti-logit"):
            error = measure_error(methods[method])
            assert error is not None
            assert error < 1e-5, (network, method)
    assert set(RESULTS) == set(TITLES)


def test_the_same_attribution_written_by_hand_ranks_as_ours() -> None:
    ours = RESULTS["whyword"]["rows"]["methods"]["logit"]["mrr"]
    assert set(ours) == {"BLiMP", "SVA", "IOI"}
    for tool in ("nnsight", "transformer-lens"):
        theirs = RESULTS[tool]["rows"]["methods"]["direct logit attribution"]["mrr"]
        for group, found in ours.items():
            assert theirs[group]["n"] == found["n"] > 0
            assert theirs[group]["mean"] == pytest.approx(found["mean"], abs=0.01), (tool, group)


def test_documents_hold_their_answers() -> None:
    for group in DOCUMENTS:
        for place, (document, question, answer) in enumerate(group):
            assert answer in document
            assert answer not in question
            others = [other for other, _, _ in group[:place] + group[place + 1 :]]
            assert not any(answer in other for other in others)


@pytest.fixture
def plain() -> transformers.PreTrainedModel:
    config = transformers.GPT2Config(vocab_size=11, n_embd=4, n_layer=1, n_head=1, n_positions=8)
    return transformers.GPT2LMHeadModel(config).eval()


QUESTION = {"ids": [1, 2, 3], "target": 4, "foil": 5, "rounds": 2}


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_a_cell_is_measured_in_turns(plain: transformers.PreTrainedModel) -> None:
    cell = protocol.measure(lambda _: ([1.0, 2.0, 3.0], 0.5), plain, QUESTION, [])
    assert (cell["tokens"], cell["rounds"], cell["sum"], cell["rest"]) == (3, 2, 6.0, 0.5)
    with torch.no_grad():
        logits = plain(torch.tensor([QUESTION["ids"]])).logits[0, -1]
    assert cell["difference"] == pytest.approx(float(logits[4] - logits[5]))
    calls = list[object]()
    slow = protocol.measure(lambda each: calls.append(each) or ([1.0] * 3, 0.0), plain, QUESTION, [], True)
    assert (slow["rounds"], len(calls)) == (1, 1)
    short = protocol.measure(lambda _: ([1.0], 0.0), plain, QUESTION, [])
    assert short["failed"] == "1 scores of 3 tokens"


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_slow_cells_are_bounded(plain: transformers.PreTrainedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    def work(_: object) -> tuple[list[float], float]:
        until = time.process_time() + 30
        while time.process_time() < until:  # it is stopped before; if it were not, the test fails and ends
            pass
        return [], 0.0

    monkeypatch.setattr(protocol, "LONGEST_CALL", 0.05)
    cell = protocol.measure(work, plain, QUESTION, [])
    assert cell["least"] > 0
    assert "multiple" not in cell
    not_run = protocol.measure(work, plain, QUESTION, [{"multiple": 1e9}])
    assert not_run["expected"] > protocol.LONGEST_EXPECTED
    again = protocol.measure(work, plain, QUESTION, [not_run])
    assert again["expected"] > protocol.LONGEST_EXPECTED


def test_cells_that_were_not_measured_say_why() -> None:
    assert show_multiple({"multiple": 2.345}) == "2.35"
    assert show_multiple({"least": 230.4}) == "> 230"
    assert show_multiple({"expected": 63.2, "known": 127}) == "not run (≈ 63 s)"
    assert show_multiple({"failed": "ValueError: no"}) == "ValueError: no"
    assert show_multiple({}) == "–"


def test_the_page_says_how_it_was_measured() -> None:
    costs = [{"tokens": 8, "difference": 1.0, "multiple": 2.0, "rounds": rounds} for rounds in (1, 3)]
    answered = {"methods": {"flow": {"costs": costs}}, "at_once": 2}
    results = {"whyword": {"costs": {"date": "2026-11-18", NETWORKS[0]: answered}}}
    assert "Rounds of each cell: 1 to 3; 2 processes at once, a core for each." in render_page(results, "")
    answered["at_once"] = 1
    assert "one process after the other" in render_page(results, "")


def test_documents_are_counted_by_what_was_asked() -> None:
    def answer(right: bool, answered: bool = True) -> dict[str, object]:
        named = {"whole answer": right, "value alone": True}
        return {"multiple": 5.0, "answered": answered, "right": named}

    ours = {"flow of the answer": {"questions": [answer(True), answer(False), answer(True, answered=False)]}}
    theirs = {"64 ablations": {"questions": [answer(True), answer(True)]}}
    results = {
        "whyword": {"documents": {"methods": ours}},
        "context-cite": {"documents": {"methods": theirs}},
    }
    written = describe_documents(results)
    assert "| whyword: flow of the answer | whole answer | 1 of 2 | 5.0 |" in written
    assert "| ContextCite: 64 ablations | value alone | 2 of 2 | 5.0 |" in written
    better = describe_better(results)
    assert "Which document, whole answer: right more often than flow (1): ContextCite" in better
    assert "value alone" not in better


def test_peers_are_ahead_on_the_same_rows_only() -> None:
    def rank(all_rows: float, few: float, asked: int) -> dict[str, object]:
        return {
            "mrr": {group: {"mean": all_rows, "n": asked} for group in GROUPS},
            "few": {group: {"mean": few, "n": 2} for group in GROUPS},
            "asked": asked,
        }

    methods = {
        "whyword": {"flow": rank(0.7, 0.6, 9), "logit": rank(0.5, 0.5, 9)},
        "lxt": {"AttnLRP": rank(0.6, 0.9, 9)},
        "captum": {"input × gradient": rank(0.8, 0.1, 9), "ablation": rank(0.65, 0.65, 2)},
    }
    better = describe_better({tool: {"rows": {"methods": each}} for tool, each in methods.items()})
    assert "BLiMP, all rows: ahead of the best of ours (0.70): Captum’s input × gradient (0.80)." in better
    assert (
        "BLiMP, the few rows of slow methods: ahead of the best of ours (0.60): Captum’s ablation" in better
    )
    assert "LXT" not in better


def test_a_call_that_takes_too_long_is_stopped() -> None:
    def work() -> None:
        while True:
            pass

    with pytest.raises(TimeoutError), protocol.limited(0.05):
        work()
    assert protocol.read_answer([1, 2]) == ([1.0, 2.0], 0.0)
    assert protocol.read_answer(([1, 2], 3)) == ([1.0, 2.0], 3.0)
    assert protocol.describe(ValueError("one\ntwo")) == "ValueError: one"


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are Linux's")
def test_memory_that_is_refused_is_a_reason() -> None:
    code = (
        "import protocol, torch\nprotocol.limit_memory(4)\n"
        "try:\n    torch.zeros(2 * 10**9)\nexcept Exception as error:\n    print(protocol.describe(error))"
    )
    folder = ROOT / "benchmarks" / "compared"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True
    )
    assert done.stdout == "> 4 GB\n"
