"""The page of `whyword serve`, in a real browser, against the real server with small models."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("fastapi", reason="FastAPI is not installed")

import toy_translators
import whyword
from whyword.alignment.alignment import Alignment
from whyword.ask.document_question import ask_documents
from whyword.serve.access import LOCAL, Limits
from whyword.serve.assets import read_assets
from whyword.view.html import render_html

from browsing import WATCH
from serving import make_toy, serving

PROMPT = "A report about the Impressionists"
HOSTILE = "</script><img src=x onerror='window.hacked = 1'> & \u202eabc مرحبا"
LONG = "the painter has seen what they have not and " * 120
LIMITS = Limits(tokens=3000, waiting=8)
DROP = """([name, type, text]) => {
    const data = new DataTransfer();
    data.items.add(new File([text], name, { type }));
    const target = document.getElementById("results");
    for (const kind of ["dragover", "drop"])
        target.dispatchEvent(new DragEvent(kind, { dataTransfer: data, bubbles: true, cancelable: true }));
}"""


@pytest.fixture(scope="module")
def toy() -> whyword.Model:
    return make_toy()


@pytest.fixture(scope="module")
def plain_toy() -> whyword.Model:
    """One that has no template for chats."""
    model = make_toy("other", blocks=3)
    model.tokenizer.chat_template = None
    return model


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> whyword.Model:
    return toy_translators.load_tiny(toy_translators.make_m2m_100(tmp_path_factory.mktemp("m2m")))


@pytest.fixture(scope="module")
def address(toy: whyword.Model, plain_toy: whyword.Model, translator: whyword.Model) -> Iterator[str]:
    with serving([toy, plain_toy, translator], replace(LOCAL, limits=LIMITS)) as found:
        yield found


Show = Callable[..., Any]


@pytest.fixture
def show(browser: Any, address: str) -> Iterator[Show]:
    """Open the page; whatever the browser complains about fails the test, unless it was to be expected."""
    complaints: list[str] = []
    tabs: list[Any] = []

    def open_page(
        fragment: str = "", at: str = address, state: str = "done", expected: str = "\0", **options: Any
    ) -> Any:
        tab = browser.new_context(**options).new_page()
        tab.set_default_timeout(20_000)
        tab.add_init_script(WATCH)
        tab.on("console", lambda message: expected in message.text or complaints.append(message.text))
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.on("request", lambda request: note(request.url, at))
        tab.goto(f"{at}/{fragment}")
        tabs.append(tab)
        settle(tab, state)
        return tab

    def note(url: str, at: str) -> None:
        if not url.startswith((f"{at}/", "data:", "blob:")):
            complaints.append(f"asked for {url}")

    yield open_page
    for tab in tabs:
        complaints += tab.evaluate("violations")
        assert tab.evaluate("window.hacked") is None
        tab.context.close()
    assert complaints == []


def settle(tab: Any, state: str = "done") -> None:
    """Wait for the answer."""
    tab.wait_for_selector(f"body[data-state={state}]")


def wait_until(tab: Any, expression: str) -> None:
    """Wait until an expression is true. The page's policy forbids the browser's own way, which is `eval`."""
    for _ in range(400):
        if tab.evaluate(expression):
            return
        tab.wait_for_timeout(50)
    raise AssertionError(f"never true: {expression}")


def run(tab: Any, state: str = "done") -> None:
    tab.get_by_role("button", name="Run", exact=True).click()
    settle(tab, state)


def ask(tab: Any, prompt: str) -> None:
    tab.get_by_role("textbox", name="Prompt").fill(prompt)
    run(tab)


def rows_of(tab: Any, rows: str) -> list[list[str]]:
    found: list[list[str]] = tab.locator(rows).evaluate_all(
        "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
    )
    return found


def numbers_of(tab: Any) -> list[float]:
    """Read the sum row of the heat map."""
    (row,) = rows_of(tab, ".heat tr.sum")
    return [float(text.replace("−", "-")) for text in row[1:-1]]


def candidate(tab: Any, row: int, part: str) -> Any:
    return tab.locator(".candidates tbody tr").nth(row).locator(f"button.{part}")


def documents_in(page: str) -> str:
    """Give the JSON that a report holds."""
    return page.partition('<script type="application/json" id="documents">')[2].partition("</script>")[0]


def frame_of(page: str) -> str:
    """Give a report without its documents and what names them."""
    page = page.replace(documents_in(page), "")
    return re.sub("<(title|noscript)>.*?</.*?>", "", page, flags=re.DOTALL)


# ---------------------------------------------------------------- one model


def test_whoever_opens_the_page_sees_an_explanation(show: Show, toy: whyword.Model) -> None:
    tab = show()
    asked = whyword.explain(toy, "The keys to the cabinet", target="are", foil="is")
    assert tab.get_by_role("textbox", name="Prompt").input_value() == "The keys to the cabinet"
    assert numbers_of(tab) == pytest.approx(asked.scores.tolist(), abs=6e-3)
    assert tab.locator(".ledger tfoot").text_content().startswith("total")
    assert "How to read it" in tab.locator("#hint").text_content()
    assert " speaks for " in tab.locator(".answer").text_content()
    assert tab.locator("#status").text_content().startswith("Done. Why")
    assert tab.locator(".column").get_attribute("aria-busy") is None


def test_choose_target_and_foil_and_open_heads(show: Show, toy: whyword.Model) -> None:
    tab = show()
    ask(tab, PROMPT)
    choices = whyword.predict(toy, PROMPT)
    rows = tab.locator(".candidates tbody tr")
    rows.first.wait_for()
    # Words for another prompt are forgotten: the first choice against its best rival, or the runner-up.
    assert tab.locator("#target").input_value() == tab.locator("#foil").input_value() == ""
    pressed = "all => all.map(one => one.dataset.token)"
    both = tab.get_by_role("group", name="Compare with").get_by_role("button")
    for index, foil in enumerate([whyword.explain(toy, PROMPT).foil, choices[1]]):
        both.nth(index).click()
        settle(tab)
        tab.locator(f".switch.rivals button:nth-child({index + 1})[aria-pressed=true]").wait_for()
        found = tab.locator(".part[aria-pressed=true]").evaluate_all(pressed)
        assert found == [str(choices[0].id), str(foil.id)]
    assert "foil=runner-up" in tab.url
    assert "several tokens" not in tab.locator("#words-note").text_content()
    assert rows_of(tab, ".candidates tbody tr")[0][1].startswith(f"{100 * choices[0].probability:.2}"[:3])

    candidate(tab, 3, "why").click()
    settle(tab)
    candidate(tab, 5, "not").click()
    settle(tab)
    asked = whyword.explain(toy, PROMPT, target=choices[3].id, foil=choices[5].id)
    assert numbers_of(tab) == pytest.approx(asked.scores.tolist(), abs=6e-3)
    assert f"target=%23{choices[3].id}" in tab.url
    assert f"foil=%23{choices[5].id}" in tab.url
    assert candidate(tab, 3, "why").get_attribute("aria-pressed") == "true"
    assert tab.locator(".part[aria-pressed=true]").count() == 2
    assert tab.locator("#target").input_value() == tab.locator(".question q").first.text_content()

    tab.get_by_label("Method").select_option("alti-logit")
    settle(tab)
    tab.locator(".heat tr.block td").first.click()
    assert [row[0] for row in rows_of(tab, ".heat tr.head")] == ["2.1", "2.2", "2.3", "2.4"]
    tab.locator(".heat tr.head td").first.hover()
    assert "Block 2, head 1" in tab.locator(".readout").text_content()

    candidate(tab, 5, "not").click()  # once more takes it back
    settle(tab)
    assert "and not" not in tab.locator("h1").text_content()
    assert tab.get_by_label("compare with no other word").is_checked()


def test_typed_words_and_several_foils(show: Show, toy: whyword.Model) -> None:
    tab = show()
    tab.get_by_role("textbox", name="Why").fill("has")
    tab.locator("#foil").fill("have, was")
    ask(tab, PROMPT)
    asked = whyword.explain(toy, PROMPT, target="has", foil=["have", "was"])
    assert numbers_of(tab) == pytest.approx(asked.scores.tolist(), abs=6e-3)
    assert "foil=have&foil=was" in tab.url
    # What is typed is not lost when a candidate is chosen.
    tab.get_by_role("textbox", name="Prompt").fill(f"{PROMPT} has")
    candidate(tab, 2, "why").click()
    settle(tab)
    assert tab.get_by_role("textbox", name="Prompt").input_value() == f"{PROMPT} has"
    tab.get_by_role("textbox", name="Why").fill("has")
    # A slightly changed prompt keeps words.
    ask(tab, PROMPT.replace("A report", "The report"))
    assert tab.get_by_role("textbox", name="Why").input_value() == "has"
    # What cannot be explained is said in two lines, and the candidates stay.
    tab.locator("#foil").fill("has")
    run(tab, "error")
    said = tab.locator(".failure").inner_text()
    assert "are the same tokens" in said
    assert "Name two that differ." in said
    assert tab.locator(".candidates").is_visible()
    tab.get_by_role("textbox", name="Prompt").fill("")
    run(tab, "error")
    assert "There is nothing to explain." in tab.get_by_role("alert").first.inner_text()


def test_a_word_of_several_tokens_says_which_is_explained(show: Show, toy: whyword.Model) -> None:
    tab = show(f"#prompt={PROMPT}&target=zebracorn&foil=have")
    text = whyword.explain(toy, PROMPT, target="zebracorn", foil="have").target.text
    assert text.strip() != "zebracorn"
    shown = text.replace(" ", "␣")
    note = f"‘zebracorn’ is several tokens; ‘{shown}’, the first that differs, is explained."
    assert tab.locator(".column header").text_content().endswith(note)
    assert tab.locator("#words-note").text_content().strip() == note
    tab.get_by_role("textbox", name="Why").fill("has")
    tab.locator("#foil").fill("zebracorn")
    run(tab)
    assert f"; ‘{shown}’, the first that differs, is the foil." in tab.locator("#words-note").text_content()
    tab.get_by_label("compare with no other word").check()
    wait_until(tab, "document.getElementById('words-note').textContent === ''")
    tab.get_by_role("textbox", name="Why").fill("zebracorn")
    run(tab)
    assert tab.locator("#words-note").text_content().strip().endswith("the first of them, is explained.")


def test_hints_are_true_of_the_method(show: Show) -> None:
    tab = show(f"#prompt={PROMPT}&target=has&foil=have")
    hint = tab.locator("#hint")
    assert "the numbers add up" in hint.text_content()
    assert "block" not in hint.text_content()
    tab.get_by_label("Method").select_option("alti-logit")
    settle(tab)
    assert "the numbers add up" in hint.text_content()
    assert "each row a block" in hint.text_content()
    for method, said in (("erasure", "red above zero"), ("attention", "the same whatever word")):
        tab.get_by_label("Method").select_option(method)
        settle(tab)
        assert said in hint.text_content()
        assert "do not add up" in hint.text_content()
        assert "block" not in hint.text_content()


def test_candidates_of_another_prompt_are_pale(show: Show) -> None:
    tab = show(f"#prompt={PROMPT}&target=has&foil=have")
    candidates = tab.locator("section.next")
    candidates.wait_for()
    opacity = "each => getComputedStyle(each).opacity"
    assert candidates.evaluate(opacity) == "1"
    tab.get_by_role("textbox", name="Prompt").fill("Another one")
    assert float(candidates.evaluate(opacity)) < 1
    tab.get_by_role("textbox", name="Prompt").fill(PROMPT)
    assert candidates.evaluate(opacity) == "1"
    ask(tab, "Another one")
    assert tab.locator("#next.edited").count() == 0


def test_methods_views_and_their_addresses(show: Show, toy: whyword.Model) -> None:
    tab = show(f"#prompt={PROMPT}&target=has&foil=have")
    tab.get_by_label("Method").select_option("erasure")
    settle(tab)
    erased = whyword.explain(toy, PROMPT, target="has", foil="have", method="erasure")
    (row,) = rows_of(tab, ".heat tbody tr")
    assert len(row) == len(erased.tokens) + 2
    assert row[-1] == "probability"

    tab.get_by_role("button", name="Compare methods").click()
    tab.wait_for_selector(".heat.comparison")
    settle(tab)
    compared = whyword.compare(toy, PROMPT, target="has", foil="have").to_dict()
    assert [row[0].removesuffix(" not contrastive") for row in rows_of(tab, ".heat.comparison tbody tr")] == [
        each["method"] for each in compared["methods"]
    ]

    tab.get_by_role("button", name="Neurons").click()
    tab.wait_for_selector(".ranking")
    settle(tab)
    found = whyword.neurons(toy, PROMPT, target="has", foil="have").to_dict()
    assert [row[0] for row in rows_of(tab, ".ranking tbody tr")] == [each["label"] for each in found["named"]]
    assert "view=neurons" in tab.url

    tab.go_back()
    tab.wait_for_selector(".heat.comparison")
    tab.go_back()
    tab.wait_for_selector(".heat-scroll")
    assert tab.get_by_label("Method").input_value() == "erasure"
    assert rows_of(tab, ".heat tbody tr") == [row]
    tab.go_forward()
    tab.wait_for_selector(".heat.comparison")
    assert tab.locator("#view [aria-pressed=true]").text_content() == "Compare methods"


def test_continue_and_click_a_token(show: Show, toy: whyword.Model) -> None:
    tab = show(f"#prompt={PROMPT}&view=continue&tokens=4")
    continuation = whyword.explain_continuation(toy, PROMPT, foil="auto", new_tokens=4)
    buttons = tab.locator(".triangle table button")
    assert buttons.count() == 4
    buttons.nth(2).click()
    part = continuation.explanations[2]
    (row,) = rows_of(tab, ".chosen .heat tr.sum")
    assert [float(text.replace("−", "-")) for text in row[1:-1]] == pytest.approx(
        part.scores.tolist(), abs=6e-3
    )
    # The chosen token is in the address, and a link opens it again.
    assert "chosen=3" in tab.url
    again = show(tab.url.partition("/#")[2].join(["#", ""]))
    assert again.locator(".triangle [aria-pressed=true]").text_content() == buttons.nth(2).text_content()
    assert rows_of(again, ".chosen .heat tr.sum") == [row]
    tab.get_by_label("Continuation").fill(" has been")
    tab.get_by_label("Continuation").press("Enter")
    wait_until(tab, "location.hash.includes('continuation=')")
    settle(tab)
    assert "has been" in tab.locator("h1").first.text_content()
    assert "chosen=" not in tab.url
    candidate(tab, 0, "why").click()  # a candidate is explained alone
    tab.wait_for_selector(".heat tr.sum")
    assert "view=explain" in tab.url


def test_a_chat(show: Show, toy: whyword.Model) -> None:
    tab = show()
    tab.get_by_role("button", name="Chat").click()
    turns = tab.locator("#turns textarea")
    turns.first.fill("has she?")
    tab.get_by_role("button", name="Add a turn").click()
    assert turns.nth(1).evaluate("box => box === document.activeElement")
    turns.nth(1).fill("they have")
    tab.get_by_role("button", name="Add a turn").click()
    tab.get_by_role("button", name="Remove this turn").nth(2).click()
    run(tab)
    asked = [{"role": "user", "content": "has she?"}, {"role": "assistant", "content": "they have"}]
    expected = whyword.explain(toy, asked, foil="auto")
    assert numbers_of(tab) == pytest.approx(expected.scores.tolist(), abs=6e-3)
    tab.reload()
    settle(tab)
    assert turns.nth(1).input_value() == "they have"
    assert numbers_of(tab) == pytest.approx(expected.scores.tolist(), abs=6e-3)


# ---------------------------------------------------------------- links and files


def test_documents_and_the_sentences_of_an_answer(
    show: Show, browser: Any, toy: whyword.Model, tmp_path: Path
) -> None:
    (tmp_path / "b.txt").write_text("She has seen the reports. They have not.")
    page = show()
    page.get_by_role("button", name="Documents").click()
    page.get_by_role("textbox", name="Name of the document").fill("a.txt")
    page.get_by_role("textbox", name="Document", exact=True).fill("A report about the painters.")
    page.locator("#document-files").set_input_files(str(tmp_path / "b.txt"))
    page.get_by_role("textbox", name="Document", exact=True).nth(1).wait_for()
    page.get_by_role("textbox", name="Question").fill("Who has seen the reports?")
    run(page)  # the model's own answer
    page.get_by_role("textbox", name="Answer").fill("She has. They have not.")
    run(page)
    documents = {"a.txt": "A report about the painters.", "b.txt": (tmp_path / "b.txt").read_text()}
    prompt = ask_documents(toy, documents, "Who has seen the reports?")
    table = whyword.explain_continuation(toy, prompt, "She has. They have not.", foil=None).by()

    def check(shown: Any) -> None:
        sentences = shown.locator(".sentences button")
        assert sentences.all_inner_texts() == ["She has.", "They have not."]
        sentences.nth(1).focus()
        shown.keyboard.press("Enter")
        assert sentences.nth(1).get_attribute("aria-pressed") == "true"
        order = sorted(zip(table.rows[1].scores, table.columns, strict=True), key=lambda pair: -pair[0])
        assert [row[0] for row in rows_of(shown, ".parts tbody tr")] == [column.name for _, column in order]
        shown.get_by_role("button", name="documents[b.txt]").click()
        place = [column.name for column in table.columns].index("documents[b.txt]")
        own = [
            (score, word.text)
            for score, word in zip(table.rows[1].words, table.words, strict=True)
            if word.column == place
        ]
        _, strongest = max(own, key=lambda pair: abs(pair[0]))
        assert shown.locator(".strongest-words .piece").first.inner_text() == strongest
        assert shown.locator(".prompt .in-part").count() == len(own)

    check(page)
    with page.expect_download() as saving:
        page.get_by_role("button", name="Save HTML").click()
    saving.value.save_as(tmp_path / "saved.html")
    report = browser.new_context().new_page()
    report.add_init_script(WATCH)
    report.goto((tmp_path / "saved.html").as_uri())
    check(report)
    assert report.evaluate("violations") == []
    report.context.close()
    phone = show(page.evaluate("location.hash"), viewport={"width": 360, "height": 740})
    check(phone)
    assert phone.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_copied_link_shows_the_same(show: Show) -> None:
    tab = show(permissions=["clipboard-read", "clipboard-write"])
    ask(tab, f"{PROMPT} # & + % = été")
    tab.get_by_role("button", name="Copy link").click()
    link = tab.evaluate("navigator.clipboard.readText()")
    other = show(link.partition("/#")[2].join(["#", ""]))
    assert other.get_by_role("textbox", name="Prompt").input_value() == f"{PROMPT} # & + % = été"
    assert rows_of(other, ".heat tr") == rows_of(tab, ".heat tr")
    assert other.locator(".answer").text_content() == tab.locator(".answer").text_content()


def test_saved_files_can_be_dropped_back(show: Show, toy: whyword.Model, tmp_path: Path) -> None:
    tab = show(f"#prompt={PROMPT}&target=has&foil=have")
    shown = rows_of(tab, ".heat tr")
    saved: dict[str, str] = {}
    for kind in ("HTML", "JSON"):
        with tab.expect_download() as download:
            tab.get_by_role("button", name=f"Save {kind}").click()
        name = download.value.suggested_filename
        assert name.startswith("whyword-why-")
        assert name.endswith(kind.lower())
        saved[kind] = Path(download.value.path()).read_text(encoding="utf-8")
    expected = whyword.explain(toy, PROMPT, target="has", foil="have").to_dict()
    document = json.loads(saved["JSON"])
    assert document.keys() == json.loads(json.dumps(expected)).keys()
    assert document["ledger"]["logit"] == pytest.approx(expected["ledger"]["logit"], rel=1e-5)

    # The page writes the very report that the library writes, but for the words of its title.
    written, library = documents_in(saved["HTML"]), documents_in(render_html([document]))
    assert json.loads(written) == json.loads(library)
    assert written.isascii()
    assert frame_of(saved["HTML"]) == frame_of(render_html([document]))

    tab = show("#prompt=The painter")
    for kind, mime in (("HTML", "text/html"), ("JSON", "application/json")):
        tab.evaluate(DROP, [f"<b>{kind}</b>", mime, saved[kind]])
        tab.get_by_text("Shown from the file").wait_for()
        assert tab.locator("#file-name").text_content() == f"Shown from the file <b>{kind}</b>"
        assert rows_of(tab, "#from-file .heat tr") == shown
        tab.get_by_role("button", name="Close the file").click()
        assert not tab.locator("#from-file").is_visible()
        assert tab.locator("#columns .heat").first.is_visible()

    # By the file dialogue: several documents, with links that leave the question in the address alone.
    path = tmp_path / "two.json"
    path.write_text(json.dumps([document, document]))
    tab.locator("#file").set_input_files(path)
    tab.locator("#from-file").get_by_role("link").nth(1).click()
    assert tab.locator("#from-file article").count() == 2
    assert "prompt=The" in tab.url


def test_the_saved_report_opens_by_itself(show: Show, browser: Any, tmp_path: Path) -> None:
    tab = show("#" + f"prompt={PROMPT} %3C/script%3E&target=has&foil=have")
    with tab.expect_download() as download:
        tab.get_by_role("button", name="Save HTML").click()
    path = tmp_path / "saved.html"
    download.value.save_as(path)
    alone = browser.new_context(java_script_enabled=True).new_page()
    heard: list[str] = []
    alone.on("console", lambda message: heard.append(message.text))
    alone.goto(path.as_uri())
    assert rows_of(alone, ".heat tr") == rows_of(tab, ".heat tr")
    assert alone.title() == tab.title().removesuffix(" · whyword")
    alone.context.close()
    assert heard == []


def test_saved_alignments_are_opened(show: Show, tmp_path: Path) -> None:
    pairs = ((("Die", "Bank"), ("The", "bank")), (("alt",), ("old", "<b>")))
    alignments = [
        Alignment("toy", "logit", "output", None, source, target, torch.ones(2, len(source)), ((0, 0),))
        for source, target in pairs
    ]
    for ending in ("json", "html"):
        alignments[1].save(tmp_path / f"one.{ending}")
    (tmp_path / "two.html").write_text(render_html([each.to_dict() for each in alignments]))
    lines = [json.dumps(each.to_dict()) for each in alignments]
    (tmp_path / "two.json").write_text("\n".join(lines))
    tab = show()
    for name, count in (("one.json", 1), ("one.html", 1), ("two.html", 2), ("two.json", 2)):
        tab.locator("#file").set_input_files(tmp_path / name)
        tab.locator("#file-name").filter(has_text=name).wait_for()
        drawn = tab.locator("#from-file table.alignment")
        assert drawn.count() == count
        assert drawn.last.locator("tbody tr").all_text_contents() == ["old●", "<b>"]
        drawn.last.locator("td").first.hover()
        said = tab.locator("#from-file .readout").last.text_content()
        assert said == "old from alt: 1.00, linked"
    assert tab.locator("#notice").text_content() == ""
    with tab.expect_download() as download:
        tab.get_by_role("button", name="Save HTML").click()
    saved = Path(download.value.path()).read_text(encoding="utf-8")
    assert json.loads(documents_in(saved)) == [json.loads(line) for line in lines]


REFUSED = {
    "<p>nothing</p>": "It is a page, but not a report of whyword.",
    "nothing": "It is neither JSON nor a report of whyword.",
    '{"schema": "constructor"}': "It is not a report or document of whyword.",
    '[{"schema": "whyword.explanation/1"}]': "parts of it are missing or damaged",
    "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>": "It is a page",
}


def test_other_files_are_refused(show: Show) -> None:
    tab = show()
    for text, said in REFUSED.items():
        tab.evaluate(DROP, [HOSTILE, "text/html", text])
        notice = tab.locator("#notice").filter(has_text=said)
        notice.wait_for()
        assert f"{HOSTILE} cannot be shown." in notice.text_content()
        assert tab.locator("#columns .heat").first.is_visible()
        assert tab.locator("img").count() == 0
        run(tab)
        assert tab.locator("#notice").text_content() == ""


# ---------------------------------------------------------------- text that means harm


def test_hostile_text_stays_text(show: Show, toy: whyword.Model) -> None:
    tab = show()
    word = "<img src=x onerror='window.hacked = 1'>"
    for text in (HOSTILE, "a\x00\x1b[31m\u2028b", "#prompt=x&target=#5", "\U0001f642 <!--<script>"):
        tab.get_by_role("textbox", name="Prompt").evaluate("(box, text) => { box.value = text; }", text)
        tab.get_by_role("textbox", name="Why").fill(word)
        tab.locator("#foil").fill("is")
        run(tab)
        expected = whyword.explain(toy, text, target=word, foil="is").scores.tolist()
        assert numbers_of(tab) == pytest.approx(expected, abs=6e-3)
        assert tab.locator("img").count() == 0
        tab.reload()  # from the address
        settle(tab)
        assert tab.get_by_role("textbox", name="Prompt").input_value() == text
        assert tab.get_by_role("textbox", name="Why").input_value() == word
        assert numbers_of(tab) == pytest.approx(expected, abs=6e-3)


# ---------------------------------------------------------------- translations and several models


def test_a_translation_with_links(show: Show, translator: whyword.Model) -> None:
    source, written = "Die Bank am Fluss ist alt.", "the bank is old"
    tab = show(f"#model={translator.name}&source={source}&translation={written}&from=de&to=en")
    document = whyword.explain_translation(
        translator, source, written, source_language="de", target_language="en"
    ).to_dict()
    assert tab.get_by_role("textbox", name="Source").input_value() == source
    assert not tab.get_by_role("textbox", name="Prompt").is_visible()
    assert not tab.get_by_role("button", name="Neurons").is_visible()
    assert tab.locator(".heat.translation tbody tr").count() >= 4

    sides = tab.locator(".side")
    sides.nth(1).get_by_role("button", name="bank").hover()
    said = tab.locator(".sides .readout").text_content()
    assert said.startswith("bank came from")
    assert (
        sides.nth(0).locator("button.raises, button.lowers").count() == sides.nth(0).locator("button").count()
    )
    # The number that is said is the sum over the word's tokens.
    tokens, offset = document["target"]["tokens"], document["first"]
    word = next(token["word"] for token in tokens if token["text"].strip() and token["start"] == 4)
    steps = [
        place - offset for place, token in enumerate(tokens) if token["word"] == word and not token["special"]
    ]
    sources: dict[int, list[int]] = {}
    for place, token in enumerate(document["source"]["tokens"]):
        sources.setdefault(token["word"], []).append(place)
    sums = [
        sum(document["scores"][step][place] for step in steps for place in own) for own in sources.values()
    ]
    first = re.search(r"came from \S+ ([+−]\d+\.\d+)", said)
    assert first
    assert float(first[1].replace("−", "-")) == pytest.approx(max(sums, key=abs), abs=6e-3)

    tab.mouse.move(0, 0)
    sides.nth(0).get_by_role("button").first.focus()
    tab.keyboard.press("ArrowRight")
    assert "of the source led to" in tab.locator(".sides .readout").text_content()
    assert sides.nth(1).locator("button.raises, button.lowers").count() > 0

    tab.locator("#foil-word").fill("shore")
    run(tab, "error")
    assert "“shore” has no place." in tab.get_by_role("alert").first.text_content()
    assert sides.first.is_visible()
    tab.locator("#place").select_option("2")
    run(tab)
    assert tab.locator("#place option:checked").text_content() == "2 bank"
    assert "place=2" in tab.url
    assert "and not" in tab.locator(".chosen h2.step").text_content()


def test_an_alignment_with_its_slider(
    show: Show, browser: Any, translator: whyword.Model, tmp_path: Path
) -> None:
    """Lines for links, a word that lights its own, fewer and more links; what is saved is what is shown."""
    source, written = "the painter has seen a cat", "a report about the cat has"
    languages = {"source_language": "de", "target_language": "en"}
    tab = show(f"#model={translator.name}&source={source}&translation={written}&from=de&to=en")
    tab.get_by_role("button", name="Align").click()
    tab.wait_for_selector(".heat.alignment")
    settle(tab)
    assert "view=align" in tab.url
    slider, lines = tab.get_by_role("slider", name="Recall"), tab.locator(".paired .lines path")
    counts = []
    for recall in (0.0, 0.6, 0.85, 1.0):
        expected = whyword.align(translator, source, written, recall=recall, **languages)
        slider.fill(str(recall))
        counts.append(lines.count())
        assert counts[-1] == len(expected.links)
        assert tab.locator(".heat.alignment td.link").count() == len(expected.links)
        assert f"recall {recall:g}: {len(expected.links)} link" in tab.locator(".recall output").inner_text()
    assert counts == sorted(counts)
    assert counts[0] < counts[-1]
    own, _ = expected.links[0]
    word = tab.locator(".paired .side").first.locator("button").nth(own)
    word.hover()
    assert f"{expected.source[own]} is linked with" in tab.locator(".paired + .readout").inner_text()
    assert tab.locator(".lines .chosen-line").count() == sum(each == own for each, _ in expected.links)
    tab.locator(".paired .side").last.locator("button").first.focus()
    tab.keyboard.press("ArrowRight")
    assert tab.locator(".chosen-word").inner_text() == expected.target[1]
    with tab.expect_download() as download:
        tab.get_by_role("button", name="Save JSON").click()
    download.value.save_as(tmp_path / "links.json")
    saved = whyword.read(tmp_path / "links.json")
    assert saved.links == expected.links
    assert saved.to_dict()["recall"] == 1.0
    with tab.expect_download() as download:
        tab.get_by_role("button", name="Save HTML").click()
    download.value.save_as(tmp_path / "links.html")
    report = browser.new_page()
    report.goto((tmp_path / "links.html").as_uri())
    report.locator(".paired .lines path").first.wait_for(state="attached")
    assert report.locator(".paired .lines path").count() == counts[-1]
    report.get_by_role("slider", name="Recall").fill("0")
    assert report.locator(".paired .lines path").count() == counts[0]
    report.close()


def test_from_a_prompt_to_a_translation_and_back(show: Show, translator: whyword.Model) -> None:
    tab = show()
    tab.get_by_role("checkbox", name=translator.name).check()
    tab.wait_for_selector(".heat.translation")
    settle(tab)
    # An example in a language that the model knows, into one that it knows.
    assert tab.get_by_role("textbox", name="Source").input_value().startswith("我昨天")
    assert tab.get_by_label("From", exact=True).input_value() == "zh"
    assert tab.get_by_label("To", exact=True).input_value() == "en"
    assert tab.get_by_role("checkbox", name="toy").is_checked() is False
    tab.get_by_role("checkbox", name="toy").check()
    tab.wait_for_selector(".heat tr.sum")
    settle(tab)
    assert tab.get_by_role("textbox", name="Prompt").input_value() == "The keys to the cabinet"
    assert tab.locator("#target").input_value() == "are"


def test_two_models_side_by_side(show: Show, toy: whyword.Model, plain_toy: whyword.Model) -> None:
    tab = show(f"#prompt={PROMPT}&target=has&foil=have", viewport={"width": 1600, "height": 900})
    tab.get_by_role("checkbox", name="other 3 blocks").check()
    tab.wait_for_selector(".column:nth-child(2) .heat tr.sum")
    settle(tab)
    columns = tab.locator(".column")
    assert columns.locator(".model-name").all_text_contents() == ["toy", "other"]
    for index, model in enumerate((toy, plain_toy)):
        (row,) = rows_of(tab, f".column:nth-child({index + 1}) .heat tr.sum")
        expected = whyword.explain(model, PROMPT, target="has", foil="have")
        shown = [float(text.replace("−", "-")) for text in row[1:-1]]
        assert shown == pytest.approx(expected.scores.tolist(), abs=6e-3)
    tab.wait_for_selector(".column:nth-child(2) .candidates")
    boxes = [columns.nth(index).bounding_box() for index in range(2)]
    assert boxes[1]["x"] >= boxes[0]["x"] + boxes[0]["width"]
    ids = tab.evaluate("[...document.querySelectorAll('[id]')].map(each => each.id)")
    assert len(ids) == len(set(ids))

    # A candidate of one is asked of both, as a word.
    columns.nth(1).locator(".candidates tbody tr").nth(1).locator("button.why").click()
    wait_until(tab, "!location.hash.includes('target=has')")
    settle(tab)
    assert "target=%23" not in tab.url

    with tab.expect_download() as download:
        tab.get_by_role("button", name="Save JSON").click()
    both = json.loads(Path(download.value.path()).read_text(encoding="utf-8"))
    assert [each["model"] for each in both] == ["toy", "other"]

    tab.set_viewport_size({"width": 800, "height": 900})
    boxes = [columns.nth(index).bounding_box() for index in range(2)]
    assert boxes[1]["y"] >= boxes[0]["y"] + boxes[0]["height"]


def test_one_model_fails_and_the_other_answers(show: Show) -> None:
    turns = json.dumps([{"role": "user", "content": "has she?"}])
    tab = show(f"#model=toy&model=other&chat={turns}", state="error")
    assert tab.locator(".column").nth(0).locator(".heat tr.sum").count() == 1
    failure = tab.locator(".column").nth(1).get_by_role("alert")
    assert "has no chat template" in failure.text_content()
    assert tab.get_by_role("button", name="Save HTML").is_enabled()


# ---------------------------------------------------------------- running


def test_cancel_and_ask_again(show: Show) -> None:
    tab = show()
    tab.get_by_role("button", name="Compare methods").click()
    settle(tab)
    tab.get_by_role("textbox", name="Prompt").fill(LONG)
    tab.get_by_role("button", name="Run", exact=True).click()
    tab.wait_for_selector("body[data-state=running]")
    wait_until(tab, "/\\d/.test(document.querySelector('.progress').textContent)")
    assert tab.locator(".column").get_attribute("aria-busy") == "true"
    tab.get_by_role("button", name="Cancel").click()
    settle(tab, "cancelled")
    assert tab.locator(".progress").text_content() == "Cancelled."
    assert not tab.get_by_role("button", name="Cancel").is_visible()
    # A new question ends the one before it.
    tab.get_by_role("button", name="Run", exact=True).click()
    tab.wait_for_selector("body[data-state=running]")
    tab.get_by_role("button", name="Explain").click()
    tab.get_by_role("textbox", name="Prompt").fill(PROMPT)
    run(tab)
    assert tab.locator(".prompt").text_content().startswith(PROMPT)


def test_a_full_server_says_so(show: Show, toy: whyword.Model) -> None:
    with serving([toy], replace(LOCAL, limits=Limits(waiting=0))) as full:
        tab = show(at=full, state="error", expected="503")
        failure = tab.locator(".failure")
        assert "runs are waiting already" in failure.text_content()
        failure.get_by_role("button", name="Try again").click()
        settle(tab, "error")
        assert failure.is_visible()


def test_a_server_that_is_gone(show: Show, toy: whyword.Model) -> None:
    with serving([toy]) as gone:
        tab = show(at=gone, expected="ERR_CONNECTION")
    shown = rows_of(tab, ".heat tr")
    run(tab, "error")
    assert "The server does not answer." in tab.locator(".failure").text_content()
    # What was answered stays to be read, but cannot be taken for the answer to this question.
    assert rows_of(tab, ".heat tr") == shown
    assert "Below is the last answer." in tab.locator(".failure").text_content()
    wait_until(tab, "getComputedStyle(document.querySelector('.report')).opacity < 1")
    assert tab.get_by_role("button", name="Save JSON").is_disabled()
    assert tab.get_by_role("button", name="Try again").is_visible()


def test_a_link_to_a_model_that_is_not_here(show: Show) -> None:
    tab = show(f"#model={HOSTILE.replace('&', '')}&prompt={PROMPT}")
    assert "This server does not have </script>" in tab.locator("#notice").text_content()
    assert tab.locator(".subtitle .model").text_content() == "toy"


# ---------------------------------------------------------------- for everyone


def test_a_link_cannot_ask_for_too_much(show: Show, toy: whyword.Model) -> None:
    page = show(f"#prompt=A&place=4294967290{f'&model={toy.name}' * 100}")
    assert page.locator("#columns > *").count() == 1
    assert page.locator("#place option").count() == 2


def test_by_keyboard_alone(show: Show) -> None:
    tab = show("#prompt=The keys to the cabinet&target=are&foil=is&method=alti-logit")
    tab.wait_for_selector(".candidates")
    focused = "document.activeElement"

    def tab_to(test: str) -> None:
        for _ in range(60):
            tab.keyboard.press("Tab")
            if tab.evaluate(f"({test})({focused})"):
                ring = tab.evaluate(f"getComputedStyle({focused}).outlineStyle")
                assert ring != "none"
                return
        raise AssertionError(f"never focused: {test}")

    tab.keyboard.press("Tab")
    assert tab.evaluate(f"{focused}.textContent") == "Skip to the explanation"
    address = tab.url
    tab.keyboard.press("Enter")
    assert tab.evaluate(f"{focused}.id") == "results"
    assert tab.url == address
    tab.keyboard.press("Tab")
    assert tab.evaluate(f"{focused}.dataset.view") == "explain"
    tab.evaluate("document.activeElement.blur(); document.getElementById('copy').focus()")
    tab_to("each => each.id === 'prompt'")
    tab.keyboard.press("ControlOrMeta+a")
    tab.keyboard.type(PROMPT)
    tab.keyboard.press("Control+Enter")
    wait_until(tab, "location.hash.includes('Impressionists')")
    settle(tab)
    wait_until(tab, "document.querySelector('[aria-busy]') === null")  # of the new prompt
    wait_until(tab, "document.querySelectorAll('.part[aria-pressed=true]').length === 2")
    tab_to("each => each.matches('.candidates tbody tr:nth-child(3) .why')")
    tab.keyboard.press("Enter")
    wait_until(tab, "location.hash.includes('target=%23')")
    settle(tab)
    # The focus is where it was, so that the next choice is near.
    wait_until(tab, f"{focused}.matches('.candidates tbody tr:nth-child(3) .why[aria-pressed=true]')")
    tab_to("each => each.dataset.view === 'explain'")
    tab_to("each => each.closest('.heat') !== null")
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("Enter")
    assert tab.locator(".heat tr.head").count() == 4
    assert "Block 2" in tab.locator(".readout").text_content()


def test_every_field_has_a_label(show: Show) -> None:
    tab = show()
    tab.wait_for_selector(".candidates")
    nameless = """[...document.querySelectorAll("input, select, textarea, button")].filter((each) =>
        !(each.labels?.length || each.getAttribute("aria-label") || each.textContent.trim()))
        .map((each) => each.outerHTML)"""
    assert tab.evaluate(nameless) == []


def test_nothing_is_wider_than_a_phone(show: Show, translator: whyword.Model) -> None:
    words = "x" * 100 + " " + PROMPT
    fragments = [
        f"#prompt={words}&view={view}&tokens=3" for view in ("explain", "compare", "neurons", "continue")
    ]
    translated = f"#model={translator.name}&source={words}&translation={words}&from=de&to=en"
    tab = show(fragments[0], viewport={"width": 360, "height": 740})
    for fragment in [*fragments, translated, f"{translated}&view=align"]:
        tab.evaluate(
            "fragment => { document.body.dataset.state = 'left'; location.hash = fragment; }", fragment
        )
        if fragment != fragments[0]:
            settle(tab)
        assert tab.evaluate("document.documentElement.scrollWidth") <= 360, fragment
        assert tab.locator(".report").bounding_box()["width"] > 320, fragment
        for name in ("Copy link", "Save HTML", "Save JSON", "Run"):
            assert tab.get_by_role("button", name=name, exact=True).is_visible()


def test_a_phone_shows_few_candidates_first(show: Show) -> None:
    tab = show(viewport={"width": 360, "height": 740})
    rows = tab.locator(".candidates tbody tr")
    rows.first.wait_for()
    seen = rows.evaluate_all("rows => rows.filter(row => row.checkVisibility()).length")
    assert seen < rows.count()
    tab.get_by_role("button", name="All 10 candidates").click()
    assert rows.evaluate_all("rows => rows.filter(row => !row.checkVisibility()).length") == 0


def test_a_phone_goes_to_the_answer(show: Show) -> None:
    tab = show(
        viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True, reduced_motion="reduce"
    )
    assert tab.evaluate("scrollY") == 0
    assert not tab.get_by_text("Ctrl+Enter runs it.").is_visible()
    run(tab)
    wait_until(tab, "Math.abs(document.getElementById('results').getBoundingClientRect().top) < 2")


def test_dark_and_light(show: Show) -> None:
    colours = """["body", ".ask", "#run", ".heat tr.sum td"].map((each) =>
        getComputedStyle(document.querySelector(each)).backgroundColor)"""
    light = show(color_scheme="light").evaluate(colours)
    dark = show(color_scheme="dark").evaluate(colours)
    assert all(one != other for one, other in zip(light, dark, strict=True))


LATER = {"report.html", "run_browser.html", "run_browser.css", "run_browser.js"}
"""What opening the page does not load: the report that is saved, and the page over a run."""


def test_all_modules_are_asked_for_at_once(browser: Any, address: str) -> None:
    tab = browser.new_context().new_page()
    asked: list[str] = []
    tab.on("request", lambda request: asked.append(request.url.removeprefix(f"{address}/assets/")))
    tab.goto(address, wait_until="networkidle")
    scripts = sorted(name for name in asked if name.endswith(".js"))
    assert scripts == sorted(name for name in read_assets() if name.endswith(".js") and name not in LATER)
    assert not LATER & set(asked)
    named = tab.locator("link[rel=modulepreload]").evaluate_all("links => links.map(link => link.href)")
    assert [url.removeprefix(f"{address}/assets/") for url in named] == scripts
    tab.context.close()


def test_the_page_is_light() -> None:
    assets = read_assets()
    assert sum(len(asset.content) for name, asset in assets.items() if name not in LATER) <= 300_000
    script = "".join(
        asset.content.decode() for name, asset in assets.items() if name.endswith((".js", ".html"))
    )
    for way in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "cssText",
        "style=",
    ):
        assert way not in script
    for outside in ("//cdn", "@import", "url("):
        assert outside not in script


def test_something_is_painted_before_models_are_known(browser: Any, address: str) -> None:
    tab = browser.new_context().new_page()
    tab.route("**/api/models", lambda route: None)  # never answered
    tab.goto(address, wait_until="commit")
    tab.get_by_role("textbox", name="Prompt").wait_for()
    assert tab.get_by_role("textbox", name="Prompt").input_value() == "The keys to the cabinet"
    tab.context.close()


def test_the_difference_of_two_prompts_and_of_two_models(
    show: Show, toy: whyword.Model, plain_toy: whyword.Model
) -> None:
    second = "A report about the painter"
    tab = show(f"#prompt={PROMPT}&target=has&foil=have&view=difference&versus={second}")
    asked: dict[str, Any] = {"target": "has", "foil": "have"}
    first = whyword.explain(toy, PROMPT, **asked)
    numbers = ".ranking tfoot td"
    for expected in (
        whyword.difference(first, whyword.explain(toy, second, **asked)),
        whyword.difference(first, whyword.explain(plain_toy, PROMPT, **asked)),
    ):
        read = [float(text.replace("−", "-")) for text in tab.locator(numbers).all_text_contents() if text]
        assert read == pytest.approx(
            [expected.first.logit, expected.second.logit, expected.difference], abs=6e-4
        )
        assert len(rows_of(tab, ".ranking tbody tr")) >= len(expected.words)
        assert "goes from" in tab.locator(".answer").text_content()
        tab.get_by_role("textbox", name="Second prompt").fill("")
        tab.locator("#models").get_by_label("other").check()
        settle(tab)
    assert tab.locator(".column").count() == 1


def test_a_difference_needs_two(show: Show) -> None:
    tab = show(f"#prompt={PROMPT}&view=difference", state="error")
    assert "Type a second prompt, or choose two models." in tab.locator("#notice").text_content()
