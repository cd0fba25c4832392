"""Translations: pairs, languages, foils, mixing, documents and views; and what real weights do."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

import toy_translators
import whyword
from whyword.ask.sentence_pair import pair_up
from whyword.attribute.source_and_prefix import attribute_jointly, mix_jointly, sum_heads
from whyword.cli.application import application
from whyword.ledger import Target, compute_entries
from whyword.models.testing.tiny_families import TRANSLATORS, build
from whyword.pipeline.one_translation import read_foil, record_pairs
from whyword.tokens.slow_tokenizers import match_pieces
from whyword.trace import Plan

from families import prompt_of

RUNNER = CliRunner()
SOURCE, TARGET = (
    "我昨天在图书馆读了一本关于历史的书。",
    "I read a book about history in the library yesterday.",
)


@pytest.fixture(scope="module")
def m2m(tmp_path_factory: pytest.TempPathFactory) -> whyword.Model:
    return toy_translators.load_tiny(toy_translators.make_m2m_100(tmp_path_factory.mktemp("m2m")))


@pytest.fixture(scope="module")
def nllb(tmp_path_factory: pytest.TempPathFactory) -> whyword.Model:
    return toy_translators.load_tiny(toy_translators.make_nllb(tmp_path_factory.mktemp("nllb")))


@pytest.fixture(scope="module")
def bare() -> whyword.Model:
    return whyword.load(build("marian", torch.float64))


# ---------------------------------------------------------------- pieces


@pytest.mark.parametrize(
    ("text", "pieces", "expected"),
    [
        ("über Öl", ["▁über", "▁Ö", "l"], ["über", "Ö", "l"]),
        ("u\u0308ber", ["▁ü", "ber"], ["u\u0308", "ber"]),
        ("Ｈｅｌｌｏ，ｗｏｒｌｄ！", ["▁Hello", ",", "world", "!"], ["Ｈｅｌｌｏ", "，", "ｗｏｒｌｄ", "！"]),
        ("我昨天在。", ["▁我", "昨天", "在", "。"], ["我", "昨天", "在", "。"]),
        ("a 龘龘 b", ["▁a", "▁", None, "▁b"], ["a", "", "龘龘", "b"]),
        ("a 😀 b👩‍👩‍👧c", ["▁a", None, "▁b", None, "c"], ["a", "😀", "b", "👩‍👩‍👧", "c"]),
        ("½ ™ ﬁne", ["▁1", "⁄2", "▁TM", "▁f", "ine"], ["½", "½", "™", "ﬁ", "ﬁne"]),
        ("STRASSE", ["▁strasse"], ["STRASSE"]),
        ("日本", [None] * 6, ["日"] * 3 + ["本"] * 3),
        ("", ["▁"], [""]),
        ("ab", [], []),
        ("xyz", ["▁q"], ["xyz"]),
    ],
)
def test_pieces_are_matched_to_the_text(text: str, pieces: list[str | None], expected: list[str]) -> None:
    plain = [None if piece is None else piece.replace("▁", " ") for piece in pieces]
    assert [text[start:end] for start, end in match_pieces(text, plain)] == expected


# ---------------------------------------------------------------- source and target


def test_what_encoder_and_decoder_read(m2m: whyword.Model) -> None:
    pair = pair_up(m2m, "Ein Buch über Öl.", "I read a book.", ("de", "en"))
    code = m2m.tokenizer.convert_ids_to_tokens
    assert [code(pair.source.ids[0]), code(pair.source.ids[-1])] == ["__de__", "</s>"]
    assert [code(id_) for id_ in pair.target.ids[:2]] == ["</s>", "__en__"]
    assert code(pair.target.ids[-1]) == "</s>"
    assert pair.first == 2
    assert pair.source.words()[1:-1] == ["Ein", "Buch", "über", "Öl", "."]
    assert pair.target.words()[2:-1] == ["I", "read", "a", "book", "."]
    assert m2m.tokenizer.src_lang == "de"
    assert m2m.tokenizer.tgt_lang is None


def test_languages_of_a_fast_tokenizer(nllb: whyword.Model) -> None:
    pair = pair_up(nllb, "我读书。", "The bank is old.", ("zho_Hans", "eng_Latn"))
    names = nllb.tokenizer.convert_ids_to_tokens
    assert names(pair.source.ids[:1]) == ["zho_Hans"]
    assert names(pair.target.ids[:2]) == ["</s>", "eng_Latn"]
    assert pair.target.words()[2:-1] == ["The", "bank", "is", "old", "."]
    assert names(nllb.tokenizer("Buch").input_ids[:1]) == ["deu_Latn"]


def test_a_language_code_that_stands_last(tmp_path: Path) -> None:
    """mBART's decoder starts with the code that its tokenizer puts after the end."""
    model = toy_translators.load_tiny(toy_translators.make_mbart(tmp_path), "mbart")
    pair = pair_up(model, "Ein Buch über Öl.", "I read a book.")
    assert pair.source.words() == ["Ein", "Buch", "über", "Öl", ".", "</s>", "de_DE"]
    assert pair.target.words() == ["en_XX", "I", "read", "a", "book", ".", "</s>"]
    assert pair.first == 1
    explained = whyword.explain_translation(model, "Ein Buch über Öl.", "I read a book.")
    assert [choice.text.strip() for choice in explained.choices][-2:] == [".", "</s>"]


def test_languages_that_are_not_known(nllb: whyword.Model, m2m: whyword.Model, bare: whyword.Model) -> None:
    with pytest.raises(whyword.InputError) as caught:
        whyword.explain_translation(nllb, "Buch", target_language="eng_Lat")
    assert caught.value.wrong == "_Switching does not know the target language 'eng_Lat'."
    assert caught.value.remedy.startswith("Similar: eng_Latn, ")
    with pytest.raises(whyword.InputError, match=r"does not know the source language 'xx'.*\nSimilar: "):
        whyword.explain_translation(m2m, "Buch", source_language="xx", target_language="en")
    with pytest.raises(whyword.InputError, match="translates into many languages, and none was named"):
        whyword.explain_translation(m2m, "Buch")
    with pytest.raises(whyword.InputError, match="was loaded without a tokenizer"):
        whyword.explain_translation(bare, [5, 6], target_language="en")


def test_the_models_own_translation(m2m: whyword.Model) -> None:
    own = whyword.explain_translation(m2m, "Ein Buch.", target_language="en", method="logit")
    ids = [choice.id for choice in own.choices]
    again = whyword.explain_translation(m2m, "Ein Buch.", ids, target_language="en", method="logit")
    assert own.target.ids[own.first :] == ids == again.target.ids[again.first :]
    torch.testing.assert_close(own.scores, again.scores)


def test_what_cannot_be_explained(bare: whyword.Model, m2m: whyword.Model, llama: whyword.Model) -> None:
    for wrong, call in {
        "is a decoder-only model: it has no source": lambda: whyword.explain_translation(llama, [5]),
        "The source is empty": lambda: whyword.explain_translation(m2m, " ", target_language="en"),
        "The translation is empty": lambda: whyword.explain_translation(m2m, "a", " ", target_language="en"),
        "There is no token 970": lambda: whyword.explain_translation(bare, [970]),
        "There is no method 'erasure' for translations": lambda: whyword.explain_translation(
            bare, [5], method="erasure"
        ),
        "threshold is 2": lambda: whyword.explain_translation(bare, [5], threshold=2.0),
        "The source has 80 tokens, MarianMTModel has positions for 64": lambda: whyword.explain_translation(
            bare, prompt_of(80)
        ),
        "foil is 'shore'": lambda: read_foil("shore"),
        "without a tokenizer, so the source 'Buch' cannot": lambda: whyword.explain_translation(bare, "Buch"),
    }.items():
        with pytest.raises(whyword.InputError, match=wrong):
            call()
    with pytest.raises(whyword.InputError) as caught:
        whyword.explain_translation(m2m, "Buch", "I read it.", target_language="en", foil=("shore", 7))
    assert str(caught.value) == (
        "The foil's position is 7, but the translation has 4 words.\nWords: 1 I, 2 read, 3 it, 4 .."
    )


def test_a_foil_at_a_word(m2m: whyword.Model) -> None:
    def explain(translation: str, foil: tuple[Any, int] | None = None) -> whyword.Translation:
        return whyword.explain_translation(m2m, "Buch", translation, target_language="en", foil=foil)

    plain, contrasted = explain("The bank is old."), explain("The bank is old.", ("shore", 2))
    (place,) = [place for place, foil in enumerate(contrasted.foils) if foil is not None]
    target, foil = contrasted.choices[place], contrasted.foils[place]
    assert foil is not None
    assert "The bank".startswith(contrasted.target.text[: contrasted.target[contrasted.first + place].start])
    assert contrasted.ledgers[place].logit == pytest.approx(target.logit - foil.logit, rel=1e-4)
    assert plain.choices[place] == target
    others = [row for row in range(len(plain)) if row != place]
    torch.testing.assert_close(plain.scores[others], contrasted.scores[others])
    ids = whyword.explain_translation(
        m2m, "Buch", "The bank is old.", target_language="en", foil=(foil.id, 2)
    )
    if target.id != foil.id and place == contrasted.foils.index(foil):
        torch.testing.assert_close(ids.scores[place], contrasted.scores[place])


# ---------------------------------------------------------------- mixing


@pytest.mark.parametrize("name", sorted(TRANSLATORS))
def test_shares_of_source_and_prefix_add_up_to_one(name: str) -> None:
    model = whyword.load(build(name, torch.float64))
    pairs = [pair_up(model, prompt_of(9), prompt_of(6, 1)), pair_up(model, prompt_of(4, 2), prompt_of(3, 3))]
    trace = record_pairs(model, pairs, Plan(3))
    mixing = mix_jointly(trace)
    for source, prefix in zip(mixing.source, mixing.prefix, strict=True):
        assert (source >= 0).all()
        assert (prefix >= 0).all()
        torch.testing.assert_close(source.sum(-1) + prefix.sum(-1), torch.ones_like(source[..., 0]))
        torch.testing.assert_close(prefix, prefix.tril())
        assert not source[1, :3, 4:].any()
    assert not mixing.source[0].any()
    torch.testing.assert_close(mixing.encoder.sum(-1), torch.ones_like(mixing.encoder[..., 0]))
    entries = compute_entries(model, trace, [Target(5)] * 12)
    direct, tracked = sum_heads(entries), attribute_jointly(trace, entries, mixing)
    torch.testing.assert_close(
        tracked.source.sum(-1) + tracked.prefix.sum(-1), direct.source.sum(-1) + direct.prefix.sum(-1)
    )


def test_mixing_is_what_a_plain_script_gives() -> None:
    """Every product of the method in full, with einsum, from transformers' own outputs."""
    network = build("marian", torch.float64)
    model = whyword.load(network)
    source, target = prompt_of(7), prompt_of(5, 1)
    explained = whyword.explain_translation(model, source, target)
    network.set_attn_implementation("eager")
    with torch.no_grad():
        prompt = [network.config.decoder_start_token_id, *target[:-1]]
        output = network(
            input_ids=torch.tensor([source]),
            decoder_input_ids=torch.tensor([prompt]),
            output_attentions=True,
            output_hidden_states=True,
        )

    def contribute(x: Any, module: Any, norm: Any, read: Any, weights: Any, own: bool) -> tuple[Any, Any]:
        heads = weights.shape[0]
        value = module.v_proj(read).unflatten(-1, (heads, -1)).transpose(0, 1)
        project = module.out_proj.weight.T.unflatten(0, (heads, -1))
        parts = torch.einsum("hij,hjd,hdm->ijm", weights, value, project)
        whole = x + parts.sum(1) + module.out_proj.bias
        scale = 1 / torch.sqrt(whole.var(-1, keepdim=True, correction=0) + norm.eps)

        def apply(y: Any) -> Any:
            return scale * (y - y.mean(-1, keepdim=True)) * norm.weight

        residual, y = apply(x), norm(whole)
        scaled = torch.stack([apply(parts[:, j]) for j in range(parts.shape[1])], 1)
        if own:
            scaled = scaled + torch.eye(len(x))[:, :, None] * residual[:, None]
        else:
            scaled = torch.cat([scaled, residual[:, None]], 1)
        near = (y.abs().sum(-1)[:, None] - (y[:, None] - scaled).abs().sum(-1)).clamp(min=0)
        return near / near.sum(-1, keepdim=True), y

    with torch.no_grad():
        encoder = torch.eye(7, dtype=torch.float64)
        for block, x, weights in zip(
            network.get_encoder().layers,
            output.encoder_hidden_states,
            output.encoder_attentions,
            strict=False,
        ):
            c, _ = contribute(x[0], block.self_attn, block.self_attn_layer_norm, x[0], weights[0], True)
            encoder = c @ encoder
        read = output.encoder_last_hidden_state[0]
        prefix, mixed = torch.eye(5, dtype=torch.float64), torch.zeros(5, 7, dtype=torch.float64)
        layers = zip(
            network.get_decoder().layers,
            output.decoder_hidden_states,
            output.decoder_attentions,
            output.cross_attentions,
            strict=False,
        )
        for block, x, weights, cross in layers:
            own, y = contribute(x[0], block.self_attn, block.self_attn_layer_norm, x[0], weights[0], True)
            across, _ = contribute(
                y, block.encoder_attn, block.encoder_attn_layer_norm, read, cross[0], False
            )
            kept = across[:, -1:] * own
            mixed, prefix = across[:, :-1] @ encoder + kept @ mixed, kept @ prefix
    assert explained.source_shares is not None
    torch.testing.assert_close(explained.source_shares.double(), mixed.sum(-1), rtol=1e-5, atol=1e-5)
    trace = record_pairs(model, [pair_up(model, source, target)], Plan(3))
    found = mix_jointly(trace)
    torch.testing.assert_close(found.encoder[0], encoder)
    torch.testing.assert_close(found.source[-1][0], mixed)
    torch.testing.assert_close(found.prefix[-1][0], prefix)


# ---------------------------------------------------------------- documents and views


@pytest.fixture(scope="module")
def explained(m2m: whyword.Model) -> whyword.Translation:
    return whyword.explain_translation(
        m2m,
        "Ein Buch.",
        "The bank is old.",
        target_language="en",
        foil=("shore", 2),
        threshold=0.9,
        method="alti-logit",
    )


def test_a_translation_is_read_back(explained: whyword.Translation, tmp_path: Path) -> None:
    explained.save(tmp_path / "t.json")
    again = whyword.read(tmp_path / "t.json")
    assert isinstance(again, whyword.Translation)
    assert again.to_dict() == explained.to_dict()
    torch.testing.assert_close(again.scores, explained.scores, rtol=0, atol=0)
    document = json.loads((tmp_path / "t.json").read_text())
    assert document["schema"] == "whyword.translation/1"
    width = len(explained.source) + len(explained.target) - 1
    assert {len(row) for row in document["scores"]} == {width}
    assert [row.count(None) for row in document["scores"]] == list(range(len(explained) - 1, -1, -1))
    assert len(document["by_block"]) == 3
    assert all(
        a + b == pytest.approx(1)
        for a, b in zip(document["source_shares"], document["prefix_shares"], strict=True)
    )


def test_every_view_shows_it(explained: whyword.Translation, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for ending in ("html", "tex", "png", "svg", "csv"):
        explained.save(tmp_path / f"t.{ending}")
        assert (tmp_path / f"t.{ending}").stat().st_size > 1000
    csv = (tmp_path / "t.csv").read_text().splitlines()
    assert csv[0].startswith("step,target,side,position,id,text,")
    steps, sources = len(explained), len(explained.source)
    first = explained.first
    assert len(csv) == 1 + steps * sources + sum(range(first, first + steps))
    assert "already written" in (tmp_path / "t.html").read_text()
    assert "bank" in (tmp_path / "t.tex").read_text()


def test_the_terminal_view(explained: whyword.Translation, capsys: pytest.CaptureFixture[str]) -> None:
    explained.show()
    explained.show("token", block=2)
    printed = capsys.readouterr().out
    assert "Why “The bank is old.” for “Ein Buch.”?" in printed
    assert "and not “" in printed
    assert "⚑ below 90 %: possibly hallucinated" in printed
    assert "decoder block 2" in printed
    with pytest.raises(whyword.InputError, match=r"block is 4.*\n.*decoder blocks 1 to 3"):
        explained.show(block=4)
    with pytest.raises(whyword.InputError, match="A translation is shown by word, token, depth"):
        explained.show("head")


def test_flags(explained: whyword.Translation) -> None:
    shares = explained.source_shares
    assert shares is not None
    expected = [place for place in range(len(explained) - 1) if shares[place] < 0.9]
    assert [place for place in explained.flagged if place < len(explained) - 1] == expected
    assert explained.flagged


# ---------------------------------------------------------------- real weights


@pytest.mark.real
def test_content_words_come_from_their_sources(opus: whyword.Model) -> None:
    for source, target, expected in (
        (
            SOURCE,
            TARGET,
            {"book": "书", "history": "历史", "library": "图书馆", "yesterday": "昨天", "I": "我"},
        ),
        ("他们明天去北京。", "They go to Beijing tomorrow.", {"Beijing": "北京", "tomorrow": "明天"}),
    ):
        for method in ("logit", "alti-logit"):
            explained = whyword.explain_translation(opus, source, target, method=method)
            assert max(ledger.error for ledger in explained.ledgers) <= 1e-4
            names = [token.text for token in explained.source]
            for choice, row in zip(explained.choices, explained.scores, strict=True):
                word = choice.text.strip()
                if word in expected:
                    assert names[int(row[: len(names)].argmax())] == expected[word], (method, word)


@pytest.mark.real
def test_a_wrong_translation_has_less_from_the_source(opus: whyword.Model) -> None:
    right = whyword.explain_translation(opus, SOURCE, TARGET)
    wrong = whyword.explain_translation(
        opus, SOURCE, "The government announced new taxes on cars this morning."
    )
    assert right.source_shares is not None
    assert wrong.source_shares is not None
    assert float(right.source_shares.mean()) > float(wrong.source_shares.mean()) + 0.2
    assert right.flagged == []
    assert wrong.flagged != []


@pytest.mark.real
def test_the_command(opus: whyword.Model, shared: Path, tmp_path: Path) -> None:
    folder, path = str(shared / "models" / "opus-mt-zh-en"), tmp_path / "t.json"
    options = ["-m", folder, "--dtype", "float32"]
    done = RUNNER.invoke(
        application, ["translate", SOURCE, TARGET, *options, "--foil", "poem@4", "-o", str(path)]
    )
    assert done.exit_code == 0, done.output
    assert f"Why “{TARGET}” for" in done.stdout
    assert "“book” and not “poem”: P = " in done.stdout
    read = whyword.read(path)
    assert isinstance(read, whyword.Translation)
    assert read.foils[3] is not None
    wrong = RUNNER.invoke(application, ["translate", SOURCE, TARGET, *options, "--foil", "poem"])
    assert wrong.exit_code == 2
    assert "The foil is 'poem'." in wrong.stderr
    own = RUNNER.invoke(application, ["translate", SOURCE, *options, "--method", "logit", "--json"])
    document = json.loads(own.stdout)
    assert document["source_shares"] is None
    assert "book" in document["target"]["text"]


def test_the_command_refuses_before_it_loads() -> None:
    done = RUNNER.invoke(application, ["translate", "  "])
    assert done.exit_code == 2
    assert "The source is empty." in done.stderr
    done = RUNNER.invoke(application, ["translate", "Buch"])
    assert done.exit_code == 2
    assert "No model was named." in done.stderr
