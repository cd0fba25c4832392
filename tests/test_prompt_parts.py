"""Prompts with named parts, chat turns, and scores by part, which add up like tokens do."""

from collections import Counter
from typing import Any

import pytest
import torch

import whyword
from whyword.ask.chat_turns import render_chat
from whyword.ask.prompt import extend_prompt, read_prompt
from whyword.attribute import Erasure, erase
from whyword.data import read_datasets
from whyword.data.dataset_names import SOURCES
from whyword.data.source_suite import SOURCE_COUNT, make_sources
from whyword.errors import InputError
from whyword.ledger import Target
from whyword.results.token_groups import UNITS

import toy_tokenizers
from families import build

DOCUMENTS = ["A report about the painters.", "She has seen the reports. They have not."]


@pytest.fixture(scope="module")
def model() -> whyword.Model:
    tokenizer = toy_tokenizers.make("byte-level")
    sizes = {"vocab_size": len(tokenizer), "max_position_embeddings": 128}
    return whyword.load(build("llama", torch.float32, **sizes), tokenizer=tokenizer)


@pytest.fixture(scope="module")
def prompt() -> whyword.FilledPrompt:
    template = "Context:\n{documents}\n\nQuestion: {question}\nAnswer:"
    return whyword.fill(template, documents=DOCUMENTS, question="Who has seen the reports?")


def parts_of(prompt: whyword.FilledPrompt) -> dict[str, str]:
    return {part.name: prompt.text[part.start : part.end] for part in prompt.parts}


# ---------------------------------------------------------------- prompts with named parts


def test_a_template_is_filled_and_its_parts_are_known(prompt: whyword.FilledPrompt) -> None:
    assert str(prompt) == (
        f"Context:\n{DOCUMENTS[0]}\n\n{DOCUMENTS[1]}\n\nQuestion: Who has seen the reports?\nAnswer:"
    )
    assert parts_of(prompt) == {
        "documents[0]": DOCUMENTS[0],
        "documents[1]": DOCUMENTS[1],
        "question": "Who has seen the reports?",
    }


def test_documents_can_have_names_and_prompts_can_be_nested() -> None:
    inner = whyword.fill("On {topic}: {text}", topic="art", text="A report.")
    prompt = whyword.fill(
        "{{notes}}\n{files}\n{note}{empty}", files={"a.txt": "One.", "b": "Two."}, note=inner, empty=" "
    )
    assert prompt.text.startswith("{notes}\nOne.\n\nTwo.\n")
    assert parts_of(prompt) == {
        "files[a.txt]": "One.",
        "files[b]": "Two.",
        "note.topic": "art",
        "note.text": "A report.",
    }


@pytest.mark.parametrize(
    ("template", "fields", "message"),
    [
        ("{a} {b}", {"a": "x"}, "The template has a field 'b' that nothing fills"),
        ("{a}", {"a": "x", "b": "y"}, "The template has no field 'b'"),
        ("{a} {a}", {"a": "x"}, "Two parts are named 'a'"),
        ("{}", {}, r"The template has the field \{\}"),
        ("{a[0]}", {"a": "x"}, r"The template has the field \{a\[0\]\}"),
        ("{a:>4}", {"a": "x"}, "The template has the field"),
        ("{a", {"a": "x"}, "The template cannot be read"),
        ("{a}", {"a": []}, "a is empty"),
        ("{a}", {"a": ["x", 3]}, r"a\[1\] is a int"),
    ],
)
def test_templates_that_cannot_be_filled(template: str, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        whyword.fill(template, **fields)


# ---------------------------------------------------------------- chat turns


def test_every_token_knows_its_role_turn_and_part(model: whyword.Model, prompt: whyword.FilledPrompt) -> None:
    messages = [
        {"role": "user", "content": "A report"},
        {"role": "assistant", "content": "has been"},
        {"role": "user", "content": prompt},
    ]
    tokens = read_prompt(model, messages)
    chat = render_chat(model.name, model.tokenizer, messages)
    assert tokens.text == chat.text
    said = {turn: "".join(token.text for token in tokens if token.turn == turn) for turn in range(3)}
    assert said[0] == "<|turn|>user\nA report<|end|>"
    assert said[1] == "<|turn|>assistant\nhas been<|end|>"
    assert said[2].startswith("<|turn|>user\nContext:")
    assert [token.role for token in tokens if token.turn == 1] == ["assistant"] * len(
        [t for t in tokens if t.turn == 1]
    )
    second = "".join(token.text for token in tokens if token.part == "documents[1]")
    assert second.strip() == DOCUMENTS[1]
    assert tokens[-1].turn is None  # the template begins the answer
    answered = extend_prompt(model, tokens, [7, 9])
    assert [(token.role, token.turn, token.part) for token in answered][-2:] == [
        ("assistant", 3, "answer")
    ] * 2


def test_what_a_template_adds_is_in_no_turn() -> None:
    tokenizer = toy_tokenizers.make("byte-level")
    tokenizer.chat_template = "<|turn|>system\nBe brief.<|end|>" + toy_tokenizers.CHAT
    chat = render_chat("toy", tokenizer, [{"role": "user", "content": " A report "}])
    (turn,) = chat.turns
    assert chat.text[: turn.start] == "<|turn|>system\nBe brief.<|end|>"
    assert chat.text[turn.start :].startswith("<|turn|>user")


def test_a_template_that_changes_what_was_said_gives_no_turns() -> None:
    tokenizer = toy_tokenizers.make("byte-level")
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] | upper }}{% endfor %}"
    chat = render_chat("toy", tokenizer, [{"role": "user", "content": "report"}])
    assert (chat.text, chat.turns) == ("REPORT", ())


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ([{"content": "x"}], "Message 1 has no role"),
        ([{"role": "user", "content": "x"}, {"role": "user"}], "Message 2 has no content"),
    ],
)
def test_messages_that_lack_something(model: whyword.Model, messages: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        whyword.explain(model, messages)


# ---------------------------------------------------------------- scores by part


@pytest.mark.parametrize("method", ["flow", "logit", "erasure"])
@pytest.mark.parametrize("unit", [unit for unit in UNITS if unit != "turn"])
def test_parts_add_up_like_tokens(
    model: whyword.Model, prompt: whyword.FilledPrompt, unit: str, method: str
) -> None:
    explanation = whyword.explain(model, prompt, target="has", foil="have", method=method)
    parts = explanation.by(unit)
    assert sum(parts.scores) == pytest.approx(float(explanation.scores.double().sum()), abs=1e-9)
    assert sum(part.tokens for part in parts.parts) == len(explanation.tokens)
    assert parts.by == unit
    if method == "flow":
        assert parts.bias is not None
        assert sum(parts.scores) + parts.bias == pytest.approx(explanation.ledger.logit, abs=1e-4)
    else:
        assert parts.bias is None


def test_parts_are_those_of_the_prompt(model: whyword.Model, prompt: whyword.FilledPrompt) -> None:
    explanation = whyword.explain(model, prompt, target="has", foil="have", method="logit")
    assert explanation.text == prompt.text
    parts = explanation.by("part")
    assert [name for name in parts.names if name != "start"] == [
        "template",
        "documents[0]",
        "documents[1]",
        "question",
    ]
    assert parts.texts[parts.names.index("documents[1]")] == DOCUMENTS[1]
    assert "Context: … Question: … Answer:" in parts.texts
    own = [
        float(score)
        for token, score in zip(explanation.tokens, explanation.scores, strict=True)
        if token.part == "question"
    ]
    assert parts["question"] == pytest.approx(sum(own), abs=1e-6)
    with pytest.raises(InputError, match="There is no part 'answer'"):
        parts["answer"]
    sentences = explanation.by("sentence")
    assert "They have not." in sentences.texts
    assert dict(zip([w for w, _ in explanation.words()], explanation.by("word").scores, strict=True))


def test_spans_are_parts_too(model: whyword.Model, prompt: whyword.FilledPrompt) -> None:
    explanation = whyword.explain(model, prompt, target="has", foil="have", method="logit")
    start = prompt.text.index("She has")
    parts = explanation.by(spans={"hers": (start, start + 24), "first": (0, 8)})
    assert {"first", "hers", "elsewhere"} <= set(parts.names)
    assert parts.spans[parts.names.index("hers")][0] == start
    assert sum(parts.scores) == pytest.approx(float(explanation.scores.double().sum()), abs=1e-9)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"unit": "chapter"}, "by is 'chapter'"),
        ({}, "by is None and spans is None"),
        ({"unit": "turn"}, "The prompt has no chat turns"),
        ({"unit": "part"}, "The prompt has no named parts"),
        ({"spans": {"a": (0, 900)}}, "The span 'a' goes from 0 to 900"),
    ],
)
def test_what_a_prompt_cannot_be_divided_by(model: whyword.Model, asked: Any, message: str) -> None:
    explanation = whyword.explain(model, "A report about this", target="has", method="logit")
    with pytest.raises(InputError, match=message):
        explanation.by(**asked)


# ---------------------------------------------------------------- whole parts erased


@pytest.mark.parametrize("way", ["mask", "deletion"])
def test_whole_parts_are_erased(model: whyword.Model, prompt: whyword.FilledPrompt, way: str) -> None:
    method = "erasure-logits" if way == "mask" else "erasure-deletion-logits"
    asked: Any = {"target": "has", "foil": "have", "method": method}
    explanation = whyword.explain(model, prompt, **asked, parts="part")
    tokens = explanation.tokens
    hidden = [place for place, token in enumerate(tokens) if token.part == "documents[1]"]
    target = Target(explanation.target.id, (explanation.foil.id,))
    (without,) = erase(model, [Erasure(tokens.ids, target, [hidden])], way)
    lost = explanation.ledger.logit - float(without.logits[0, 0] - without.logits[0, 1])
    assert explanation.by("part")["documents[1]"] == pytest.approx(lost, abs=1e-4)


def test_a_prompt_that_is_one_part_cannot_be_erased(model: whyword.Model) -> None:
    explanation = whyword.explain(model, [50, 90, 110], method="erasure", parts="paragraph")
    assert explanation.scores.tolist() == [0.0] * 3


def test_parts_are_for_methods_that_erase(model: whyword.Model) -> None:
    with pytest.raises(InputError, match="parts is 'sentence', but logit erases nothing"):
        whyword.explain(model, "A report", method="logit", parts="sentence")


# ---------------------------------------------------------------- answers by sentence and part


@pytest.fixture(scope="module")
def continuation(model: whyword.Model, prompt: whyword.FilledPrompt) -> whyword.Continuation:
    return whyword.explain_continuation(model, prompt, "She has. They have not.", method="flow")


def test_every_sentence_of_an_answer_by_every_part(continuation: whyword.Continuation) -> None:
    table = continuation.by(rows="sentence", columns="part")
    assert [row.text for row in table.rows] == ["She has.", "They have not."]
    assert [column.name for column in table.columns][-1] == "answer so far"
    assert {column.name for column in table.columns if column.source} == {"documents[0]", "documents[1]"}
    for row in table.rows:
        whole = continuation.sum(chars=(row.start, row.end))
        assert sum(row.scores) + row.bias == pytest.approx(whole.ledger.logit, abs=1e-3)
        assert row.logit == pytest.approx(whole.ledger.logit, abs=1e-6)
        assert row.supported == (row.share >= table.threshold)
        for place, column in enumerate(table.columns[:-1]):
            words = [
                score for word, score in zip(table.words, row.words, strict=True) if word.column == place
            ]
            assert sum(words) == pytest.approx(row.scores[place], abs=1e-4), column.name
    said = {word.text for word in table.words if table.columns[word.column].name == "documents[0]"}
    assert said == {"A", "report", "about", "the", "painters", "."}
    assert all(table.prompt[word.start : word.end] == word.text for word in table.words if word.end)
    assert table.prompt.endswith("Answer:")
    assert table[0, "answer so far"] != 0  # the first token of a sentence is seen by its others
    with pytest.raises(InputError, match="There is no part 'x'"):
        table[0, "x"]


def test_words_of_one_name_are_several_columns(continuation: whyword.Continuation) -> None:
    table = continuation.by(columns="word")
    assert [column.name for column in table.columns].count("reports") == 2
    for row in table.rows:
        assert sum(row.scores) + row.bias == pytest.approx(row.logit, abs=1e-3)


def test_what_ends_an_answer_is_in_no_sentence(model: whyword.Model, prompt: whyword.FilledPrompt) -> None:
    ids = model.tokenizer("She has.", add_special_tokens=False).input_ids
    (end,) = model.tokenizer.convert_tokens_to_ids(["<|end|>"])
    continued = whyword.explain_continuation(model, prompt, [*ids, end])
    assert continued.text.endswith("<|end|>")
    assert continued[-1].target.special
    assert [row.text for row in continued.by().rows] == ["She has."]


def test_a_sentence_without_a_source_is_flagged(continuation: whyword.Continuation) -> None:
    assert continuation.by(threshold=0.0).unsupported == ()
    assert len(continuation.by(threshold=1.0).unsupported) == 2


def test_answers_are_divided_by_spans_and_lines_too(continuation: whyword.Continuation) -> None:
    table = continuation.by(rows="line", columns={"first": (9, 37)})
    assert len(table) == 1
    assert {"first", "elsewhere", "answer so far"} <= {column.name for column in table.columns}
    with pytest.raises(InputError, match="rows is 'token'"):
        continuation.by(rows="token")


# ---------------------------------------------------------------- the built-in suites


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_facts_in_documents_and_turns(name: str) -> None:
    (dataset,) = read_datasets([name])
    assert len(dataset) == SOURCE_COUNT
    for one, two in zip(dataset.examples[::2], dataset.examples[1::2], strict=True):
        assert (one.target, one.foil) == (two.foil, two.target)
        assert one.parts == two.parts
    for example in dataset.examples:
        ((start, end),) = example.word
        assert (start, end) in example.parts
        assert example.target in example.prefix[start:end]
        others = [example.prefix[a:b] for a, b in example.parts if (a, b) != (start, end)]
        assert not any(f" {example.target}." in other or f" {example.target} " in other for other in others)
    positions = Counter(example.columns["position"] for example in dataset.examples)
    assert max(positions.values()) - min(positions.values()) <= len(dataset) / 16
    assert make_sources(name).hash == dataset.hash != make_sources(name, seed=1).hash
