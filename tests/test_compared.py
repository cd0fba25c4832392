"""The comparison with other tools: its page is what the results say; every tool is ranked alike."""

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import compared.protocol as protocol
from compared.answers import NETWORKS, TITLES
from compared.claim import word_claim
from compared.environments import PACKAGES
from compared.lines import count_lines
from compared.page import measure_error, render_page
from compared.questions import Row
from compared.ranking import rank_rows

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
    question = {"ids": [0, 1, 2, 3], "target": 1, "foil": 2}
    rows = [Row("BLiMP", question, (2,), (0,)), Row("BLiMP", question, (1,), (0,))]
    found = [{"scores": [9.0, 1.0, 2.0, 3.0]}, {"failed": "too long"}]
    ranked = rank_rows(rows, {"methods": {"one": {"rows": found}}})
    assert ranked["methods"]["one"]["mrr"]["BLiMP"] == {"mean": 0.5, "n": 1}  # the start is not ranked
    assert ranked["methods"]["one"]["reason"] == "too long"
    assert ranked["random"]["BLiMP"]["mean"] == pytest.approx((1 + 1 / 2 + 1 / 3) / 3)


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


def test_a_call_that_takes_too_long_is_stopped() -> None:
    def work() -> None:
        while True:
            pass

    with pytest.raises(TimeoutError), protocol.limited(0.05):
        work()
    assert protocol.read_answer([1, 2]) == ([1.0, 2.0], 0.0)
    assert protocol.read_answer(([1, 2], 3)) == ([1.0, 2.0], 3.0)
    assert protocol.describe(ValueError("one\ntwo")) == "ValueError: one"
