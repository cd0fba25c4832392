"""Words, offsets, continuations and prompts, with real tokenizers of each kind."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers.processors import TemplateProcessing
from transformers import ByT5Tokenizer

import whyword
from whyword.ask.prompt import continue_prompt, extend_prompt
from whyword.tokens import Token, join_word, spell

import toy_tokenizers
from families import build

TEXT = "A report about the Impressionists"


@pytest.fixture(scope="module", params=toy_tokenizers.KINDS)
def model(request: pytest.FixtureRequest) -> whyword.Model:
    tokenizer = toy_tokenizers.make(request.param)
    return whyword.load(
        build("llama", torch.float32, vocab_size=len(tokenizer)), tokenizer=tokenizer, start="tokenizer"
    )


@pytest.fixture(scope="module")
def plain() -> whyword.Model:
    tokenizer = toy_tokenizers.make("byte-level")
    return whyword.load(
        build("gpt2", torch.float32, vocab_size=len(tokenizer)), tokenizer=tokenizer, start="tokenizer"
    )


def test_tokens_spell_the_text(model: whyword.Model) -> None:
    tokens = whyword.tokenize(model, TEXT)
    assert "".join(token.text for token in tokens if not token.special) == TEXT
    for token in tokens:
        assert token.special or TEXT[token.start : token.end] == token.text.strip()


def test_an_empty_first_piece_has_no_text(model: whyword.Model) -> None:
    for text in ("été has", "(with) 12", "語 text"):
        tokens = whyword.tokenize(model, text, start="none")
        pieces = [
            token for before, token in pairwise([None, *tokens]) if not shares_a_character(before, token)
        ]
        assert "".join(token.text for token in pieces) == text


def shares_a_character(one: Token | None, two: Token) -> bool:
    """Say whether two tokens are bytes of one character."""
    return one is not None and one.end > two.start


def test_words_are_found_in_the_text(model: whyword.Model) -> None:
    tokens = whyword.tokenize(model, "She said: don't (ever) go, 12-34!", start="none")
    assert tokens.words() == ["She", "said", ":", "don't", "(", "ever", ")", "go", ",", "12-34", "!"]


def test_offsets_of_unusual_text(plain: whyword.Model) -> None:
    text = " été 🙂 日本語\n\nok "
    tokens = whyword.tokenize(plain, text)
    for token in tokens:
        assert 0 <= token.start <= token.end <= len(text)
        assert token.text.strip() in text
    assert [w for w in tokens.words() if w.strip()] == ["été", "🙂", "日本語", "ok"]


@pytest.mark.parametrize("text", ["हिन्दी भाषा", "cafe\u0301s noe\u0308l", "a 👩‍👩‍👧 b"])
def test_marks_belong_to_their_word(plain: whyword.Model, text: str) -> None:
    assert whyword.tokenize(plain, text).words() == text.split()


def test_pieces_of_one_character_are_one_word(plain: whyword.Model) -> None:
    tokens = whyword.tokenize(plain, "a 🙂")
    smile = [token for token in tokens if "🙂" in token.text]
    assert len(smile) > 1
    assert len({token.word for token in smile}) == 1


@given(st.text(max_size=60), st.lists(st.integers(0, 60), max_size=20))
def test_any_spans_make_words(text: str, cuts: list[int]) -> None:
    edges = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    spans = list(pairwise(edges))
    tokens = spell(text, range(len(spans)), spans, [None] * len(spans))
    assert "".join(token.text for token in tokens) == text
    assert len(tokens.words()) == len({token.word for token in tokens})
    assert [token.word for token in tokens] == sorted(token.word for token in tokens)


def test_a_bos_token_on_request(model: whyword.Model) -> None:
    with_bos, without = (
        whyword.tokenize(model, TEXT, start="bos"),
        whyword.tokenize(model, TEXT, start="none"),
    )
    bos = model.tokenizer.bos_token_id
    assert with_bos.ids == [bos, *without.ids]
    assert with_bos[0].special
    assert with_bos[0].text == "<s>"
    assert bos not in without.ids
    assert whyword.tokenize(model, TEXT) in (with_bos, without)
    assert whyword.explain(model, with_bos).tokens == with_bos


@pytest.mark.parametrize("word", ["has", "Impressionist", "painters"])
def test_a_leading_space_changes_nothing(model: whyword.Model, word: str) -> None:
    prompt = whyword.tokenize(model, TEXT)
    ids = continue_prompt(model, prompt, word)
    assert ids == continue_prompt(model, prompt, " " + word)
    whole = whyword.tokenize(model, f"{TEXT} {word}")
    assert whole.ids == [*prompt.ids, *ids]
    assert extend_prompt(model, prompt, ids) == whole


@pytest.mark.parametrize(
    ("text", "word", "joined"),
    [
        ("the report", "has", " has"),
        ("the report", " has", " has"),
        ("the report ", "has", "has"),
        ("the report\n", " has", "has"),
        ("the report", ",", ","),
        ("the report", " ,", " ,"),
        ("(", "has", "has"),
        ("我读", "书", "书"),
        ("", "has", "has"),
        ("def f():\n", "    return", "    return"),
        ("the report", "\n", "\n"),
        ('She said "', "Hello", "Hello"),
        ('She said "no"', "and", " and"),
        ("well-", "known", "known"),
        ("a -", "b", " b"),
        ("$", "5", "5"),
        ("the report", "   ", ""),
    ],
)
def test_where_a_space_belongs(text: str, word: str, joined: str) -> None:
    assert join_word(text, word) == joined


def test_a_word_of_several_tokens_is_explained_where_it_differs(model: whyword.Model) -> None:
    prompt = whyword.tokenize(model, "She said that he")
    one, two = continue_prompt(model, prompt, "toto12"), continue_prompt(model, prompt, "toto34")
    assert one[0] == two[0]
    place = next(i for i, (a, b) in enumerate(zip(one, two, strict=False)) if a != b)
    e = whyword.explain(model, "She said that he", target="toto12", foil="toto34")
    assert e.forced == place
    assert e.tokens.ids == [*prompt.ids, *one[:place]]
    assert e.position == len(prompt) + place - 1
    assert (e.target.id, e.foil.id) == (one[place], two[place])
    assert e.to_dict()["forced"] == place
    assert e.tokens.text.startswith("She said that he toto")


def test_a_word_that_does_not_fit_behind_its_prompt(model: whyword.Model) -> None:
    """Prompt and word may merge into other tokens than the prompt's own: then the word is read alone."""
    for text, word in (("She has.", "."), ("日本", "語"), ("A report ", "about")):
        ids = continue_prompt(model, whyword.tokenize(model, text), word)
        assert model.tokenizer.decode(ids).strip() == word
        assert model.tokenizer.decode(ids[:1]).strip() != ""


def test_ids_of_a_text_are_the_text(model: whyword.Model) -> None:
    tokens = whyword.tokenize(model, TEXT, start="none")
    again = whyword.explain(model, tokens.ids, target=7).tokens
    assert again.ids == tokens.ids
    assert again.words() == tokens.words()
    assert whyword.explain(model, torch.tensor(tokens.ids), target=7).tokens == again


def test_chat_messages_go_through_the_template(model: whyword.Model) -> None:
    messages = [{"role": "user", "content": "A report"}]
    e = whyword.explain(model, messages, target="has")
    assert e.tokens.text == "<|turn|>user\nA report<|end|><|turn|>assistant\n"
    assert [t.text for t in e.tokens if t.special] == [
        "<|turn|>",
        "<|end|>",
        "<|turn|>",
    ]
    answered = whyword.explain(
        model, [*messages, {"role": "assistant", "content": "The painter"}], target="has"
    )
    assert answered.tokens.text.endswith("assistant\nThe painter")


def test_words_are_additive(model: whyword.Model) -> None:
    e = whyword.explain(model, TEXT, target="has", foil="have")
    words = [word for word, _ in e.words()]
    assert [word for word in words if word != "start"] == TEXT.split()
    assert sum(score for _, score in e.words()) == pytest.approx(float(e.scores.sum()), rel=1e-5)


def test_the_first_choice_and_the_runner_up(plain: whyword.Model) -> None:
    """The foil of every call may be the runner-up; None is no contrast."""
    auto = whyword.explain(plain, TEXT, foil="runner-up")
    alone = whyword.explain(plain, TEXT, foil=None)
    first, second = whyword.predict(plain, TEXT, top=2)
    assert (auto.target.id, auto.foil.id) == (first.id, second.id)
    assert alone.foil is None
    assert alone.target == auto.target
    assert 0 < auto.foil.probability <= auto.target.probability < 1
    lost = whyword.explain(plain, TEXT, target=auto.foil.id, foil="runner-up")
    assert lost.foil.id == auto.target.id
    for found in (
        whyword.compare(plain, TEXT, foil=None, methods=["logit"])["logit"],
        next(whyword.explain_batch(plain, [TEXT], foils=None)),
        next(whyword.explain_batch(plain, [TEXT], foils=[None])),
        whyword.explain_continuation(plain, TEXT, foil=None, new_tokens=1)[0],
        whyword.neurons(plain, TEXT, foil=None, top=1).explanation,
    ):
        assert found.foils == ()


def test_a_generated_continuation(plain: whyword.Model) -> None:
    c = whyword.explain_continuation(plain, TEXT, new_tokens=6)
    given = whyword.explain_continuation(plain, TEXT, [e.target.id for e in c])
    assert len(c) == 6
    assert [e.target for e in given] == [e.target for e in c]
    assert all(e.target.id == whyword.explain(plain, e.tokens).target.id for e in c)
    contrasted = whyword.explain_continuation(plain, TEXT, new_tokens=3)
    assert all(e.foil is not None and e.foil.id != e.target.id for e in contrasted)


def test_an_indent_stays(plain: whyword.Model) -> None:
    assert whyword.explain_continuation(plain, "text:\n", "    about it").text == "    about it"


def test_ids_for_a_slow_tokenizer() -> None:
    tokenizer = ByT5Tokenizer()
    model = whyword.load(build("gpt2", torch.float32, vocab_size=400), tokenizer=tokenizer, start="tokenizer")
    e = whyword.explain(model, tokenizer("a bc").input_ids[:-1], target=7)
    assert e.tokens.words() == ["a", "bc"]
    text = "a bc été"
    tokens = whyword.tokenize(model, text)
    assert tokens.words() == ["a", "bc", "été"]  # without "</s>", which it puts at the end
    assert [text[token.start : token.end] for token in tokens] == [*"a", "", *"bc", "", *"éétéé"]
    assert whyword.explain(model, "a bc", target="d").tokens.text == "a bc"


def test_a_continuation_in_words(model: whyword.Model) -> None:
    c = whyword.explain_continuation(model, "A report about", "the painters.", foil=None)
    assert c.text.strip() == "the painters."
    whole = c.sum()
    assert whole.target.id is None
    assert whole.target.text == c.text
    assert whole.ledger.logit == pytest.approx(sum(e.target.logit for e in c), rel=1e-4)


@pytest.mark.parametrize("template", ["$A <s>", "<s> $A <s> <s>"])
def test_a_token_that_is_put_at_the_end_is_left_out(template: str) -> None:
    """Else the model would be asked what comes after the end of the text."""
    tokenizer = toy_tokenizers.make("byte-level")
    plain = tokenizer("A report", add_special_tokens=False).input_ids
    special = tokenizer.convert_tokens_to_ids("<s>")
    tokenizer._tokenizer.post_processor = TemplateProcessing(
        single=template, special_tokens=[("<s>", special)]
    )
    network = build("gpt2", torch.float32, vocab_size=len(tokenizer))
    tokens = whyword.tokenize(whyword.load(network, tokenizer, start="tokenizer"), "A report")
    assert tokens.ids == [*([special] if template.startswith("<s>") else []), *plain]
    assert whyword.tokenize(whyword.load(network, tokenizer, start="none"), "A report").ids == plain
