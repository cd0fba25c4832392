"""What must hold for every family with an encoder, in float64, with all parameters randomised."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

import whyword
from whyword.ask.sentence_pair import pair_up
from whyword.ledger import Target, close, compute_entries, settle
from whyword.models import open_model
from whyword.models.testing.tiny_families import TRANSLATORS, build
from whyword.pipeline.one_translation import record_pairs
from whyword.trace import Places, Plan
from whyword.trace.precision import keep_precision
from whyword.trace.recorder import record
from whyword.trace.running import run

from families import prompt_of

SOURCES = [prompt_of(9), prompt_of(4, 1), prompt_of(1, 2)]
PROMPTS = [prompt_of(7, 3), prompt_of(3, 4), prompt_of(5, 5)]
EVERYWHERE = Places((range(7),) * 3)
TARGETS = [Target(5, (9, 11)) if row % 2 else Target(row) for row in range(21)]


@pytest.fixture(scope="session", params=sorted(TRANSLATORS))
def translator(request: pytest.FixtureRequest) -> whyword.Model:
    """A tiny float64 model of every family with an encoder."""
    return whyword.load(build(request.param, torch.float64))


def test_ledger_is_the_logit_at_every_position(translator: whyword.Model) -> None:
    for mixed in (0, 3):
        trace = record(translator, PROMPTS, EVERYWHERE, Plan(mixed), SOURCES)
        ledgers = settle(translator, trace, TARGETS)
        assert all(ledger.error <= 1e-9 for ledger in ledgers)
        assert [ledger.cross_by_head.shape[2] for ledger in ledgers[::7]] == [9, 4, 1]
        assert [ledger.by_head.shape[2] for ledger in ledgers[:7]] == [1, 2, 3, 4, 5, 6, 7]


def test_entries_are_what_their_names_say(translator: whyword.Model) -> None:
    trace = record(translator, PROMPTS, EVERYWHERE, None, SOURCES)
    for row, ledger in enumerate(settle(translator, trace, TARGETS)):
        entries = ledger.attention.sum() + ledger.attention_bias.sum() + ledger.mlp.sum()
        entries += ledger.cross_attention.sum() + ledger.cross_attention_bias.sum()
        total = float(entries) + ledger.embedding + ledger.norm_bias + ledger.unembedding_bias
        assert total == pytest.approx(ledger.total, rel=1e-12)
        token, foils = TARGETS[row].token, TARGETS[row].foils
        own = trace.logits[row, token] - (trace.logits[row, list(foils)].mean() if foils else 0)
        assert float(own) == pytest.approx(ledger.logit, rel=1e-9)
        torch.testing.assert_close(ledger.cross_by_head.sum((1, 2)), ledger.cross_attention)


def test_padding_and_the_order_of_a_batch_change_nothing(translator: whyword.Model) -> None:
    together = record(translator, PROMPTS, EVERYWHERE, Plan(3), SOURCES)
    entries = compute_entries(translator, together, TARGETS)
    for example, (prompt, source) in enumerate(zip(PROMPTS, SOURCES, strict=True)):
        with keep_precision(torch.float64):
            expected = run(translator, [prompt], [source])[0]
        rows = slice(7 * example, 7 * example + len(prompt))
        torch.testing.assert_close(together.logits[rows], expected, rtol=1e-9, atol=1e-9)
        trace = record(translator, [prompt], Places((range(len(prompt)),)), Plan(3), [source])
        alone = compute_entries(translator, trace, TARGETS[rows])
        torch.testing.assert_close(entries.cross_by_head[rows, ..., : len(source)], alone.cross_by_head)
        assert not entries.cross_by_head[rows, ..., len(source) :].any()
        for ours, theirs in zip(together.encoder.contributions, trace.encoder.contributions, strict=True):
            own = ours.dense()[example, : len(source)]
            torch.testing.assert_close(own[:, : len(source)], theirs.dense()[0])
            assert not own[:, len(source) :].any()
        for ours, theirs in zip(
            together.decoder.cross_attention.contributions,
            trace.decoder.cross_attention.contributions,
            strict=True,
        ):
            own = ours.dense()[example, : len(prompt)]
            kept = torch.cat([own[:, : len(source)], own[:, -1:]], dim=1)
            torch.testing.assert_close(kept, theirs.dense()[0])
            assert not own[:, len(source) : -1].any()


@pytest.mark.parametrize("name", sorted(TRANSLATORS))
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 1e-4), (torch.bfloat16, 2e-2)])
def test_ledger_in_lower_precision(name: str, dtype: torch.dtype, bound: float) -> None:
    model = whyword.load(build(name, dtype))
    trace = record(model, PROMPTS, EVERYWHERE, Plan(3), SOURCES)
    assert all(ledger.error <= bound for ledger in settle(model, trace, TARGETS))


@pytest.mark.parametrize("name", ["marian", "t5"])
def test_whatever_attention_the_model_runs_with(name: str) -> None:
    network = build(name, torch.float64)
    expected = record(whyword.load(network), PROMPTS, EVERYWHERE, Plan(3), SOURCES)
    network.set_attn_implementation("eager")
    trace = record(whyword.load(network), PROMPTS, EVERYWHERE, Plan(3), SOURCES)
    assert network.config._attn_implementation == "eager"
    torch.testing.assert_close(trace.logits, expected.logits)
    for ours, theirs in zip(
        trace.decoder.sublayers[1].weights, expected.decoder.sublayers[1].weights, strict=True
    ):
        torch.testing.assert_close(ours, theirs)


def test_nothing_is_left_on_the_model(translator: whyword.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    own = [module.config._attn_implementation for module in (translator.network, translator.decoder)]

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("in the middle of a run")

    with monkeypatch.context() as patch:
        patch.setattr(translator.blocks[1], "forward", fail)
        with pytest.raises(whyword.ModelError, match="RuntimeError: in the middle"):
            record(translator, PROMPTS, EVERYWHERE, Plan(3), SOURCES)
    for module in translator.network.modules():
        assert not module._forward_hooks
        assert not module._forward_pre_hooks
    assert own == [module.config._attn_implementation for module in (translator.network, translator.decoder)]


@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_a_norm_that_is_left_out(stack: str) -> None:
    model = open_model(build("marian", torch.float64))
    described = getattr(model.architecture, stack)
    sublayers = (replace(described.sublayers[0], norm_sum=None), *described.sublayers[1:])
    wrong = replace(model.architecture, **{stack: replace(described, sublayers=sublayers)})
    with pytest.raises(whyword.ProofError) as caught:
        whyword.load(model.network, architecture=wrong)
    where = "encoder block 1" if stack == "encoder" else "block 1"
    assert caught.value.wrong.startswith(f"{where}: stream in + all that was written = ")


def test_a_cross_attention_that_writes_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    model = whyword.load(build("marian", torch.float64))
    projection = model.blocks[1].encoder_attn.out_proj
    original = projection.forward
    monkeypatch.setattr(projection, "forward", lambda x: original(x) + 0.25)
    trace = record(model, PROMPTS, EVERYWHERE, None, SOURCES)
    with pytest.raises(whyword.ProofError) as caught:
        settle(model, trace, TARGETS)
    assert caught.value.wrong.startswith("block 2, cross-attention: parts + output bias = ")


def test_a_bias_of_the_logits_that_is_left_out() -> None:
    model = open_model(build("marian", torch.float64))
    with pytest.raises(whyword.ProofError) as caught:
        whyword.load(model.network, architecture=replace(model.architecture, logit_bias=None))
    assert "sum of the ledger = " in caught.value.wrong


def test_outputs_that_are_scaled_by_their_width() -> None:
    model = open_model(build("t5", torch.float64))
    plain = replace(model.architecture.decoder, scaled_by_width=None)
    with pytest.raises(whyword.ProofError) as caught:
        whyword.load(model.network, architecture=replace(model.architecture, decoder=plain))
    assert "final norm: frozen norm of the last stream = " in caught.value.wrong


def test_a_logit_of_padding_far_below_all_others_hides_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    network = build("marian", torch.float32)
    network.final_logits_bias[0, 0] = -1e4
    whyword.load(network)
    decoder = network.get_decoder().layers[0]
    original = decoder.forward

    def shift(*args: object, **kwargs: object) -> object:
        given = original(*args, **kwargs)
        if not decoder._forward_hooks:
            return given
        return (given[0] + 1e-2, *given[1:]) if isinstance(given, tuple) else given + 1e-2

    monkeypatch.setattr(decoder, "forward", shift)
    with pytest.raises(whyword.ProofError):
        whyword.load(network)


@pytest.mark.real
def test_real_weights_over_gold_pairs(opus: whyword.Model, shared: Path) -> None:
    folder = shared / "data" / "alignment" / "zh-en"
    sources, targets = ((folder / f"test.{code}").read_text().splitlines()[:20] for code in ("zh", "en"))
    pairs = [pair_up(opus, "".join(one.split()), two) for one, two in zip(sources, targets, strict=True)]
    pairs.sort(key=lambda pair: len(pair.prompt))
    worst = 0.0
    for start in range(0, 20, 10):
        batch = pairs[start : start + 10]
        trace = record_pairs(opus, batch, Plan())
        tokens = [[*pair.explained, *pair.explained[-1:] * trace.places.each] for pair in batch]
        every = [Target(id_) for ids in tokens for id_ in ids[: trace.places.each]]
        closed = close(opus, compute_entries(opus, trace, every), list(trace.places))
        worst = max(worst, float(closed.error.max()))
    assert 0 < worst <= 1e-4
