"""Word alignment: words and tokens, every measure against a plain reference, files, and real weights."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

import toy_translators
import whyword
from whyword.alignment.aligner import align_all
from whyword.alignment.linking import Linking
from whyword.alignment.links import parse_links
from whyword.alignment.method_choice import choose_settings
from whyword.alignment.preparing import Prepared, prepare
from whyword.alignment.smoothgrad import smooth_gradients
from whyword.alignment.token_scores import MEASURES, record_prepared
from whyword.alignment.word_scores import Settings, measure_words
from whyword.alignment.words import read_sentence, share_tokens, spell_words
from whyword.cli.application import application
from whyword.models.testing.tiny_families import build
from whyword.tokens import spell

RUNNER = CliRunner()
GERMAN, ENGLISH = "Die Bank am Fluss ist alt .", "The bank of the river is old ."


@pytest.fixture(scope="module")
def m2m(tmp_path_factory: pytest.TempPathFactory) -> whyword.Model:
    tokenizer = toy_translators.make_m2m_100(tmp_path_factory.mktemp("m2m"))
    tokenizer.tgt_lang = "en"
    return toy_translators.load_tiny(tokenizer)


@pytest.fixture(scope="module")
def mbart(tmp_path_factory: pytest.TempPathFactory) -> whyword.Model:
    tokenizer = toy_translators.make_mbart(tmp_path_factory.mktemp("mbart"))
    return toy_translators.load_tiny(tokenizer, "bart")


@pytest.fixture(scope="module", params=["m2m", "mbart"])
def toy(request: pytest.FixtureRequest) -> whyword.Model:
    model: whyword.Model = request.getfixturevalue(request.param)
    return model


# ---------------------------------------------------------------- words


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["He", "went", "."], "He went ."),
        (["我", "昨天", "读", "了", "。"], "我昨天读了。"),
        (["新华社", "5月", "22日", "(", "Bill", "Gates", ")"], "新华社5月22日(Bill Gates)"),
        (["東京", "へ", "行く"], "東京へ行く"),
        (["ผม", "ไป", "ตลาด"], "ผมไปตลาด"),
        (["I", "like", "北京", "very", "much"], "I like 北京 very much"),
    ],
)
def test_given_words_are_joined_as_their_script_is_written(words: list[str], text: str) -> None:
    sentence = spell_words(words)
    assert sentence.text == text
    assert sentence.words is not None
    assert [text[start:end] for start, end in sentence.words] == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("the eu 's pledge for aid", ["the", "eu", "'s", "pledge", "for", "aid"]),
        ("dr. ghani , director", ["dr.", "ghani", ",", "director"]),
        ("我 昨天 读 了", ["我", "昨天", "读", "了"]),
        ("He went to the bank.", None),
        ("我昨天读了一本书。", None),
        ("我昨天在图书馆读了 一本关于历史的书。", None),
        ("“Yes”, he said", None),
    ],
)
def test_text_that_is_cut_into_words_is_told_from_text_that_is_not(
    text: str, words: list[str] | None
) -> None:
    sentence = read_sentence(text, "source")
    found = None if sentence.words is None else [sentence.text[start:end] for start, end in sentence.words]
    assert found == words


def test_a_token_of_several_words_is_shared_by_characters() -> None:
    tokens = spell("我昨天读了", [1, 2, 3, 4], [(0, 0), (0, 1), (1, 4), (4, 5)], ["<s>", None, None, None])
    words, shares = share_tokens(spell_words(["我", "昨天", "读", "了"]), tokens)
    assert words == ("我", "昨天", "读", "了")
    expected = [[0, 1, 0, 0], [0, 0, 2 / 3, 0], [0, 0, 1 / 3, 0], [0, 0, 0, 1]]
    torch.testing.assert_close(shares, torch.tensor(expected, dtype=torch.float64))


def test_words_that_are_none_are_refused() -> None:
    with pytest.raises(whyword.InputError, match="Word 2 of the source is ' b'"):
        read_sentence(["a", " b"], "source")
    with pytest.raises(whyword.InputError, match="list of words"):
        read_sentence([1, 2], "source")


def test_no_special_token_is_a_word(toy: whyword.Model) -> None:
    prepared = prepare(toy, GERMAN, ENGLISH)
    assert prepared is not None
    assert prepared.source_words == tuple(GERMAN.split())
    assert prepared.target_words == tuple(ENGLISH.split())
    special = [token.special for token in prepared.pair.source]
    assert any(special)
    assert prepared.source_shares[:, special].sum() == 0
    plain = [token.start < token.end and not token.special for token in prepared.pair.source]
    torch.testing.assert_close(prepared.source_shares[:, plain].sum(0), torch.ones(sum(plain)))
    assert len(prepared.read) == prepared.pair.first + prepared.target_shares.shape[1]
    written = [token.start < token.end for token in prepared.pair.target.records[prepared.pair.first :]]
    steps = prepared.target_shares.shape[1]
    expected = torch.tensor(written[:steps], dtype=torch.float32)
    torch.testing.assert_close(prepared.target_shares.sum(0), expected)


# ---------------------------------------------------------------- measures


def _plain(model: whyword.Model, prepared: Prepared) -> dict[str, list[torch.Tensor]]:
    """Every measure of a BART-like decoder by its formula, one vector after the other; by block."""
    network, first = model.network, prepared.pair.first
    network.set_attn_implementation("eager")
    with torch.no_grad():
        output = network(
            input_ids=torch.tensor([prepared.pair.source.ids]),
            decoder_input_ids=torch.tensor([prepared.read]),
            output_attentions=True,
        )
    network.set_attn_implementation("sdpa")
    encoded, rows = output.encoder_last_hidden_state[0], network.get_output_embeddings().weight
    found: dict[str, list[torch.Tensor]] = {
        name: [] for name in ("attention", "vector-norms", "distance", "raw")
    }
    for layer, weights in zip(model.blocks, output.cross_attentions, strict=True):
        attention: Any = layer.encoder_attn
        with torch.no_grad():
            value = attention.v_proj(encoded)
        heads, width = weights.shape[1], value.shape[1] // weights.shape[1]
        grids = {name: torch.zeros(len(prepared.read), len(encoded)) for name in found}
        for step in range(len(prepared.read)):
            parts = []
            for place in range(len(encoded)):
                scaled = [
                    weights[0, head, step, place] * value[place, head * width : (head + 1) * width]
                    for head in range(heads)
                ]
                parts.append(torch.cat(scaled) @ attention.out_proj.weight.T)
            whole = torch.stack(parts).sum(0) + attention.out_proj.bias
            for place, part in enumerate(parts):
                grids["attention"][step, place] = weights[0, :, step, place].mean()
                grids["vector-norms"][step, place] = part.norm()
                grids["distance"][step, place] = whole.abs().sum() - (whole - part).abs().sum()
                if first - 1 <= step < len(prepared.read) - 1:
                    grids["raw"][step, place] = part @ rows[prepared.read[step + 1]]
        for name, grid in grids.items():
            found[name].append(grid[first - 1 :].detach())
    return found


def test_measures_are_what_their_formulas_say(toy: whyword.Model) -> None:
    prepared = prepare(toy, GERMAN, ENGLISH)
    other = prepare(toy, "Die Bank ist alt .", "The bank .")  # shorter: padded on both sides
    assert prepared is not None
    assert other is not None
    recorded = record_prepared(toy, [prepared, other], list(MEASURES))
    each = recorded.trace.places.each
    for index, pair in enumerate((prepared, other)):
        plain, size = _plain(toy, pair), len(pair.pair.source)
        for name, key in (("attention",) * 2, ("vector-norms",) * 2, ("distance",) * 2, ("logit-raw", "raw")):
            expected = torch.stack(plain[key], dim=1)
            steps = expected.shape[0] - (name == "logit-raw")
            found = MEASURES[name].measure(recorded)[index * each : index * each + steps, :, :size]
            torch.testing.assert_close(found, expected[:steps], rtol=1e-4, atol=1e-4)
        for name in ("logit", "alti-logit"):
            explained = whyword.explain_translation(
                toy, pair.pair.source, pair.pair.target.text, method=name
            ).source_by_block
            steps = pair.target_shares.shape[1]
            found = MEASURES[name].measure(recorded)[index * each : index * each + steps, :, :size]
            torch.testing.assert_close(found.transpose(0, 1), explained[:, :steps], rtol=1e-4, atol=1e-4)


def test_words_are_sums_of_tokens_and_links_their_largest(toy: whyword.Model) -> None:
    prepared = prepare(toy, GERMAN, ENGLISH)
    assert prepared is not None
    tokens = MEASURES["attention"].measure(record_prepared(toy, [prepared], ["attention"]))
    for step, shift in (("output", 0), ("input", 1)):
        found = whyword.align(toy, GERMAN, ENGLISH, method="attention", block=2, step=step, links="best")
        rows = tokens[shift : shift + prepared.target_shares.shape[1], 1]
        expected = torch.zeros(len(found.target), len(found.source))
        for target in range(len(found.target)):
            for source in range(len(found.source)):
                grid = prepared.target_shares[target][:, None] * rows * prepared.source_shares[source][None]
                expected[target, source] = grid.sum()
        torch.testing.assert_close(found.scores, expected)
        best = [(int(row.argmax()), place) for place, row in enumerate(expected)]
        assert found.links == tuple(sorted(best))
    summed = whyword.align(toy, GERMAN, ENGLISH, method="logit")
    blocks = [
        whyword.align(toy, GERMAN, ENGLISH, method="logit", block=block + 1)
        for block in range(len(toy.blocks))
    ]
    torch.testing.assert_close(summed.scores, torch.stack([one.scores for one in blocks]).sum(0))


def test_gradients_without_noise_are_plain_ones(m2m: whyword.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = prepare(m2m, "Die Bank ist alt .", "The bank .")
    assert prepared is not None
    monkeypatch.setattr("whyword.alignment.smoothgrad.NOISE", 0.0)
    found = smooth_gradients(m2m, prepared, copies=2)
    network, first = m2m.network, prepared.pair.first
    embedded = (
        network.get_input_embeddings()(torch.tensor([prepared.pair.source.ids])).detach().requires_grad_()
    )
    logits = network(inputs_embeds=embedded, decoder_input_ids=torch.tensor([prepared.read])).logits[0]
    for word in range(len(prepared.target_words)):
        total = sum(
            share * logits[first - 1 + step].log_softmax(-1)[prepared.read[first + step]]
            for step, share in enumerate(prepared.target_shares[word])
        )
        (gradient,) = torch.autograd.grad(total, embedded, retain_graph=True)  # type: ignore[arg-type]
        torch.testing.assert_close(found[word], (gradient * embedded)[0].sum(-1).abs().detach())
    monkeypatch.undo()
    noisy = smooth_gradients(m2m, prepared, copies=2)
    assert not torch.allclose(noisy, found)
    torch.testing.assert_close(noisy, smooth_gradients(m2m, prepared, copies=2))
    assert all(parameter.grad is None for parameter in network.parameters())


def test_gradients_of_some_words_and_copies_at_a_time(
    m2m: whyword.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = prepare(m2m, GERMAN, ENGLISH)
    assert prepared is not None
    whole = smooth_gradients(m2m, prepared, copies=2)
    monkeypatch.setattr("whyword.alignment.smoothgrad._WORDS", 3)
    monkeypatch.setattr("whyword.alignment.smoothgrad._AT_ONCE", 1)
    torch.testing.assert_close(smooth_gradients(m2m, prepared, copies=2), whole)
    unwritten = replace(prepared, target_shares=prepared.target_shares.clone())
    unwritten.target_shares[3:7] = 0
    found = smooth_gradients(m2m, unwritten, copies=2)
    assert not found[3:7].any()
    torch.testing.assert_close(found[7:], whole[7:])


@pytest.mark.parametrize("family", ["marian", "t5", "pegasus"])
def test_gradients_start_from_what_the_encoder_reads(family: str) -> None:
    model = whyword.load(build(family, torch.float32))
    from whyword.ask.sentence_pair import pair_up

    pair = pair_up(model, [5, 6, 7, 8], [9, 10, 11])
    shares = torch.eye(3)
    prepared = Prepared(pair, tuple(pair.target.ids), ("",) * 4, ("",) * 3, torch.eye(4), shares)
    assert smooth_gradients(model, prepared, copies=2).shape == (3, 4)  # proves its embeddings on the way


def test_a_batch_gives_what_one_pair_gives(toy: whyword.Model) -> None:
    pairs = [(GERMAN, ENGLISH), ("", "The"), ("Die Bank .", "The bank ."), ("alt", " "), ("Fluss", "river")]
    for method in ("attention", "logit", "combined"):
        settings = choose_settings(toy, method, None, "output", Linking("best"))
        together = list(align_all(toy, pairs, settings))
        assert [len(each.links) for each in together] == [8, 0, 3, 0, 1]
        for pair, found in zip(pairs, together, strict=True):
            alone = whyword.align(toy, *pair, method=method, links="best")
            assert (alone.links, alone.source) == (found.links, found.source)
            torch.testing.assert_close(alone.scores, found.scores, rtol=1e-4, atol=1e-5)


def test_measuring_in_several_ways_at_once(m2m: whyword.Model) -> None:
    prepared = prepare(m2m, GERMAN, ENGLISH)
    assert prepared is not None
    ways = [
        Settings("attention", "output", 1),
        Settings("attention", "input", 2),
        Settings("logit", "output", None),
    ]
    found = measure_words(m2m, [prepared], ways)
    for settings in ways:
        one = whyword.align(
            m2m, GERMAN, ENGLISH, method=settings.method, block=settings.block, step=settings.step
        )
        torch.testing.assert_close(found[settings][0].float(), one.scores)


# ---------------------------------------------------------------- refusals


def test_what_cannot_be_aligned_is_refused(m2m: whyword.Model) -> None:
    refused = {
        "no method 'giza'": {"method": "giza"},
        "step is 'both'": {"step": "both"},
        "combined is read at both steps": {"step": "input"},
        "logit is read at the step that produces": {"method": "logit", "step": "input"},
        "smoothgrad has no blocks": {"method": "smoothgrad", "block": 1},
        "combined has no blocks": {"block": 1},
        r"block is 9": {"method": "logit", "block": 9},
        r"links is 'all'\.\nLinks: mutual, best": {"links": "all"},
        r"recall is 2\.0\.\nGive a number between 0 and 1": {"recall": 2.0},
        "null is 0.1, but best links link every word": {"links": "best", "null": 0.1},
        r"words is 'lines'\.\nWords: auto, spaces, characters": {"words": "lines"},
        "no symmetrisation 'sum'": {"symmetrise": "sum"},
    }
    for message, options in refused.items():
        with pytest.raises(whyword.InputError, match=message):
            whyword.align(m2m, GERMAN, ENGLISH, **options)  # type: ignore[arg-type]
    decoder = whyword.load(build("gpt2", torch.float32))
    with pytest.raises(whyword.InputError, match="decoder-only model: it has no source"):
        whyword.align(decoder, GERMAN, ENGLISH)


def test_what_is_chosen_is_said(m2m: whyword.Model, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="whyword"):
        found = whyword.align(m2m, GERMAN, ENGLISH, method="attention")
    assert f"using decoder block {found.block} of {len(m2m.blocks)}" in caplog.text


# ---------------------------------------------------------------- files and views


def test_documents_and_views(m2m: whyword.Model, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = whyword.align(m2m, GERMAN, ENGLISH)
    assert found.to_talp().split() == [f"{source + 1}-{target + 1}" for source, target in found.links]
    assert found.to_pharaoh().split() == [f"{source}-{target}" for source, target in found.links]
    for ending in ("json", "html", "png", "svg", "csv", "talp", "pharaoh"):
        found.save(tmp_path / f"a.{ending}")
    again = whyword.read(tmp_path / "a.json")
    assert isinstance(again, whyword.Alignment)
    assert again.to_dict() == found.to_dict()
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "a.html").read_text()
    (drawn,) = json.loads(re.search(r'id="documents">(.*?)</script>', page, flags=re.DOTALL)[1])  # type: ignore[index]
    assert [tuple(link) for link in drawn["links"]] == list(found.links)
    assert (tmp_path / "a.talp").read_text() == found.to_talp() + "\n"
    assert (tmp_path / "a.csv").read_text().splitlines()[0] == "," + ",".join(found.source)
    found.show()
    shown = capsys.readouterr().out
    assert shown.count("●") == len(found.links)
    with pytest.raises(whyword.InputError, match="does not end in a known format"):
        found.save(tmp_path / "a.doc")
    hostile = whyword.align(m2m, ["<b>", "Bank"], ["<script>alert(1)</script>", "bank"])
    hostile.save(tmp_path / "b.html")
    assert "<script>alert" not in (tmp_path / "b.html").read_text()
    assert f"{len(found.links)} links" in repr(found)
    assert found.confidence is not None
    assert len(found.confidence) == len(found.links)


# ---------------------------------------------------------------- real weights


@pytest.mark.real
def test_real_weights_align_content_words(opus: whyword.Model) -> None:
    found = whyword.align(
        opus,
        "科学家 一直 猜想 土卫六 上 存在 着 由 液态 甲烷 构成 的 海洋 。",
        "scientists have long conjectured that oceans of liquid methane exist on titan .",
    )
    known = {
        "scientists": "科学家",
        "conjectured": "猜想",
        "oceans": "海洋",
        "liquid": "液态",
        "titan": "土卫六",
    }
    linked = {(found.target[target], found.source[source]) for source, target in found.links}
    assert linked >= {*known.items()}


@pytest.mark.real
def test_the_command(shared: Path, tmp_path: Path) -> None:
    model = ["-m", str(shared / "models" / "opus-mt-zh-en"), "--dtype", "float32"]
    gold = shared / "data" / "alignment" / "zh-en"
    for side, name in (("source", "test.zh"), ("target", "test.en")):
        lines = (gold / name).read_text().splitlines()[:12]
        (tmp_path / side).write_text("\n".join([*lines[:2], "", *lines[2:]]) + "\n")
    files = ["--source", str(tmp_path / "source"), "--target", str(tmp_path / "target")]
    done = RUNNER.invoke(application, ["align", *model, *files, "-o", str(tmp_path / "out")])
    assert done.exit_code == 0, done.stderr
    known = parse_links("\n".join((gold / "alignment.talp").read_text().splitlines()[:12]) + "\n", "gold")
    found = parse_links((tmp_path / "out").read_text(), "out", base=0)
    assert found.sentences[2].sure == frozenset()
    from whyword.alignment.aer import score_links

    links = [each.sure for index, each in enumerate(found.sentences) if index != 2]
    assert score_links(zip(links, known.sentences, strict=True)).aer < 0.24
    saving = [part for name in ("a.html", "a.talp") for part in ("-o", str(tmp_path / name))]
    one = RUNNER.invoke(application, ["align", "我 读 书", "I read books", *model, "--json", *saving])
    assert one.stderr.count("Saved ") == 2
    assert (tmp_path / "a.talp").read_text().startswith("1-1 2-2")
    assert json.loads(one.stdout)["links"][:2] == [[0, 0], [1, 1]]
    assert "pairs/s" in done.stderr
    assert "line 3: both sides are empty" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "There is nothing to align"),
        (["a", "b", "--source", "c"], "There are a sentence and files"),
        (["a", "b"], "No model was named"),
        (["a", "-m", "x"], "There is no translation"),
        (["--source", "x", "-m", "x"], "There is no --target"),
    ],
)
def test_the_command_refuses(arguments: list[str], message: str) -> None:
    done = RUNNER.invoke(application, ["align", *arguments])
    assert done.exit_code == 2
    assert message in done.stderr
