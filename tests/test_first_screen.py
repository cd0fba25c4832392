"""The first screen: a sentence that answers, bars that add up, and colours that can be told apart."""

import io
import re
from typing import Any

import pytest
import torch
from rich.cells import cell_len
from rich.color import Color, ColorSystem
from rich.console import Console
from rich.style import Style
from rich.text import Text

import whyword
from whyword.view.answer_sentences import group_words
from whyword.view.terminal import print_document
from whyword.view.terminal_colour import LEVELS, find_background, make_styles, paint_ground
from whyword.view.verdict import give_verdict, list_parts
from whyword.view.wording import write_sentence

import toy_tokenizers
from families import build


@pytest.fixture(scope="module")
def model() -> whyword.Model:
    tokenizer = toy_tokenizers.make("byte-level")
    return whyword.load(build("gpt2", torch.float64, vocab_size=len(tokenizer)), tokenizer=tokenizer)


@pytest.fixture(scope="module")
def explained(model: whyword.Model) -> whyword.Explanation:
    prompt = "the painters, the painters and a report"
    return whyword.explain(model, prompt, target="has", foil="have", method="flow")


def draw(document: dict[str, Any], width: int = 80, colour: str | None = None, top: int | None = None) -> str:
    file = io.StringIO()
    console = Console(width=width, file=file, color_system=colour, force_terminal=colour is not None)  # type: ignore[arg-type]
    print_document(document, console, by="word", top=top)
    return file.getvalue()


def read_bars(shown: str) -> dict[str, float]:
    """Read the names and numbers of the bars."""
    found = re.findall(r"^(\S+(?: more words)?) +([+-]?\d+\.\d\d)(?:  .*)?$", shown, re.MULTILINE)
    return {name: float(number) for name, number in found}


def test_bars_add_up_to_the_difference(explained: whyword.Explanation) -> None:
    shown = draw(explained.to_dict())
    bars = read_bars(shown)
    total = bars.pop("difference")
    assert total == pytest.approx(explained.ledger.logit, abs=0.005)
    assert sum(bars.values()) == pytest.approx(total, abs=0.005 * (len(bars) + 1))
    assert {"painters¹", "painters²", "the¹", "the²", "bias"} <= set(bars)
    assert "░" in shown  # what lowers, without colour
    assert "\x1b" not in shown
    assert "More: --by depth|head|token, --routes 9, -o e.html, --method logit --by block" in shown


def test_the_weak_words_of_many_are_added_up(explained: whyword.Explanation) -> None:
    document = explained.to_dict()
    words = len(group_words(document))
    bars = read_bars(draw(document, top=2))
    total = bars.pop("difference")
    assert f"{words - 2} more words" in bars
    assert sum(bars.values()) == pytest.approx(total, abs=0.005 * (len(bars) + 1))


@pytest.mark.parametrize("width", [80, 140])
@pytest.mark.parametrize("colour", [None, "standard", "256", "truecolor"])
def test_the_first_screen_keeps_to_its_width(
    model: whyword.Model, explained: whyword.Explanation, width: int, colour: str | None
) -> None:
    long = whyword.explain(model, "the painters and a report, " * 5, method="flow")
    for each in (explained, long):
        plain = Text.from_ansi(draw(each.to_dict(), width, colour)).plain
        assert all(cell_len(line) <= width for line in plain.splitlines())


def test_other_methods_add_up_with_what_they_do_not_trace(model: whyword.Model) -> None:
    e = whyword.explain(model, "A report about painters", target="has", foil="have", method="logit")
    bars = read_bars(draw(e.to_dict()).replace(" bias", "-bias"))
    total = bars.pop("difference")
    assert sum(bars.values()) == pytest.approx(total, abs=0.005 * (len(bars) + 1))
    assert "MLPs" in bars
    baseline = whyword.explain(model, "A report about painters", target="has", foil="have", method="erasure")
    assert "difference " not in draw(baseline.to_dict()).split("painters")[-1]


def test_ranks_count_likelier_tokens(explained: whyword.Explanation, model: whyword.Model) -> None:
    first = whyword.predict(model, "the painters", top=5)
    assert [choice.rank for choice in first] == [1, 2, 3, 4, 5]
    assert explained.target.rank is not None
    again = whyword.Explanation.from_dict(explained.to_dict())
    assert (again.target, again.foils) == (explained.target, explained.foils)


# ------------------------------------------------------------ the sentence


def make_answered(scores: list[float], **changed: Any) -> dict[str, Any]:
    """Make a document of words “A B C …” with scores that add up with a bias of 0.5."""
    bias, letters = changed.pop("bias", 0.5), changed.pop("letters", "ABCDEF")
    texts = [f" {letter}" for letter, _ in zip(letters, scores, strict=False)]
    tokens = [
        {
            "id": place,
            "text": text,
            "start": 2 * place + 1,
            "end": 2 * place + 2,
            "word": place,
            "special": False,
        }
        for place, text in enumerate(texts)
    ]
    total = sum(scores) + bias
    choice = {"id": 1, "logit": 5.0, "probability": 0.5, "rank": 1}
    return {
        "schema": "whyword.explanation/1",
        "method": "flow",
        "text": "".join(texts),
        "tokens": tokens,
        "scores": scores,
        "target": {**choice, "text": " has"},
        "foils": [{**choice, "text": " have", "logit": 4.0, "rank": 2}],
        "ledger": {"attention": [total], "mlp": [0.0], "total": total, "logit": total},
        "flow": {"by_depth": [scores, scores], "bias": [bias, bias], "routes": [], "depth": 0},
        **changed,
    }


def say(document: dict[str, Any]) -> str:
    return write_sentence(give_verdict(document))


def test_the_sentence_names_who_decides_and_by_how_much_of_what() -> None:
    said = say(make_answered([0.2, 3.0, -1.0, -0.5, 0.01]))
    assert said == "“B” speaks for “has”: +3.00 of +2.21, “A” +0.20; “C” and “D” against."
    assert say(make_answered([-3.0, 1.0])).startswith("“A” speaks for “have”: −3.00 of −1.50; “B” against.")
    repeated = say(make_answered([1.0, 3.0, -0.5], letters="ABA"))
    assert repeated == "“B” speaks for “has”: +3.00 of +4.00, “A”¹ +1.00; “A”² against."
    parts = list_parts(make_answered([1.0, 2.0], start={"tokens": 1}))
    assert (parts.start, parts.words, parts.bias) == (1.0, (("B", 2.0),), 0.5)


@pytest.mark.parametrize(
    ("document", "notable"),
    [
        (make_answered([4.0, 1.0], start={"tokens": 1}), "The start carries most (+4.00)"),
        (make_answered([1.0], bias=5.0), "Biases carry most (+5.00)"),
        (make_answered([-1.0, 0.2], bias=3.0), "All words together speak for the other side (−0.80)."),
        (
            make_answered([1.0], ledger={"attention": [-2.0], "mlp": [3.5], "total": 1.5, "logit": 1.5}),
            "The MLPs (+3.50) decide against attention (−2.00).",
        ),
    ],
)
def test_what_is_notable_is_said(document: dict[str, Any], notable: str) -> None:
    assert notable in say(document)


def test_where_target_and_foil_stand_in_the_list() -> None:
    plain = make_answered([1.0])
    foil = plain["foils"][0]
    assert "choose" not in say(plain)
    unlikely = {**plain, "target": {**plain["target"], "rank": 12}, "foils": [{**foil, "rank": 4321}]}
    assert (
        "would not choose “has”: it is its 12th choice. “have” is far down its list, at place 4,321."
        in say(unlikely)
    )
    assert "The model itself prefers “have”." in say({**plain, "foils": [{**foil, "logit": 9.0}]})
    ranks = [(2, "2nd"), (3, "3rd"), (11, "11th"), (21, "21st"), (1112, "1,112th")]
    for rank, shown in ranks:
        assert f"its {shown} choice" in say({**plain, "target": {**plain["target"], "rank": rank}})


# ------------------------------------------------------------ colours


SYSTEMS = {"truecolor": ColorSystem.TRUECOLOR, "256": ColorSystem.EIGHT_BIT, "standard": ColorSystem.STANDARD}


def luminance(colour: Color) -> float:
    red, green, blue = ((channel / 255) ** 2.2 for channel in colour.get_truecolor())
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def salience(style: Style, background: str) -> tuple[float, ...]:
    """Give how much a style stands out: whether it has a background, how far that is from the terminal's."""
    if style.bgcolor is None:
        return (0.0, 0.0, float(bool(style.bold)))
    shade = luminance(style.bgcolor)
    strength = {"dark": shade, "light": -shade, "unknown": 0.0}[background]
    return (1.0, round(strength, 4), float(bool(style.bold)))


@pytest.mark.parametrize("background", ["dark", "light", "unknown"])
@pytest.mark.parametrize("system", SYSTEMS)
def test_strong_numbers_stand_out_more_and_signs_never_look_alike(system: str, background: str) -> None:
    styles = make_styles(system, background)
    for sign in ("raises", "lowers"):
        ranked = [salience(styles[f"{sign}.{level}"], background) for level in range(1, LEVELS + 1)]
        assert ranked == sorted(ranked), (sign, ranked)
        assert ranked[0] != ranked[-1]
    for level in range(1, LEVELS + 1):
        shown = []
        for sign in ("raises", "lowers"):
            style = styles[f"{sign}.{level}"]
            colour = style.bgcolor or style.color
            assert colour is not None
            shown.append(colour.downgrade(SYSTEMS[system]))
        red, blue = (colour.get_truecolor() for colour in shown)
        assert red.red > red.blue, level
        assert blue.blue > blue.red, level


@pytest.mark.parametrize("system", SYSTEMS)
def test_text_can_be_read_on_every_colour(system: str) -> None:
    for background in ("dark", "light", "unknown"):
        for style in make_styles(system, background).values():
            if style.bgcolor is not None and style.color is not None and system != "standard":
                one, other = sorted((luminance(style.bgcolor), luminance(style.color)))
                assert (other + 0.05) / (one + 0.05) >= 4, (background, style)


def test_numbers_have_the_colour_of_their_share() -> None:
    assert paint_ground(0.0, 1.0) is paint_ground(0.019, 1.0) is paint_ground(None, 1.0) is None
    assert paint_ground(2.0, 2.0) == f"raises.{LEVELS}"
    assert paint_ground(-2.0, 2.0) == f"lowers.{LEVELS}"
    assert paint_ground(0.5, 1.0) == f"raises.{LEVELS // 2}"


def test_the_background_is_what_terminals_say() -> None:
    assert find_background({}) == find_background({"COLORFGBG": "default;default"}) == "unknown"
    assert find_background({"COLORFGBG": "15;0"}) == "dark"
    assert find_background({"COLORFGBG": "0;default;15"}) == "light"
    assert find_background({"COLORFGBG": "15;0", "WHYWORD_BACKGROUND": "Light"}) == "light"


def test_no_colour_is_used_where_none_is_wanted(
    explained: whyword.Explanation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    file = io.StringIO()
    print_document(explained.to_dict(), Console(width=80, file=file, force_terminal=True), by="word")
    assert "38;" not in file.getvalue()
    assert "48;" not in file.getvalue()
    assert "[31m" not in file.getvalue()
