"""The saved report: one file, text stays text, and a real browser shows the right numbers."""

import base64
import hashlib
import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from html.parser import HTMLParser
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

import whyword
from whyword.view.html import render_html, render_notebook
from whyword.view.page_script import ENTRY, IMPORT, join_modules, read_modules
from whyword.view.quoting import write_exponent, write_plain, write_signed
from whyword.view.sentences import add_wording, describe

import toy_tokenizers
from browsing import WATCH
from families import build

NASTY = [
    "</script><script>window.hacked = 1</script>",
    "<!--<script>",
    "<img src=x onerror='window.hacked = 1'>",
    "&amp; & \" ' ` $title ${style}",
    "]]>\u2028\u2029",
    "🙂👩‍👩‍👧",
    " مرحبا",
    "\u202eright to left",
    "\x00\x07\x1b[31m\x7f",
    "\ud800",
    "\\u003c",
    "",
]


def make_document(
    texts: Sequence[str],
    by_block: Sequence[Sequence[float]] | None = None,
    *,
    blocks: int = 3,
    heads: int = 2,
    target: str = " has",
    foils: Sequence[str] = (" have",),
    forced: int = 0,
    special: Sequence[int] = (),
    method: str = "alti-logit",
) -> dict[str, Any]:
    """Make a document of the schema; without `by_block`, with random numbers."""
    source = random.Random(0)
    random_rows = [[source.gauss(0, 0.1) for _ in texts] for _ in range(blocks)]
    rows = random_rows if by_block is None else [list(row) for row in by_block]
    by_head = [[[value / heads for value in row] for _ in range(heads)] for row in rows]
    attention = [sum(row) for row in rows]
    mlp = [source.gauss(0, 0.2) for _ in rows]
    total = sum(attention) + sum(mlp) - 0.25
    choice = {"id": 7, "logit": 10.5, "probability": 0.25}
    return {
        "schema": "whyword.explanation/1",
        "model": "tiny",
        "method": method,
        "text": "".join(texts),
        "tokens": make_tokens(texts, special),
        "forced": forced,
        "position": len(texts) - 1,
        "target": {**choice, "text": target},
        "foils": [{**choice, "text": text, "logit": 9.0 - index} for index, text in enumerate(foils)],
        "scores": [sum(column) for column in zip(*rows, strict=True)],
        "by_block": rows,
        "by_head": by_head,
        "ledger": {
            "embedding": -0.25,
            "attention": attention,
            "attention_bias": [0.0 for _ in rows],
            "mlp": mlp,
            "norm_bias": 0.0,
            "unembedding_bias": 0.0,
            "total": total,
            "logit": total,
            "error": 3e-7,
        },
        "notes": {"exact": "The sum is exact.", "heuristic": "Mixing is not.", "use": "With others."},
    }


def make_tokens(texts: Sequence[str], special: Sequence[int] = ()) -> list[dict[str, Any]]:
    """Make tokens: a new word begins with a space."""
    ends = list(accumulate(map(len, texts)))
    word, tokens = -1, []
    for index, (text, end) in enumerate(zip(texts, ends, strict=True)):
        word += index == 0 or text.startswith(" ") or index in special
        start = end - len(text.lstrip(" "))
        own = {"id": 100 + index, "text": text, "start": start, "end": end, "word": word}
        tokens.append({**own, "special": index in special})
    return tokens


KEYS = make_document(["The", " key", "s"], [[0.5, -0.25, 0.125], [1, 0.0, -2], [-0.001, 0.75, 1]])
"""Numbers that can be added up by hand."""


class Elements(HTMLParser):
    """The tags of a page, and the content of its styles and scripts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.content: dict[str, list[str]] = {"style": [], "script": [], "title": []}
        self.inside: str | None = None
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag in self.content:
            self.content[tag].append("")
            self.inside = tag

    def handle_endtag(self, tag: str) -> None:
        self.inside = None

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.content[self.inside][-1] += data


def embedded(page: str) -> Any:
    return json.loads(Elements(page).content["script"][0])


def hash_of(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


# ------------------------------------------------------------ the file


def test_the_policy_names_the_content_that_is_there() -> None:
    elements = Elements(render_html([KEYS]))
    metas = [attributes for tag, attributes in elements.tags if tag == "meta"]
    (policy,) = [meta["content"] for meta in metas if meta.get("http-equiv") == "Content-Security-Policy"]
    assert policy
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == hash_of(elements.content["script"][1])
    assert rules["style-src"] == hash_of(elements.content["style"][0])
    assert "unsafe" not in policy
    assert not [attributes for _, attributes in elements.tags if "style" in attributes]
    assert not [attributes for _, attributes in elements.tags if {"src", "href"} & set(attributes)]


def test_the_file_needs_nothing_else() -> None:
    page = render_html([KEYS]).replace('"http://www.w3.org/2000/svg"', "")  # a name, which is not looked up
    for outside in ("http://", "https://", "@import", "url(", "fetch(", "import("):
        assert outside not in page
    assert {"charset": "utf-8"} in [attributes for _, attributes in Elements(page).tags]
    assert ("html", {"lang": "en"}) in Elements(page).tags
    assert Elements(page).content["title"] == ["Why “has” and not “have”?"]


def test_nothing_moves() -> None:
    """The page respects a wish for less motion by having none."""
    style = Elements(render_html([KEYS])).content["style"][0]
    assert not [way for way in ("transition", "animation", "smooth", "@keyframes") if way in style]


def test_markup_is_not_built_from_strings() -> None:
    script = Elements(render_html([KEYS])).content["script"][1]
    for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "cssText"):
        assert way not in script


@pytest.mark.parametrize("text", NASTY, ids=ascii)
def test_text_survives(text: str) -> None:
    document = make_document(["A", text, " b"], target=text, foils=[text, "x"])
    document["model"] = text
    page = render_html([document])
    assert embedded(page) == [add_wording(document) | {"by_head": embedded(page)[0]["by_head"]}]
    plain = Elements(render_html([KEYS]))
    assert [tag for tag, _ in Elements(page).tags] == [tag for tag, _ in plain.tags]
    assert Elements(page).content["script"][1:] == plain.content["script"][1:]
    assert page.encode("utf-8").decode("utf-8") == page
    assert "\0" not in page


def test_only_the_numbers_by_head_are_rounded() -> None:
    document = make_document([" a", " b"])
    (shown,) = embedded(render_html([document]))
    assert {**shown, "by_head": None} == {**add_wording(document), "by_head": None}
    for block, rounded in zip(document["by_head"], shown["by_head"], strict=True):
        for row, few in zip(block, rounded, strict=True):
            assert few != row
            assert few == pytest.approx(row, rel=1e-3)


def test_a_report_is_small() -> None:
    document = make_document([f" word{index}" for index in range(30)], blocks=30, heads=9)
    source = random.Random(1)
    document["by_head"] = [
        [[torch.tensor(source.gauss(0, 0.02)).item() for _ in range(30)] for _ in range(9)] for _ in range(30)
    ]
    assert len(render_html([document]).encode()) <= 300_000


def test_the_strongest_numbers_by_head_are_kept_and_their_sums() -> None:
    document = make_document([f" word{index}" for index in range(600)], blocks=20, heads=9)
    document["by_head"] = [
        [[(place + 1) * 1e-4 for place in range(600)] for _ in range(9)] for _ in range(20)
    ]
    (shown,) = embedded(render_html([document]))
    kept = [value for block in shown["by_head"] for head in block for value in head if value]
    assert 90_000 < len(kept) <= 100_000
    assert min(kept) > 0.004
    assert shown["head_sums"][3][2] == pytest.approx(600 * 601 / 2 * 1e-4)


def test_several_documents_are_one_file() -> None:
    page = render_html([KEYS, make_document(["A"], method="logit")])
    assert [document["method"] for document in embedded(page)] == ["alti-logit", "logit"]
    assert Elements(page).content["title"] == ["Why “has” and not “have”?"]
    assert Elements(render_html([KEYS, make_document(["A"], foils=[])])).content["title"] == [
        "whyword report"
    ]


def test_numbers_that_are_none_are_refused() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        render_html([make_document(["A"], [[float("nan")]])])


def test_a_notebook_frames_the_same_page() -> None:
    (tag, attributes), (beside, _) = Elements(render_notebook(KEYS)).tags
    assert (tag, beside) == ("iframe", "script")
    assert attributes["sandbox"] == "allow-scripts"
    assert attributes["srcdoc"] == render_html([KEYS])
    assert int(attributes["height"] or 0) > 300


# ------------------------------------------------------------ the script

DECLARED = re.compile(r"^(?:export )?(?:async )?(?:const|let|var|class|function\*?) (\w+)", re.MULTILINE)


def exports_of(text: str) -> set[str]:
    return set(re.findall(r"^export (?:const|function|class) (\w+)", text, re.MULTILINE))


def test_every_import_is_an_export() -> None:
    modules = read_modules()
    for name, text in modules.items():
        imported = IMPORT.findall(text)
        assert len(imported) == len(re.findall(r"^import\b", text, re.MULTILINE)), name
        for names, other in imported:
            assert set(names.split(", ")) <= exports_of(modules[other]), f"{name} imports from {other}"
            for each in names.split(", "):
                assert len(re.findall(rf"\b{each}\b", text)) > 1, f"{name} imports {each} and does not use it"
        assert len(re.findall(r"^export\b", text, re.MULTILINE)) == len(exports_of(text)), name


def test_no_name_is_declared_twice() -> None:
    """Modules are joined into one script: they share its names."""
    declared = [name for text in read_modules().values() for name in DECLARED.findall(text)]
    assert len(declared) > 100
    assert [name for name in set(declared) if declared.count(name) > 1] == []
    for name, text in read_modules().items():
        assert not re.search(r"^(?:export )?(?:const|let|var) [\[{]", text, re.MULTILINE), name


def test_a_joined_script_has_every_module_after_those_it_needs() -> None:
    script, modules = join_modules(), read_modules()
    assert not re.search(r"^(?:import|export)\b", script, re.MULTILINE)
    firsts = {name: DECLARED.findall(text)[0] for name, text in modules.items() if name != ENTRY}
    places = {name: re.search(rf"^\w+ {first}\b", script, re.MULTILINE) for name, first in firsts.items()}
    assert None not in places.values()
    order = sorted(places, key=lambda name: places[name].start())  # type: ignore[union-attr]
    for name in order:
        for _, other in IMPORT.findall(modules[name]):
            assert order.index(other) < order.index(name), f"{name} needs {other}"


# ------------------------------------------------------------ in a browser

Open = Callable[..., Any]


@pytest.fixture
def show(browser: Any, tmp_path: Path) -> Iterator[Open]:
    """Open a report from a file; whatever the browser complains about fails the test."""
    complaints: list[str] = []
    pages: list[Any] = []

    def open_page(*documents: dict[str, Any], page: str | None = None, **options: Any) -> Any:
        path = tmp_path / f"report-{len(pages)}.html"
        path.write_text(render_html(documents) if page is None else page, encoding="utf-8")
        tab = browser.new_context(**options).new_page()
        tab.set_default_timeout(10_000)
        tab.add_init_script(WATCH)
        tab.on("console", lambda message: complaints.append(message.text))
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.on("request", lambda request: allow(request.url, path))
        tab.goto(path.as_uri())
        pages.append(tab)
        return tab

    def allow(url: str, path: Path) -> None:
        if url not in (path.as_uri(), "about:srcdoc"):
            complaints.append(f"asked for {url}")

    yield open_page
    for tab in pages:
        if tab.evaluate("typeof violations") != "undefined":
            complaints += tab.evaluate("violations")
        tab.context.close()
    assert complaints == []


def rows_of(page: Any, kind: str = "tbody tr.block") -> list[list[str]]:
    """Read the numbers of the heat map's rows, row headings first."""
    found: list[list[str]] = page.locator(f".heat {kind}").evaluate_all(
        "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
    )
    return found


def columns_of(page: Any) -> list[str]:
    found: list[str] = page.locator(".heat thead th .token").all_text_contents()
    return found


def test_the_fixture_hears_complaints(browser: Any, tmp_path: Path) -> None:
    """A script that the policy does not name is refused, so a quiet test means something."""
    heard: list[str] = []
    tab = browser.new_context().new_page()
    tab.add_init_script(WATCH)
    tab.on("console", lambda message: heard.append(message.text))
    path = tmp_path / "broken.html"
    path.write_text(render_html([KEYS]).replace("</body>", "<script>window.hacked = 1</script></body>"))
    tab.goto(path.as_uri())
    assert tab.evaluate("[window.hacked, violations]") == [None, ["script-src-elem"]]
    assert any("Content Security Policy" in line for line in heard)
    tab.context.close()


def test_the_heat_map_shows_the_numbers(show: Open) -> None:
    page = show(KEYS)
    assert columns_of(page) == ["The", "␣key", "s"]
    assert rows_of(page) == [
        ["3", "0.00", "+0.75", "+1.00", "+1.75"],
        ["2", "+1.00", "0.00", "−2.00", "−1.00"],
        ["1", "+0.50", "−0.25", "+0.13", "+0.38"],
    ]
    assert rows_of(page, "tfoot tr") == [["sum", "+1.50", "+0.50", "−0.88", "+1.12"]]
    assert (
        page.locator(".heat tbody th").evaluate_all("cells => cells.map(cell => cell.scope)") == ["row"] * 3
    )
    assert (
        page.locator(".heat thead th").evaluate_all("cells => cells.map(cell => cell.scope)") == ["col"] * 5
    )


def test_red_raises_and_blue_lowers(show: Open) -> None:
    page = show(KEYS)
    rgb = """cell => { const c = document.createElement("canvas").getContext("2d");
        c.fillStyle = getComputedStyle(cell).backgroundColor; c.fillRect(0, 0, 1, 1);
        return [...c.getImageData(0, 0, 1, 1).data].slice(0, 3); }"""
    cells = page.locator(".heat tr.block").nth(1).locator("td")
    raises, nothing, lowers = (cells.nth(index).evaluate(rgb) for index in range(3))
    assert raises[0] > raises[2] + 50
    assert lowers[2] > lowers[0] + 50
    assert nothing == [255, 255, 255]


def test_the_words_around_the_numbers(show: Open) -> None:
    page = show(KEYS)
    assert page.locator("h1").text_content() == "Why has and not have?"
    assert page.locator(".prompt").text_content() == "The keys has"
    assert "tiny · alti-logit: what attention adds" in page.locator(".subtitle").text_content()
    prediction = page.locator(".prediction").inner_text()
    for part in ("␣has", "␣have", "25.0 %", "10.500", "9.000", "logit difference"):
        assert part in prediction
    assert "Mixing is not." in page.locator(".notes").inner_text()


def test_the_ledger_adds_up(show: Open) -> None:
    page = show(KEYS)
    rows = page.locator(".ledger tr").evaluate_all(
        "rows => rows.map(row => [row.cells[0].textContent, row.cells[1].textContent])"
    )
    names = ["embedding", "attention", "attention bias", "MLPs", "norm bias", "unembedding bias", "total"]
    assert [name for name, _ in rows] == names
    numbers = [float(number.replace("−", "-")) for _, number in rows]
    assert sum(numbers[:-1]) == pytest.approx(numbers[-1], abs=2e-3)
    assert numbers[:2] == [-0.25, 1.124]


def test_the_proof_says_both_errors(show: Open) -> None:
    page = show({**KEYS, "ledger": {**KEYS["ledger"], "total": -0.1363, "logit": -0.136307, "error": 2e-7}})
    assert page.locator(".proof").text_content() == (
        "Total −0.136300, the model’s own logit difference −0.136307: "
        "absolute error 7e−6, relative to all entries 2e−7."
    )


def test_bars_go_on_where_the_last_one_ended(show: Open) -> None:
    page = show(KEYS)
    boxes = page.locator(".ledger .bar").evaluate_all(
        "bars => bars.map(bar => { const b = bar.getBoundingClientRect();"
        " return bar.classList.contains('lowers') ? [b.right, b.left] : [b.left, b.right]; })"
    )
    for before, after in pairwise(boxes[:-1]):
        assert after[0] == pytest.approx(before[1], abs=1)
    assert boxes[-1][0] == pytest.approx(boxes[0][0], abs=1)
    assert boxes[-1][1] == pytest.approx(boxes[-2][1], abs=1)


def test_blocks_of_the_ledger(show: Open) -> None:
    page = show(KEYS)
    page.get_by_text("Attention and MLPs by block").click()
    first = page.locator("details tbody tr").last.evaluate(
        "row => [...row.cells].map(cell => cell.textContent)"
    )
    mlp = f"{KEYS['ledger']['mlp'][0]:+.3f}".replace("-", "−")
    assert first == ["1", "+0.375", "0.000", mlp]


def test_numbers_on_hover(show: Open) -> None:
    page = show(KEYS)
    page.locator(".heat tr.block").nth(0).locator("td").nth(0).hover()
    said = page.locator(".readout").text_content()
    assert said == "Block 3, The (token 1, id 100): −0.00100 lowers the logit difference"
    page.locator("h1").hover()
    assert "Point at a cell" in page.locator(".readout").text_content()


def test_a_click_opens_and_closes_heads(show: Open) -> None:
    page = show(KEYS)
    page.locator(".heat tr.block th").nth(1).click()
    assert rows_of(page, "tr.head") == [
        ["2.1", "+0.50", "0.00", "−1.00", "−0.50"],
        ["2.2", "+0.50", "0.00", "−1.00", "−0.50"],
    ]
    note = "A head reads positions; alti-logit then traces what it read back to the tokens mixed into them."
    assert note in page.locator(".heads-note").text_content()
    page.locator(".heat tr.head").nth(0).locator("td").nth(2).hover()
    assert "Block 2, head 1, s (position 3, id 102)" in page.locator(".readout").text_content()
    assert page.locator("th[aria-expanded=true]").all_text_contents() == ["2"]
    page.locator(".heat tr.block").nth(0).locator("td").nth(1).click()
    assert page.locator("tr.head").count() == 4
    page.locator(".heat tr.block th").nth(1).click()
    assert [row[0] for row in rows_of(page, "tbody tr:not(.heads-note)")] == ["3", "3.1", "3.2", "2", "1"]


def test_the_heat_map_from_the_keyboard(show: Open) -> None:
    page = show(KEYS)
    page.get_by_role("button", name="Words").focus()
    page.keyboard.press("Tab")
    focused = "document.activeElement.textContent"
    assert page.evaluate(focused) == "3"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    assert page.evaluate(focused) == "+1.00"
    assert (
        page.locator(".readout").text_content().startswith("Block 2, The (token 1, id 100): +1.00000 raises")
    )
    page.keyboard.press("Enter")
    assert page.locator("tr.head").count() == 2
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert "Block 2, head 2" in page.locator(".readout").text_content()
    page.keyboard.press("Escape")
    assert page.locator("tr.head").count() == 0
    assert page.evaluate(focused) == "+1.00"
    page.keyboard.press("Home")
    assert page.evaluate(focused) == "2"
    for _ in range(9):
        page.keyboard.press("ArrowUp")
    assert page.evaluate(focused) == "block"
    assert page.locator(".heat [tabindex]").count() == 1


def test_tokens_and_words(show: Open) -> None:
    page = show(KEYS)
    page.locator(".heat tr.block th").nth(2).click()
    page.get_by_role("button", name="Words").click()
    pressed = "buttons => buttons.map(button => button.ariaPressed)"
    assert page.locator(".switch button").evaluate_all(pressed) == ["false", "true"]
    assert columns_of(page) == ["The", "keys"]
    assert [row[1:3] for row in rows_of(page)] == [["0.00", "+1.75"], ["+1.00", "−2.00"], ["+0.50", "−0.13"]]
    assert rows_of(page, "tfoot tr") == [["sum", "+1.50", "−0.38", "+1.12"]]
    assert [row[0] for row in rows_of(page, "tr.head")] == ["1.1", "1.2"]
    page.locator(".heat tfoot td").nth(1).hover()
    assert "keys (tokens 2–3, id 101 102)" in page.locator(".readout").text_content()
    page.get_by_role("button", name="Tokens").click()
    assert columns_of(page) == ["The", "␣key", "s"]


def test_nasty_text_is_text(show: Open) -> None:
    document = make_document(["A", *NASTY], target=NASTY[0], foils=NASTY[1:4])
    document["model"] = document["notes"]["use"] = NASTY[2]
    page = show(document, document)
    assert page.evaluate("window.hacked") is None
    assert page.locator("img").count() == 0
    shown = page.locator("article").first.locator(".heat thead th .token").all_text_contents()
    assert shown[1] == NASTY[0].replace(" ", "␣")
    assert shown[4] == NASTY[3].replace(" ", "␣")
    assert shown[5] == "]]>U+2028U+2029"
    assert shown[6] == NASTY[5]
    assert shown[8] == "U+202Eright␣to␣left"
    assert shown[9:] == ["␀␇␛[31m␡", "U+D800", "\\u003c", "∅"]
    assert page.locator(".subtitle .model").first.text_content() == NASTY[2]
    assert NASTY[0] in page.locator("h1").first.text_content()


def test_whitespace_special_and_forced_tokens_are_marked(show: Open) -> None:
    page = show(make_document(["<s>", "\n\n", "\t", "  ", " un", "like"], special=[0], forced=2))
    assert columns_of(page) == ["<s>", "⏎⏎", "⇥", "␣␣", "␣un", "like"]
    tags = page.locator(".heat thead th").evaluate_all(
        "cells => cells.map(cell => cell.querySelector('.tag')?.textContent ?? '')"
    )
    assert tags == ["", "special", "", "", "", "forced", "forced", ""]
    assert page.locator(".prompt .forced").all_text_contents() == [" un", "like"]


def test_text_from_right_to_left_is_isolated(show: Open) -> None:
    page = show(make_document(["A", " مرحبا", " b"]))
    token = page.locator(".heat thead bdi").nth(1)
    assert token.get_attribute("dir") == "auto"
    assert token.evaluate("bdi => getComputedStyle(bdi).direction") == "rtl"
    places = page.locator(".heat thead th").evaluate_all(
        "cells => cells.map(c => c.getBoundingClientRect().x)"
    )
    assert places == sorted(places)


def test_a_prompt_from_right_to_left_runs_on_over_tokens(show: Open) -> None:
    page = show(make_document(["A", " مر", "ح", "با"]))
    places = page.locator(".prompt .piece").evaluate_all(
        "all => all.map(one => one.getBoundingClientRect().right)"
    )
    assert places[1:] == sorted(places[1:], reverse=True)


def test_no_foil_and_several(show: Open) -> None:
    page = show(make_document(["A"], foils=[]), make_document(["A"], foils=[" is", " was"]))
    assert page.locator("h1").all_text_contents() == ["Why has?", "Why has and not is or was?"]
    alone, several = page.locator("article").all()
    assert "difference" not in alone.text_content()
    assert "the model’s own logit " in alone.locator(".proof").text_content()
    assert "mean of the foils’ logits8.500" in several.locator(".prediction").text_content()
    assert page.locator("nav a").count() == 2


def test_several_documents_do_not_disturb_each_other(show: Open) -> None:
    page = show(KEYS, make_document(["A", " b"], blocks=2, method="logit"))
    first, second = page.locator("article").all()
    second.get_by_role("button", name="Words").click()
    second.locator("tr.block th").first.click()
    assert first.locator("tr.head").count() == 0
    assert second.locator("tr.head").count() == 2
    assert first.locator(".heat thead .token").all_text_contents() == ["The", "␣key", "s"]
    page.locator("nav a").nth(1).click()
    assert page.evaluate("location.hash") == "#document-2"


def test_a_continuation_is_a_triangle_that_opens_its_tokens(show: Open) -> None:
    texts = ["The", " key", "s", " are"]
    parts = [
        make_document(texts[:length], target=text) for length, text in ((2, "s"), (3, " are"), (4, " <b>"))
    ]
    continuation = {
        "schema": "whyword.continuation/1",
        "model": "tiny",
        "method": "logit",
        "text": "s are <b>",
        "explanations": parts,
    }
    page = show(continuation)
    assert page.title() == "Why “s are <b>”?"
    rows = page.locator(".triangle tbody tr")
    assert rows.locator("th").all_text_contents() == ["s", "␣are", "␣<b>"]
    assert rows.locator("td:nth-child(2)").all_text_contents() == ["␣have"] * 3
    assert page.locator(".triangle thead th").nth(1).text_content() == "and not"
    assert "the logit difference" in page.locator(".triangle .legend").text_content()
    assert [rows.nth(row).locator("td.raises, td.lowers").count() for row in range(3)] == [2, 3, 4]
    assert page.locator(".chosen .slot").text_content() == "s"
    page.locator(".triangle button").nth(2).click()
    assert page.locator(".chosen .slot").text_content() == " <b>"
    assert page.locator(".chosen .heat thead .token").all_text_contents() == ["The", "␣key", "s", "␣are"]
    assert page.locator(".triangle button[aria-pressed=true]").count() == 1
    page.locator(".chosen tr.block th").first.click()
    assert page.locator(".chosen tr.head").count() == 2


def test_whom_the_model_itself_prefers(show: Open) -> None:
    likelier = {**KEYS["foils"][0], "text": " had", "logit": 11.5}
    document = {**KEYS, "foils": [*KEYS["foils"], likelier]}
    page = show(KEYS, document)
    first, second = page.locator(".subtitle").all_text_contents()
    assert "prefers" not in first
    assert second.endswith("(the model itself prefers had)")


def test_no_row_is_hidden_and_no_edge_unmarked(show: Open) -> None:
    texts = [f" word{index}" for index in range(40)]
    page = show(make_document(texts, blocks=40), make_document(texts[:2], blocks=41))
    whole, limited = page.locator(".heat-scroll").all()
    assert whole.evaluate("box => box.scrollHeight <= box.clientHeight + 1")
    assert limited.evaluate("box => box.scrollHeight > box.clientHeight")
    classes = "box => [...box.classList].filter(name => name.startsWith('more')).join()"
    assert [whole.evaluate(classes), limited.evaluate(classes)] == ["more-right", "more-below"]
    whole.evaluate("box => { box.scrollLeft = box.scrollWidth; }")
    page.wait_for_selector(".heat-scroll.whole:not(.more-right)")


def test_words_for_fingers(show: Open) -> None:
    touched = show(KEYS, is_mobile=True, has_touch=True, viewport={"width": 390, "height": 800})
    assert touched.locator(".readout").text_content().startswith("Tap a cell")


def measured(unit: str, summary: str, **facts: bool) -> dict[str, Any]:
    return {
        "unit": unit,
        "summary": summary,
        "by_block": False,
        "adds_up": False,
        "contrastive": True,
        **facts,
    }


def test_a_comparison_has_a_row_for_every_method(show: Open) -> None:
    prediction = {key: value for key, value in KEYS.items() if key not in ("method", "scores", "by_block")}
    scores = KEYS["scores"]
    erased = {"method": "erasure", "measure": measured("probability", "what is lost"), "by_block": [scores]}
    shares = {"method": "attention", "measure": measured("share", "weights", contrastive=False)}
    methods = [
        {**erased, "scores": [score / 1000 for score in scores]},
        {**shares, "scores": [abs(score) for score in scores], "by_block": [scores]},
    ]
    page = show({**prediction, "schema": "whyword.comparison/1", "methods": methods})
    rows = rows_of(page, "tbody tr")
    assert [(row[0], row[-1]) for row in rows] == [
        ("erasure", "probability"),
        ("attention not contrastive", "share"),
    ]
    # What is the same for every target neither raises nor lowers it.
    assert not any("+" in text for text in rows[1])
    assert (
        page.locator(".heat .neutral").count()
        == page.locator(".heat tbody tr").nth(1).locator("td").count() - 1
    )
    assert "Grey rows are not contrastive" in page.locator(".map .lead").text_content()
    assert float(rows[0][1].replace("−", "-")) == pytest.approx(scores[0] / 1000, abs=1e-4)
    strongest = page.locator(".heat.comparison tbody tr").evaluate_all(
        "rows => rows.map(row => Math.max(...[...row.cells]"
        ".map(cell => cell.style.getPropertyValue('--strength'))))"
    )
    assert strongest == [1, 1]  # each row up to its own largest number
    assert "They are the same for every target and foil." in page.locator(".notes").first.text_content()
    tokens = len(columns_of(page))
    page.get_by_role("button", name="Words").click()
    assert len(columns_of(page)) <= tokens


def test_a_baseline_has_one_row_and_says_its_unit(show: Open) -> None:
    scores = [score / 1000 for score in KEYS["scores"]]
    measure = measured("probability", "what is lost")
    page = show({**KEYS, "method": "erasure", "measure": measure, "scores": scores, "by_block": [scores]})
    (row,) = rows_of(page, "tbody tr")
    assert (row[0], row[-1]) == ("score", "probability")
    assert page.locator(".heat tfoot").count() == 0
    lead = page.locator(".map .lead").text_content()
    assert lead.startswith(
        "Scores in probability: what is lost. They do not add up to the logit difference of"
    )
    page.locator(".heat tbody td").first.hover()
    assert "(probability)" in page.locator(".readout").text_content()
    page.locator(".heat tbody td").first.click()
    assert page.locator(".heat tr.head").count() == 0


def test_a_capped_logit_has_a_column(show: Open) -> None:
    page = show({**KEYS, "target": {**KEYS["target"], "capped": 1.25}})
    assert "1.250" in page.locator(".prediction tr.target").text_content()
    assert "capped" in page.locator(".prediction thead").text_content()


def test_a_schema_that_is_not_known(show: Open) -> None:
    page = show({"schema": "whyword.other/9"}, KEYS)
    assert (
        "cannot show a document with the schema “whyword.other/9”"
        in page.locator("article").first.text_content()
    )
    assert page.locator(".heat").count() == 1


CONTRAST = """([strength, kind, strong]) => {
    const cell = document.querySelector(".heat tr.block td");
    cell.className = kind;
    cell.classList.toggle("strong", strength > strong);
    cell.style.setProperty("--strength", strength);
    const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const luminance = (colour) => {
        canvas.fillStyle = colour;
        canvas.fillRect(0, 0, 1, 1);
        const linear = (byte) => (byte <= 10 ? byte / 3294.6 : ((byte / 255 + 0.055) / 1.055) ** 2.4);
        const [red, green, blue] = [...canvas.getImageData(0, 0, 1, 1).data].map(linear);
        return 0.05 + 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    };
    const { color, backgroundColor } = getComputedStyle(cell);
    const ratio = luminance(color) / luminance(backgroundColor);
    return Math.max(ratio, 1 / ratio);
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_numbers_can_be_read_on_every_colour(show: Open, scheme: str) -> None:
    page = show(KEYS, color_scheme=scheme)
    (strong,) = re.findall(r"const STRONG = ([\d.]+);", read_modules()["colour_scale.js"])
    for kind in ("raises", "lowers", "neutral"):
        for step in range(51):
            ratio = page.evaluate(CONTRAST, [step / 50, kind, float(strong)])
            assert ratio >= 4.5, (scheme, kind, step / 50)


def test_dark_and_light(show: Open) -> None:
    colours = """() => { const body = getComputedStyle(document.body);
        const cell = document.querySelector(".heat tr.block td:nth-child(3)");
        return [body.backgroundColor, body.color, getComputedStyle(cell).backgroundColor]; }"""
    light = show(KEYS, color_scheme="light").evaluate(colours)
    dark = show(KEYS, color_scheme="dark").evaluate(colours)
    assert light[0] == "rgb(255, 255, 255)"
    assert all(one != other for one, other in zip(light, dark, strict=True))


@pytest.mark.parametrize("width", [390, 1280])
def test_a_long_prompt_scrolls_by_itself(show: Open, width: int) -> None:
    texts = [" " + "x" * 300, "y" * 300, *(f" word{index}" for index in range(198))]
    document = make_document(texts, blocks=12, target="z" * 200, foils=["w" * 200])
    page = show(document, document, viewport={"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    scroll = page.locator(".heat-scroll").first
    assert scroll.evaluate("element => element.scrollWidth > 3 * element.clientWidth")
    assert page.locator(".heat").first.locator("thead th").count() == 202
    assert page.locator(".heat thead th").nth(1).bounding_box()["width"] < 200
    heading = page.locator(".heat tbody th").first
    before = heading.bounding_box()
    scroll.evaluate("element => { element.scrollLeft = 4000; }")
    assert heading.bounding_box() == before


def test_the_focused_cell_is_not_under_the_headings(show: Open) -> None:
    page = show(make_document([f" word{index}" for index in range(40)], blocks=40))
    page.locator(".heat tr.block th").first.focus()
    page.keyboard.press("End")
    seen = """() => { const box = document.activeElement.getBoundingClientRect();
        const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
        return document.elementFromPoint(x, y)?.closest("th, td") === document.activeElement; }"""
    for key, count in (("ArrowDown", 39), ("ArrowUp", 39), ("ArrowLeft", 40)):
        for step in range(count):
            page.keyboard.press(key)
            assert page.evaluate(seen), f"{key} {step + 1}"


def test_on_paper(show: Open) -> None:
    page = show(KEYS)
    page.emulate_media(media="print")
    assert not page.locator(".readout").is_visible()
    assert not page.locator(".switch").is_visible()
    assert page.locator(".heat-scroll").evaluate("element => getComputedStyle(element).maxHeight") == "none"
    assert (
        page.locator(".heat tfoot td").first.evaluate("cell => getComputedStyle(cell).position") == "static"
    )


def test_without_javascript(show: Open) -> None:
    page = show(KEYS, java_script_enabled=False)
    assert "draws its numbers with JavaScript" in page.locator("main").text_content()


def test_in_a_notebook(show: Open) -> None:
    document = make_document(["A", NASTY[0], ' "b"'])
    page = show(page=f"<!doctype html><title>notebook</title>{render_notebook(document)}")
    frame = page.frame_locator("iframe")
    frame.locator("tr.block th").first.click()
    assert frame.locator("tr.head").count() == 2
    assert frame.locator(".heat thead .token").nth(1).text_content() == NASTY[0].replace(" ", "␣")
    assert page.evaluate("window.hacked") is None


def test_the_frame_in_a_notebook_is_as_high_as_its_page(show: Open) -> None:
    document = make_document(["A", " b"], blocks=50)
    page = show(page=f"<!doctype html><title>notebook</title>{render_notebook(document)}")
    page.wait_for_function("document.querySelector('iframe').clientHeight > 1500")
    frame = page.frame_locator("iframe").locator("html")
    low, whole = frame.evaluate("root => [root.clientHeight, root.scrollHeight]")
    assert whole <= low + 1  # nothing is left to scroll


def test_a_real_explanation(show: Open) -> None:
    tokenizer = toy_tokenizers.make("byte-level")
    network = build("gpt2", torch.float32, vocab_size=len(tokenizer))
    model = whyword.load(network, tokenizer=tokenizer, start="tokenizer")
    asked: Any = {"target": "has", "foil": "have", "method": "alti-logit"}
    explanation = whyword.explain(model, "été 🙂 <b> report", **asked)
    page = show(explanation.to_dict())
    assert len(rows_of(page)) == 3
    assert len(columns_of(page)) == len(explanation.tokens)
    assert page.locator(".prompt").text_content() == "été 🙂 <b> report has"
    page.get_by_role("button", name="Words").click()
    words = page.locator(".heat thead .token").all_text_contents()
    assert words == [word for word, _ in explanation.words()]
    page.locator(".heat tr.block th").first.click()
    assert page.locator("tr.head").count() == 4


def test_heads_as_a_map(show: Open) -> None:
    page = show(KEYS)
    table = page.locator(".by-head")
    assert table.locator("thead th").all_text_contents() == ["block", "1", "2"]
    assert table.locator("tbody tr").first.locator("th, td").all_text_contents() == ["3", "+0.87", "+0.87"]
    assert "the logit difference" in page.locator(".heads .legend").text_content()
    table.locator("button").nth(2).click()  # block 2, head 1
    said = page.locator(".head-tokens p")
    assert said.first.text_content() == "Block 2, head 1 adds −0.500 by reading: s −1.000, The +0.500 …"
    assert page.locator(".head-tokens .piece").count() == 3
    pressed = table.locator("[aria-pressed=true]")
    assert pressed.get_attribute("aria-label") == "block 2, head 1: −0.50"
    assert pressed.evaluate("button => getComputedStyle(button).outlineStyle") == "solid"


def test_heads_are_one_stop_of_the_keyboard(show: Open) -> None:
    page = show(KEYS)
    table = page.locator(".by-head")
    focused = "document.activeElement.ariaLabel"
    assert table.locator("[tabindex='0']").count() == 1
    table.locator("[tabindex='0']").focus()
    for key, name in (
        ("ArrowLeft", "block 3, head 1"),
        ("ArrowRight", "block 3, head 2"),
        ("ArrowDown", "block 2, head 2"),
        ("ArrowDown", "block 1, head 2"),
        ("ArrowDown", "block 1, head 2"),
        ("ArrowUp", "block 2, head 2"),
    ):
        page.keyboard.press(key)
        assert page.evaluate(focused).startswith(name)
    page.keyboard.press("Enter")
    assert "Block 2, head 2 adds" in page.locator(".head-tokens").text_content()
    assert table.locator("[tabindex='0']").count() == 1
    page.keyboard.press("Tab")
    assert not page.evaluate("document.activeElement.closest('.by-head') !== null")


def neurons_document() -> dict[str, Any]:
    left_out = ("by_block", "by_head", "scores", "method")
    named = {"activation": -2.0, "gate": 1.0, "promotes": [" are", "<b>"], "suppresses": [" is"]}
    return {
        **{key: value for key, value in KEYS.items() if key not in left_out},
        "schema": "whyword.neurons/1",
        "blocks": [{"update": [0.1, -0.2, 0.7]}, {"update": [0.0, 0.4, 0.1]}, {"update": [0.0, 0.0, 0.0]}],
        "named": [
            {"label": "1.2", "block": 0, "update": 0.7, **named},
            {"label": "1.1", "block": 0, "update": -0.2, **named},
        ],
    }


def test_neurons(show: Open) -> None:
    page = show(neurons_document())
    rows = page.locator(".ranking tbody tr")
    first = rows.first.locator("th, td").all_text_contents()
    assert first == ["1.2", "+0.700", "reversed −2.00", "are <b>", "is"]
    assert (
        "here the neuron lowers what its value vector promotes"
        in page.locator(".neurons .lead").text_content()
    )
    assert rows.nth(1).locator("td").first.get_attribute("class") == "lowers"
    assert page.locator(".panels .point").count() == 3
    assert page.locator(".panels .name").all_text_contents() == ["2"]
    page.locator("select").select_option("1")
    assert page.locator(".panels .name").all_text_contents() == ["1"]
    assert "9 MLP neurons" in page.locator(".subtitle").text_content()


@pytest.mark.parametrize("part", ["heads", "neurons"])
def test_a_survey(show: Open, part: str) -> None:
    groups = [
        {"name": name, "examples": 7, "logit": 1.0, "update": [[0.5, -0.25], [0.125, 0.0]]}
        for name in ("this,that", "these,those")
    ]
    mean = {"this,that": 0.5, "these,those": -0.125}
    document = {
        "schema": "whyword.survey/1",
        "model": "tiny",
        "part": part,
        "data": [["dna", "0"]],
        "examples": 14,
        "groups": groups,
        "ranked": [{"label": "1.1", "block": 0, "mean": mean}],
        "notes": KEYS["notes"],
    }
    page = show(document, KEYS)
    ranking = page.locator(".ranking")
    assert ranking.locator("thead th").all_text_contents() == [part[:-1], "this,that (7)", "these,those (7)"]
    assert ranking.locator("tbody th, tbody td").all_text_contents() == ["1.1", "+0.500", "−0.125"]
    shown = page.locator("article").first
    assert shown.locator(".by-head td").count() == (8 if part == "heads" else 0)
    assert shown.locator(".panels .point").count() == (0 if part == "heads" else 4)


def test_the_account(show: Open) -> None:
    account = {
        "attention": [1.0, 0.0, 0.0],
        "mlp": [0.5, 0.25, 0.0],
        "embedding": [0.0, 0.0, -0.25],
        "scores": [1.5, 0.25, -0.25],
        "biases": 0.0,
        "logit": 1.5,
        "note": "heuristic",
    }
    page = show(KEYS | {"account": account})
    first = page.locator(".account tbody tr").first.locator("th, td").all_text_contents()
    assert first == ["The", "+1.000", "+0.500", "0.000", "+1.500"]
    assert (
        "All tokens (+1.500) and biases (0.000) add up to +1.500."
        in page.locator(".account .lead").text_content()
    )


# ------------------------------------------------------------ a translation


def make_translation() -> dict[str, Any]:
    """The document of a translation: two words of the source, three tokens of which two are one word."""

    def token(id_: int, text: str, start: int, word: int, special: bool = False) -> dict[str, Any]:
        end = start if special else start + len(text.strip())
        return {"id": id_, "text": text, "start": start, "end": end, "word": word, "special": special}

    ledger = {
        "embedding": 0.5,
        "attention": [0.25, 0.25],
        "attention_bias": [0.0, 0.0],
        "mlp": [0.5, 0.5],
        "norm_bias": 0.0,
        "unembedding_bias": 0.0,
        "cross_attention": [1.0, 1.0],
        "cross_attention_bias": [0.0, 0.0],
        "total": 4.0,
        "logit": 4.0,
        "error": 1e-9,
    }
    by_block = [
        [[1.0, 0.5, 0.25, None, None], [2.0, 0.0, 0.0, 0.5, None], [0.0, 3.0, 0.0, 0.0, -1.0]],
        [[0.0, 0.5, 0.25, None, None], [1.0, 0.0, 0.0, 0.5, None], [0.0, 1.0, 0.0, 0.0, -1.0]],
    ]
    scores = [
        [None if one is None else one + two for one, two in zip(*rows, strict=True)]
        for rows in zip(*by_block, strict=True)
    ]
    choices = [
        {"id": id_, "text": text, "logit": 4.0, "probability": 0.5}
        for id_, text in ((5, "lib"), (6, "rary"), (7, " <b>old"))
    ]
    return {
        "schema": "whyword.translation/1",
        "model": "toy",
        "method": "alti-logit",
        "source": {"text": "图书馆 旧", "tokens": [token(3, "图书馆", 0, 0), token(4, " 旧", 4, 1)]},
        "target": {
            "text": "library <b>old",
            "tokens": [
                token(0, "<pad>", 0, 0, special=True),
                token(5, "lib", 0, 1),
                token(6, "rary", 3, 1),
                token(7, " <b>old", 8, 2),
            ],
        },
        "first": 1,
        "choices": choices,
        "foils": [None, None, {"id": 8, "text": " new", "logit": 0.0, "probability": 0.1}],
        "scores": scores,
        "by_block": by_block,
        "source_shares": [0.8, 0.6, 0.1],
        "prefix_shares": [0.2, 0.4, 0.9],
        "threshold": 0.25,
        "flagged": [2],
        "ledgers": [ledger] * 3,
        "notes": {"exact": "sums"},
    }


def test_a_translation_is_drawn_and_walked_through(show: Open) -> None:
    page = show(make_translation())
    assert page.locator("h1").text_content() == "Why library <b>old for 图书馆 旧?"
    words = rows_of(page, "tbody tr")
    assert [row[0] for row in words] == ["library", "<b>old"]
    assert words[0][1:4] == ["70 %", "+4.00", "+1.00"]
    assert words[1][1] == "10 % ⚑"
    assert page.locator(".chosen h2.step").text_content() == "Why <b>old and not new?"
    assert "source (cross-attention)" in page.locator(".chosen .ledger").text_content()
    page.get_by_role("button", name="Tokens").click()
    assert [row[0] for row in rows_of(page, "tbody tr")] == ["lib", "rary", "␣<b>old"]
    page.get_by_label("Decoder block").select_option("1")
    assert rows_of(page, "tbody tr")[1][2] == "+1.00"
    page.locator(".heat").get_by_role("button", name="rary").click()
    assert page.locator(".chosen h2.step").text_content() == "Why rary?"
    assert page.locator(".heat [aria-pressed=true]").text_content() == "rary"


def test_words_of_a_translation_light_what_they_belong_to(show: Open) -> None:
    page = show(make_translation())
    source, written = page.locator(".side").all()
    said = page.locator(".sides .readout")
    assert source.get_by_role("button").all_text_contents() == ["图书馆", "旧"]
    assert written.get_by_role("button").all_text_contents() == ["library", "<b>old"]
    written.get_by_role("button").nth(1).hover()
    # “library” is two tokens: what the last step read at both of them adds up.
    assert said.text_content() == (
        "<b>old came from 旧 +4.00 of the source; from what was already written library −2.00."
    )
    strengths = "all => all.map(one => one.style.getPropertyValue('--strength'))"
    assert source.get_by_role("button").evaluate_all(strengths) == ["0.000", "1.000"]
    assert written.get_by_role("button").first.get_attribute("class") == "piece lowers"
    page.mouse.move(0, 0)
    assert said.text_content() == "No word is chosen."
    assert page.locator(".side .raises, .side .lowers").count() == 0
    source.get_by_role("button").first.focus()
    assert said.text_content() == "图书馆 of the source led to library +4.00."
    page.keyboard.press("ArrowRight")
    assert said.text_content() == "旧 of the source led to <b>old +4.00, library +1.00."
    page.get_by_label("Decoder block").select_option("0")
    page.get_by_role("button", name="Tokens").click()
    written.get_by_role("button", name="rary").focus()
    assert said.text_content() == (
        "rary came from 图书馆 +2.00 of the source; from what was already written lib +0.50."
    )


def with_ledger(
    attention: float, mlp: float, rest: float, foils: Sequence[str] = (" have",)
) -> dict[str, Any]:
    """A document of which attention, MLPs and the rest make so much."""
    document = make_document(["A", " b"], [[0.5, -0.25]], foils=foils)
    total = attention + mlp + rest
    made = {"attention": [attention], "mlp": [mlp], "embedding": rest, "total": total, "logit": total}
    return {**document, "ledger": {**document["ledger"], **made}}


def test_the_answer_is_in_sentences(show: Open) -> None:
    weights = {"method": "attention", "measure": measured("share", "weights"), "by_block": [KEYS["scores"]]}
    blind = measured("share", "weights", contrastive=False)
    words = "Attention’s strongest words for has: A +0.50; "
    foil = f"{words}for have: b −0.25 (logits)."
    quiet = with_ledger(0.0, 0.0, 0.0)
    whole = "the logit difference of"
    said = [
        (
            with_ledger(4.71, -1.39, 0.1),
            f"Attention (+4.71) and the MLPs (−1.39) make up most of {whole} +3.42. {foil}",
        ),
        (
            with_ledger(4.71, -1.39, 1.0),
            f"Attention (+4.71), the MLPs (−1.39), embedding and biases (+1.00) add up to {whole} +4.32. "
            f"{foil}",
        ),
        (
            with_ledger(-6.79, 7.11, 0.0),
            f"Attention speaks for have (−6.79), the MLPs speak for has (+7.11): the MLPs decide. {foil}",
        ),
        (
            with_ledger(1.0, -2.0, 0.5),
            f"Attention speaks for has (+1.00), the MLPs speak for have (−2.00): the MLPs decide. {foil}",
        ),
        (  # Neither decides: what is left does.
            with_ledger(-1.0, 0.5, 2.0),
            f"Attention (−1.00), the MLPs (+0.50), embedding and biases (+2.00) add up to {whole} +1.50. "
            f"{foil}",
        ),
        (
            with_ledger(-1.0, 2.0, 0.0, foils=[]),
            "Attention speaks against has (−1.00), the MLPs speak for has (+2.00): the MLPs decide. "
            f"{words}against has: b −0.25 (logits).",
        ),
        (
            with_ledger(-1.0, 2.0, 0.0, foils=[" is", " was"]),
            "Attention speaks for the foils (−1.00), the MLPs speak for has (+2.00): the MLPs decide. "
            f"{words}for the foils: b −0.25 (logits).",
        ),
        ({**quiet, "scores": [0.0, -0.25]}, "Attention’s strongest words for have: b −0.25 (logits)."),
        ({**quiet, "scores": [0.0, 0.0]}, ""),
        ({**KEYS, **weights}, "Highest scores: The +1.50; lowest scores: keys −0.38 (share)."),
        ({**KEYS, **weights, "scores": [0.0, 0.5, -0.875]}, "Lowest scores: keys −0.38 (share)."),
        (
            {**KEYS, **weights, "measure": blind, "scores": [1.5, 0.0, 0.0]},
            "Highest scores: The 1.50 (share).",
        ),
    ]
    page = show(*(document for document, _ in said))
    assert page.locator(".answer").all_text_contents() == [sentence for _, sentence in said]


def test_numbers_in_sentences_are_those_of_the_tables(show: Open) -> None:
    """A half is rounded up on both sides, and a minus is a minus."""
    document = with_ledger(0.125, -0.375, 0.0)
    page = show(document)
    assert (
        page.locator(".answer")
        .text_content()
        .startswith("Attention speaks for has (+0.13), the MLPs speak for have (−0.38): the MLPs decide.")
    )
    rows = page.locator(".ledger .amount").all_text_contents()
    assert rows[1] == write_signed(0.125, 3) == "+0.125"
    assert rows[3] == write_signed(-0.375, 3) == "−0.375"
    assert rows[2] == write_signed(0.0, 3) == "0.000"
    assert [write_plain(number, 2) for number in (0.125, -0.004, 2.0)] == ["0.13", "0.00", "2.00"]
    assert [write_exponent(number) for number in (0.0, 7e-6, 1.0)] == ["0", "7e−6", "1e0"]


def test_sentences_are_derived_and_quote_in_turn() -> None:
    document = make_document(["A", " b"], foils=[" is", " was"])
    worded = add_wording(document)
    assert worded["wording"]["question"] == ["Why ", " has", " and not ", " is", " or ", " was", "?"]
    assert add_wording(worded) == worded
    assert describe({"schema": "whyword.other/9"}) == {}
    assert all(len(said) % 2 for said in (worded["wording"]["question"], worded["wording"]["answer"]))


def test_a_document_without_sentences_is_drawn(show: Open) -> None:
    """Documents of older versions carry none: numbers are shown, and no sentence is made up."""
    continuation = {"schema": "whyword.continuation/1", "model": "tiny", "method": "logit", "text": "s"}
    older = [KEYS, neurons_document(), make_translation(), {**continuation, "explanations": [KEYS]}]
    embedded_now = json.dumps([add_wording(document) for document in older], separators=(",", ":"))
    assert embedded_now.count('"wording"') == 5
    saved = render_html([])
    start = '<script type="application/json" id="documents">'
    page = show(page=saved.replace(f"{start}[]", start + json.dumps(older).replace("<", "\\u003c")))
    assert page.locator("h1").first.text_content() == "whyword report"
    assert page.locator(".answer").first.text_content() == ""
    assert page.locator("article").count() == 4
    assert page.locator(".proof").count() == 0
    assert len(rows_of(page, "tbody tr.block")) == 6
    page.locator(".heat tr.block td").nth(2).hover()
    assert page.locator(".readout").first.text_content().endswith("+1.00000 raises the logit")


# ------------------------------------------------------------ an alignment


def make_alignment(**facts: Any) -> dict[str, Any]:
    return {
        "schema": "whyword.alignment/1",
        "model": "toy",
        "method": "logit",
        "step": "output",
        "block": None,
        "source": ["图书馆", "<b>旧</b>"],
        "target": ["old", "library", "\u202e"],
        "scores": [[0.25, -0.5], [2.0, 0.5], [0.0, 0.0]],
        "links": [[1, 0], [0, 1]],
        **facts,
    }


def cells_of(page: Any, script: str) -> list[list[Any]]:
    found: list[list[Any]] = page.locator(".alignment tbody tr").evaluate_all(
        f"rows => rows.map(row => [...row.cells].slice(1).map(cell => {script}))"
    )
    return found


def test_an_alignment_is_drawn_with_its_links(show: Open) -> None:
    page = show(make_alignment())
    assert page.locator("h1").text_content() == (
        "Which words of 图书馆 <b>旧</b> does old library U+202E come from?"
    )
    assert page.locator(".subtitle").text_content() == "toy · logit: all decoder blocks"
    assert page.locator(".alignment thead .token").all_text_contents() == ["图书馆", "<b>旧</b>"]
    assert page.locator(".alignment tbody th").all_text_contents() == ["old", "library", "U+202E"]
    assert cells_of(page, "cell.textContent") == [["", "●"], ["●", ""], ["", ""]]
    # Shares of the largest score in a row.
    strengths = cells_of(page, "Number(cell.style.getPropertyValue('--strength'))")
    assert strengths == [[0.5, 1], [1, 0.25], [0, 0]]
    assert cells_of(page, "cell.classList.contains('lowers')")[0] == [False, True]
    assert "green" not in page.locator(".map .lead").text_content()


def test_an_alignment_is_walked_through(show: Open) -> None:
    page = show(make_alignment(gold={"sure": [[1, 0]], "possible": [[0, 1], [1, 2]]}))
    said = page.locator(".map .readout")
    page.locator(".alignment tbody td").first.hover()
    assert said.text_content() == "old from 图书馆: +0.25, not linked"
    page.mouse.move(0, 0)
    assert "Point at a cell" in said.text_content()
    page.locator(".alignment [tabindex='0']").focus()
    assert said.text_content() == "old is linked with <b>旧</b>"
    page.keyboard.press("End")
    assert said.text_content() == "old from <b>旧</b>: −0.50, linked, gold"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowLeft")
    assert said.text_content() == "library from 图书馆: +2.00, linked, possible in gold"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Home")
    assert said.text_content() == "U+202E: no link"
    assert page.locator(".alignment [tabindex]").count() == 1
    assert "a green frame a human (gold) link" in page.locator(".map .lead").text_content()
    frames = cells_of(page, "getComputedStyle(cell).outlineStyle")
    assert frames == [["none", "solid"], ["dashed", "none"], ["none", "dashed"]]


def test_scores_that_are_never_negative_are_grey(show: Open) -> None:
    page = show(make_alignment(method="attention", scores=[[0.25, 0.75], [0.5, 0.5], [1, 0]]))
    assert page.locator(".alignment .raises, .alignment .lowers").count() == 0
    assert page.locator(".legend").text_content() == "01.0share of the largest score in its row"


def test_several_alignments_are_one_report(show: Open) -> None:
    nothing = make_alignment(source=[], scores=[[], [], []], links=[])
    page = show(make_alignment(), make_alignment(target=["a", "b", "c"], block=3), nothing)
    assert page.locator("nav a").count() == 3
    assert page.locator("table.alignment").count() == 2
    assert "decoder block 3" in page.locator(".subtitle").nth(1).text_content()
    assert page.locator("article").nth(2).locator(".lead").text_content() == "There is nothing to align."
    page.locator("article").nth(1).locator("tbody td").first.hover()
    assert "a from 图书馆" in page.locator(".map .readout").nth(1).text_content()
    assert "Point at a cell" in page.locator(".map .readout").first.text_content()


def test_an_alignment_has_the_policy_of_all_reports() -> None:
    script = Elements(render_html([KEYS])).content["script"][1]
    page = render_html([make_alignment()])
    assert Elements(page).content["script"][1] == script
    assert f"script-src {hash_of(script)}" in page
    assert "unsafe" not in page
