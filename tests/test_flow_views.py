"""Flow by depth and its routes: in a terminal, in files, and in a real browser."""

import csv
import io
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.cells import cell_len
from rich.console import Console

import whyword
from whyword.view.flow_grid import lay_out_depths, list_routes, measure_moves
from whyword.view.html import render_html
from whyword.view.quoting import tell_apart
from whyword.view.route_picture import lay_out_routes
from whyword.view.terminal import print_document

import toy_tokenizers
from browsing import WATCH
from families import build


@pytest.fixture(scope="module")
def explained() -> whyword.Explanation:
    """Of a model with biases."""
    tokenizer = toy_tokenizers.make("byte-level")
    network = build("gpt2", torch.float64, vocab_size=len(tokenizer))
    model = whyword.load(network, tokenizer=tokenizer, start="tokenizer")
    return whyword.explain(model, "the painters, the painters", target="has", foil="have", method="flow")


@pytest.fixture(scope="module")
def document(explained: whyword.Explanation) -> dict[str, Any]:
    return explained.to_dict()


def make_deep(document: dict[str, Any], depths: int) -> dict[str, Any]:
    """Make a document of many depths: +2 stays on the first token, and moves to the last in block 20."""
    tokens = len(document["tokens"])
    low, high = [0.0] * tokens, [0.0] * tokens
    low[0] = high[-1] = 2.0
    rows = [low if depth < 20 else high for depth in range(depths)]
    flow = {**document["flow"], "by_depth": rows, "bias": [0.0] * depths}
    return {**document, "flow": flow, "scores": low}


def draw(document: dict[str, Any], by: str, top: int | None = None, width: int = 80) -> str:
    file = io.StringIO()
    print_document(document, Console(width=width, file=file, color_system=None), by=by, top=top)
    return file.getvalue()


def test_every_depth_adds_up_with_its_biases(document: dict[str, Any]) -> None:
    grid = lay_out_depths(document)
    assert [row.label for row in grid.rows] == [str(depth) for depth in range(len(grid.rows) - 1, -1, -1)]
    assert grid.columns[-1] == "bias"
    for row in grid.rows:
        assert row.total == pytest.approx(document["ledger"]["logit"], abs=1e-9)
    (read,) = [row for row in grid.rows if row.note]
    assert read.values[:-1] == pytest.approx(document["scores"], abs=1e-5)


def test_few_depths_are_shown_and_those_where_most_moves_always(document: dict[str, Any]) -> None:
    deep = make_deep(document, 61)
    for top in (None, 5, 30):
        grid = lay_out_depths(deep, top)
        shown = [int(row.label) for row in grid.rows]
        assert {60, 20, 19, 0} <= set(shown)
        assert len(shown) <= (top or 13)
        assert grid.hidden == 61 - len(shown)
        assert shown == sorted(shown, reverse=True)
    assert len(lay_out_depths(deep, all_depths=True).rows) == 61
    moves = measure_moves(deep["flow"]["by_depth"])
    assert (moves[19], sum(moves)) == (2.0, 2.0)


@pytest.mark.parametrize("width", [80, 140])
def test_depths_in_the_terminal(document: dict[str, Any], width: int) -> None:
    shown = draw(make_deep(document, 61), "depth", width=width)
    assert all(cell_len(line) <= width for line in shown.splitlines())
    rows = {row[0]: row[1:] for line in shown.splitlines() if (row := line.split()) and row[0].isdigit()}
    assert rows["20"][-1] == rows["19"][-1].removesuffix("◂") == "+2.00"
    assert rows["20"][0] == "0.00"
    assert rows["19"][0] == "+2.00"
    assert "depth 3 after the last block" in shown  # as many as the ledger has blocks


def test_routes_go_between_positions_and_tell_tokens_apart(
    explained: whyword.Explanation, document: dict[str, Any]
) -> None:
    moving = [route for route in explained.routes(256) if route.source != route.destination]
    listed = list_routes(document, 7)
    assert [(each.block - 1, each.head - 1, each.amount) for each in listed] == [
        (each.block, each.head, pytest.approx(each.amount)) for each in moving[:7]
    ]
    names = tell_apart([token["text"].strip() for token in document["tokens"]])
    assert listed[0].source_name == names[listed[0].source]
    assert tell_apart(["a", "b", "a"]) == ["a¹", "b", "a²"]
    shown = draw(document, "routes", 7)
    assert len(re.findall(r"^ *\d+\.\d+ .* → ", shown, re.MULTILINE)) == 7
    assert f"{listed[0].amount:+.2f}" in shown
    assert "The 7 strongest" in shown


def test_what_has_no_flow_is_refused(explained: whyword.Explanation, document: dict[str, Any]) -> None:
    other = {**document, "method": "logit"}
    del other["flow"]
    for by in ("depth", "routes"):
        with pytest.raises(
            whyword.InputError, match=r"The method logit has no flow\.\nMethods that have: flow"
        ):
            draw(other, by)
    for by in ("depth", "routes"):
        with pytest.raises(whyword.InputError, match=f"A continuation is not shown by {by}"):
            draw(whyword.Continuation((explained,)).to_dict(), by)
    with pytest.raises(whyword.InputError, match=r"routes is 0\.\nShow at least one"):
        list_routes(document, 0)


def read_table(path: Path) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_files_of_flow(explained: whyword.Explanation, tmp_path: Path) -> None:
    explained.save(tmp_path / "depth.csv", by="depth")
    sums: dict[str, float] = {}
    for record in read_table(tmp_path / "depth.csv"):
        sums[record["depth"]] = sums.get(record["depth"], 0.0) + float(record["score"])
    assert list(sums.values()) == pytest.approx([explained.ledger.logit] * len(explained.flow), abs=1e-9)
    explained.save(tmp_path / "routes.csv", by="routes", top=5)
    routes = read_table(tmp_path / "routes.csv")
    assert len(routes) == 5
    assert all(route["from"] != route["to"] for route in routes)
    for name in ("depth", "routes"):
        explained.save(tmp_path / f"{name}.tex", by=name, top=5)
        if shutil.which("pdflatex") is not None:
            command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", f"{name}.tex"]
            done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace")
            assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "depth.tex").read_text().count(r"\whyrow{") == len(explained.flow)


def test_pictures_of_flow(explained: whyword.Explanation, document: dict[str, Any], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    explained.save(tmp_path / "depth.svg", by="depth")
    drawn = (tmp_path / "depth.svg").read_text()
    assert ">depth<" in drawn
    assert drawn.count(">bias<") == 1
    explained.save(tmp_path / "routes.svg", by="routes", top=9)
    drawn, strongest = (tmp_path / "routes.svg").read_text(), list_routes(document, 1)[0]
    assert f">{strongest.block}.{strongest.head}<" in drawn
    explained.save(tmp_path / "routes.png", by="routes")
    assert (tmp_path / "routes.png").read_bytes().startswith(b"\x89PNG")


def test_a_graph_of_a_long_prompt_has_the_positions_that_routes_touch(document: dict[str, Any]) -> None:
    token = document["tokens"][0]
    routes = [{"block": 1, "head": 0, "source": 3, "destination": 90, "amount": 1.0}]
    flow = {"by_depth": [[0.5] * 100] * 4, "bias": [0.0] * 4, "routes": routes, "depth": 1}
    graph = lay_out_routes({**document, "tokens": [token] * 100, "position": 99, "flow": flow})
    assert graph.positions == (3, 90, 99)
    assert [graph.skips(column) for column in range(3)] == [True, True, True]
    assert graph.largest == 1.0


# ------------------------------------------------------------ in a browser


@pytest.fixture(scope="module")
def page(browser: Any, document: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A report that begins with routes; whatever the browser complains about fails the tests."""
    path = tmp_path_factory.mktemp("flow") / "report.html"
    path.write_text(render_html([document], "routes", 12), encoding="utf-8")
    tab, complaints = browser.new_context().new_page(), []
    tab.add_init_script(WATCH)
    tab.on("console", lambda message: complaints.append(message.text))
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.goto(path.as_uri())
    yield tab
    complaints += tab.evaluate("violations")
    tab.context.close()
    assert [each for each in complaints if "willReadFrequently" not in each] == []  # the tests read pixels


def test_the_asked_picture_comes_first(page: Any) -> None:
    titles = page.locator("h2").all_text_contents()
    assert titles[:2] == ["Routes", "Depth by depth"]
    assert "Prediction" in titles


def test_the_map_of_depths_is_read_from_the_keyboard(page: Any, document: dict[str, Any]) -> None:
    flow, read = document["flow"], 1
    page.locator(".flow .canvas-scroll").focus()
    page.keyboard.press("Home")
    said = page.locator(".flow .readout")
    assert f"Depth {read}, after block 1, " in said.text_content()
    page.keyboard.press("ArrowDown")
    assert "Depth 0, before block 1, " in said.text_content()
    amount = flow["by_depth"][0][0]
    assert f"{abs(amount):.4f}" in said.text_content()
    page.keyboard.press("End")
    assert "biases above: " in said.text_content()
    assert f"{abs(flow['bias'][0]):.4f}" in said.text_content()


def test_red_is_above_zero_and_blue_below_on_the_canvas(page: Any, document: dict[str, Any]) -> None:
    """The strongest number of either sign, at the left edge of its cell."""
    rows = [
        [*row, bias] for row, bias in zip(document["flow"]["by_depth"], document["flow"]["bias"], strict=True)
    ]
    cells = [(value, depth, place) for depth, row in enumerate(rows) for place, value in enumerate(row)]
    for value, depth, place in (max(cells), min(cells)):
        page.locator(".flow .canvas-scroll").focus()
        page.keyboard.press("Home")
        for _ in range(len(rows)):
            page.keyboard.press("ArrowUp")
        for _ in range(len(rows) - 1 - depth):
            page.keyboard.press("ArrowDown")
        for _ in range(place):
            page.keyboard.press("ArrowRight")
        assert f"{abs(value):.4f}" in page.locator(".flow .readout").text_content()
        red, _, blue = page.evaluate(
            """async (row) => {
              await new Promise(requestAnimationFrame);
              const canvas = document.querySelector(".flow canvas");
              const data = canvas.getContext("2d").getImageData(0, 26 + row * 21 + 4, canvas.width, 1).data;
              let best = [0, 0, 0], strongest = -1;
              for (let x = 46; x < canvas.width; x += 1) {
                const pixel = [...data.slice(4 * x, 4 * x + 3)];
                const strength = Math.abs(pixel[0] - pixel[2]);
                if (strength > strongest) [best, strongest] = [pixel, strength];
              }
              return best;
            }""",
            len(rows) - 1 - depth,
        )
        row = rows[depth]
        assert (red > blue) == (max(row, key=abs) > 0)


def test_routes_are_named_and_counted(page: Any, document: dict[str, Any]) -> None:
    listed = list_routes(document, 256)
    assert page.locator(".routes .route").count() == 12
    assert page.locator(".routes output").text_content() == f"12 of {len(listed)} routes"
    page.locator(".routes-box").focus()
    page.keyboard.press("ArrowRight")
    said = page.locator(".routes .readout")
    first = listed[0]
    assert f"1. Block {first.block}, head {first.head}: from " in said.text_content()
    assert f"({first.source + 1}) to " in said.text_content()
    assert (
        f"{abs(first.amount):.4f} {'raises' if first.amount > 0 else 'lowers'} the logit"
        in said.text_content()
    )
    page.keyboard.press("End")
    assert said.text_content().startswith("12. ")
    page.locator(".routes input").fill("3")
    assert page.locator(".routes .route").count() == 3
    signs = page.locator(".routes .route").evaluate_all("routes => routes.map(each => each.classList[1])")
    assert signs == ["raises" if each.amount > 0 else "lowers" for each in reversed(listed[:3])]
    page.locator(".routes .near").last.dispatch_event("pointerover", {"bubbles": True})
    assert said.text_content().startswith("1. ")
