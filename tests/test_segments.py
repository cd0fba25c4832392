"""Sentences, lines, paragraphs, and spans that a user names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whyword.errors import InputError
from whyword.tokens.segments import SPLITTERS, find_segment, name_spans, split_text


def split(text: str, unit: str = "sentence") -> list[str]:
    return [text[segment.start : segment.end] for segment in split_text(text, unit)]


@pytest.mark.parametrize(
    "sentences",
    [
        ["The sky is blue.", "The grass is green."],
        ["Dr. Smith met Mr. J. R. Jones at 3.15 p.m. on Monday.", "They talked."],
        ["It costs 3.50 dollars, i.e. a lot.", "See Fig. 3 and Eq. 2."],
        ["He works at Acme Inc.", "The firm is old."],
        ["“Really?” she asked.", "“Yes!”", "He left…", "Then what?!", "Nothing."],
        ["Yahoo! is a firm.", "Is it?", "Yes."],
        ["The U.S. economy grew.", "So did Japan's."],
        ["He said: “I came.”", "(She did not.)", "End"],
        ["It was I.", "Nobody else."],
        ["यह एक वाक्य है।", "यह दूसरा है।"],
        ["هل أنت هنا؟", "نعم."],
        ["A first sentence\nover two lines.", "A second one."],
    ],
)
def test_sentences(sentences: list[str]) -> None:
    assert split(" ".join(sentences)) == sentences
    assert split("\n".join(sentences)) == sentences
    assert split("\n\n".join(sentences)) == sentences


def test_sentences_without_spaces_between_them() -> None:
    sentences = ["今天天气很好。", "他说：“走吧！”", "你来吗？", "好。"]
    assert split("".join(sentences)) == sentences


def test_an_empty_line_ends_a_sentence_and_the_number_of_an_item_does_not() -> None:
    assert split("A title\n\n1. First item.\n2. Second item.") == [
        "A title",
        "1. First item.",
        "2. Second item.",
    ]


def test_lines_and_paragraphs() -> None:
    text = "One\ntwo\r\n\n  \nthree\n\n\nfour  "
    assert split(text, "line") == ["One", "two", "three", "four"]
    assert split(text, "paragraph") == ["One\ntwo", "three", "four"]


@given(st.text(alphabet=st.sampled_from("ab AB.!?\n\"'。I1 Dr"), max_size=60), st.sampled_from([*SPLITTERS]))
def test_every_visible_character_is_in_one_segment(text: str, unit: str) -> None:
    segments = split_text(text, unit)
    for place, character in enumerate(text):
        holding = [each for each in segments if each.start <= place < each.end]
        assert len(holding) == (1 if holding or not character.isspace() else 0)
        assert find_segment(segments, place) == (segments.index(holding[0]) if holding else None)
    assert all(text[each.start : each.end] == text[each.start : each.end].strip() for each in segments)


@pytest.mark.parametrize(
    ("spans", "message"),
    [
        ({"a": (0, 4), "b": (3, 6)}, r"The spans 'a' \(0 to 4\) and 'b' \(3 to 6\) overlap"),
        ({"a": (2, 2)}, "The span 'a', from 2 to 2, is empty"),
        ({"a": (3, 4)}, "The span 'a', from 3 to 4, is empty"),
        ({"a": (0, 99)}, "The span 'a' goes from 0 to 99, the text has 9 characters"),
        ({"a": (-1, 3)}, "goes from -1 to 3"),
        ({"a": "nowhere"}, "The span 'a' is 'nowhere'"),
        ({}, "No span is named"),
    ],
)
def test_spans_that_cannot_be_are_refused(spans: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        name_spans("one two b", spans)


def test_spans_come_in_the_order_of_the_text() -> None:
    assert [each.name for each in name_spans("one two", {"b": (4, 7), "a": (0, 3)})] == ["a", "b"]
