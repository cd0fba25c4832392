"""What must hold for every family, in float64, with all parameters randomised."""

import math

import pytest
import torch
import transformers

import whyword
from whyword.ledger import Target, settle
from whyword.models.testing.tiny_families import ABSENT, find_present
from whyword.trace import Places
from whyword.trace.recorder import record

from families import DISTINCT, FAMILIES, build, prompt_of

LENGTHS = (1, 2, 7, 60)
METHODS = ["logit", "alti-logit"]


def test_ledger_is_the_logit_at_every_position(family: whyword.Model) -> None:
    for length in LENGTHS:
        ids = prompt_of(length)
        trace = record(family, [ids], Places((range(length),)))
        for targets in ([Target(5)] * length, [Target(5, (9, 11))] * length):
            assert all(ledger.error <= 1e-9 for ledger in settle(family, trace, targets))


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_a_recorded_run_in_float32_is_the_untouched_run(name: str) -> None:
    model, ids = whyword.load(build(name, torch.float32)), prompt_of(60)
    with torch.no_grad():
        expected = model.network(torch.tensor([ids])).logits[0]
    trace = record(model, [ids], Places((range(60),)))
    torch.testing.assert_close(trace.logits, expected, rtol=1e-5, atol=1e-5)
    assert all(ledger.error <= 1e-4 for ledger in settle(model, trace, [Target(5, (9,))] * 60))


@pytest.mark.parametrize("name", DISTINCT)
@pytest.mark.parametrize(
    ("dtype", "bound"), [(torch.float32, 1e-4), (torch.float16, 4e-3), (torch.bfloat16, 2e-2)]
)
def test_ledger_in_lower_precision(name: str, dtype: torch.dtype, bound: float) -> None:
    model = whyword.load(build(name, dtype))
    for length in (LENGTHS[0], LENGTHS[-1]):
        explanation = whyword.explain(model, prompt_of(length), target=5, foil=9)
        assert explanation.ledger.error <= bound
        assert explanation.scores.dtype == torch.float32


@pytest.mark.parametrize(
    "name", ["falcon", "falcon-multi-head", "falcon-multi-query", "olmoe", "qwen2-moe", "stablelm"]
)
def test_eager_attention_outside_the_interface(name: str) -> None:
    model = whyword.load(build(name, torch.float64, attn_implementation="eager"))
    assert whyword.explain(model, prompt_of(17), target=5, foil=9).ledger.error <= 1e-9
    assert model.config._attn_implementation == "eager"


def test_a_capped_logit_is_explained_before_the_cap() -> None:
    model = whyword.load(build("gemma2", torch.float64))
    first, *others = whyword.predict(model, prompt_of(9), top=97)
    assert first.probability == max(choice.probability for choice in [first, *others])
    with torch.no_grad():
        capped = model.network(torch.tensor([prompt_of(9)])).logits[0, -1]
    explanation = whyword.explain(model, prompt_of(9), target=first.id, foil=None)
    assert explanation.ledger.logit == pytest.approx(first.logit)
    assert 2 * math.tanh(first.logit / 2) == pytest.approx(float(capped[first.id]), rel=1e-5)
    assert explanation.target.probability == pytest.approx(float(capped.softmax(-1)[first.id]), rel=1e-5)


def test_families_that_this_version_of_transformers_lacks() -> None:
    assert set(FAMILIES) - set(find_present()) == ABSENT[int(transformers.__version__.split(".")[0])]


def test_entries_are_what_their_names_say(distinct: whyword.Model) -> None:
    explanation = whyword.explain(distinct, prompt_of(9), target=5, foil=9)
    ledger = explanation.ledger
    entries = ledger.attention.sum() + ledger.attention_bias.sum() + ledger.mlp.sum()
    total = float(entries) + ledger.embedding + ledger.norm_bias + ledger.unembedding_bias
    assert total == pytest.approx(ledger.total, rel=1e-12)
    assert explanation.target.logit - explanation.foil.logit == pytest.approx(ledger.logit, rel=1e-9)
    torch.testing.assert_close(ledger.by_head.sum((1, 2)), ledger.attention)


def test_tracking_moves_updates_and_loses_none(distinct: whyword.Model) -> None:
    both = whyword.compare(distinct, prompt_of(19), target=5, foil=9, methods=METHODS)
    for explanation in (both[method] for method in METHODS):
        torch.testing.assert_close(explanation.by_block.sum(1), explanation.by_head.sum((1, 2)))
        torch.testing.assert_close(explanation.by_block.sum(0), explanation.scores)


def test_contrast_is_antisymmetric_and_linear(distinct: whyword.Model) -> None:
    def explain(target: int, foil: int | None = None) -> whyword.Comparison:
        return whyword.compare(distinct, prompt_of(11), target=target, foil=foil, methods=METHODS)

    contrast, opposite, target, foil = explain(5, 9), explain(9, 5), explain(5), explain(9)
    for method in METHODS:
        found, expected = contrast[method].by_block, target[method].by_block - foil[method].by_block
        torch.testing.assert_close(found, -opposite[method].by_block)
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_several_foils_are_the_mean_of_their_directions(distinct: whyword.Model) -> None:
    def scores(foil: int | list[int]) -> torch.Tensor:
        return whyword.explain(distinct, prompt_of(11), target=5, foil=foil).scores

    torch.testing.assert_close(scores([9, 11]), (scores(9) + scores(11)) / 2)


def test_rows_of_mixing_are_weights(family: whyword.Model) -> None:
    mixing = whyword.mixing(family, prompt_of(19))
    assert mixing.shape == (3, 19, 19)
    assert (mixing >= 0).all()
    torch.testing.assert_close(mixing.sum(-1), torch.ones(3, 19))
    torch.testing.assert_close(mixing, mixing.tril())


def test_a_single_token_is_its_own_mix(distinct: whyword.Model) -> None:
    torch.testing.assert_close(whyword.mixing(distinct, [7]), torch.ones(3, 1, 1))
    explanation = whyword.explain(distinct, [7], target=5, foil=9, method="alti-logit")
    torch.testing.assert_close(explanation.by_block, explanation.by_head.sum(1))


@pytest.mark.parametrize("method", METHODS)
def test_a_continuation_is_its_tokens_one_by_one(distinct: whyword.Model, method: str) -> None:
    prompt, continuation = prompt_of(6), prompt_of(4, seed=1)
    together = whyword.explain_continuation(distinct, prompt, continuation, method=method)
    assert [e.target.id for e in together] == continuation
    for count, explanation in enumerate(together):
        alone = whyword.explain(
            distinct, prompt + continuation[:count], target=continuation[count], method=method
        )
        torch.testing.assert_close(explanation.by_block, alone.by_block, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(explanation.by_head, alone.by_head, rtol=1e-5, atol=1e-5)
        assert explanation.ledger.logit == pytest.approx(alone.ledger.logit, rel=1e-9)
    whole = together.sum()
    assert whole.ledger.logit == pytest.approx(sum(e.ledger.logit for e in together))
    assert len(whole.scores) == len(whole.tokens) == 9
    assert float(whole.scores.sum()) == pytest.approx(sum(float(e.scores.sum()) for e in together), rel=1e-4)


def test_nothing_is_left_on_the_model(distinct: whyword.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    own = distinct.network.config._attn_implementation
    whyword.explain(distinct, prompt_of(5), target=5)

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("in the middle of a run")

    with monkeypatch.context() as patch:
        patch.setattr(distinct.blocks[1], "forward", fail)
        with pytest.raises(whyword.ModelError, match="RuntimeError: in the middle"):
            whyword.explain(distinct, prompt_of(5), target=5)
    for module in distinct.network.modules():
        assert not module._forward_hooks
        assert not module._forward_pre_hooks
    assert distinct.network.config._attn_implementation == own
    assert whyword.explain(distinct, prompt_of(5), target=5).ledger.error <= 1e-9


def test_a_training_model_is_explained_without_dropout_and_stays_training() -> None:
    network = build("gpt2", torch.float64)
    expected = whyword.explain(whyword.load(network), prompt_of(8), target=5)
    network.train()
    explanation = whyword.explain(whyword.load(network), prompt_of(8), target=5)
    assert network.training
    assert network.transformer.h[0].attn.training
    torch.testing.assert_close(explanation.scores, expected.scores)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_whatever_attention_the_model_runs_with(attention: str) -> None:
    network = build("mistral", torch.float64)
    expected = whyword.explain(whyword.load(network), prompt_of(17), target=5)
    network.set_attn_implementation(attention)
    explanation = whyword.explain(whyword.load(network), prompt_of(17), target=5)
    assert network.config._attn_implementation == attention
    torch.testing.assert_close(explanation.by_head, expected.by_head)


def test_weights_of_several_types() -> None:
    network = build("llama-untied", torch.bfloat16)
    network.lm_head.float()
    network.model.norm.register_forward_hook(lambda _module, _inputs, output: output.float())
    model = whyword.load(network)
    assert model.dtype == torch.bfloat16
    assert whyword.explain(model, prompt_of(12), target=5, foil=None).ledger.error <= 2e-2


def test_generation_is_greedy_and_without_dropout() -> None:
    network = build("gpt2", torch.float32, resid_pdrop=0.5, embd_pdrop=0.5)
    network.generation_config.repetition_penalty = 5.0
    expected = [e.target.id for e in whyword.explain_continuation(whyword.load(network), prompt_of(5))]
    network.train()
    model = whyword.load(network)
    for _ in range(3):
        assert [e.target.id for e in whyword.explain_continuation(model, prompt_of(5))] == expected
    first = whyword.explain(model, prompt_of(5)).target.id
    assert expected[0] == first
