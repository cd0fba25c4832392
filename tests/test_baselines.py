"""Baselines are what their formulas say, each against plain runs of the network, in float64."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

import whyword
from whyword.attribute import METHODS, Erasure, erase
from whyword.attribute.methods import COMPARED
from whyword.ledger import Likelihoods, Target
from whyword.trace.precision import keep_precision

import reference
from families import DISTINCT, build, prompt_of

ALL = list(METHODS)
ERASURES = [name for name in METHODS if name.startswith("erasure")]
SYMMETRIC = ("gradient-norm", "alti", "attention-rollout", "attention", "random")
"""Methods whose scores stay what they are when target and foil change places."""


def run_plainly(model: whyword.Model, ids: list[int], **options: Any) -> tuple[Tensor, Tensor]:
    """Run the network alone; give the logits of the last position before the cap, and the probabilities."""
    with torch.no_grad(), keep_precision(torch.float64):
        logits = model.network(torch.tensor([ids]), **options).logits[0, -1]
    cap = model.logit_cap
    return logits if cap is None else cap * torch.atanh(logits / cap), logits.softmax(-1)


def contrast(numbers: Tensor, target: int, foils: list[int]) -> float:
    return float(numbers[target] - numbers[foils].mean())


def close(found: Tensor, expected: list[float] | Tensor, scale: float | None = None) -> None:
    expected = torch.as_tensor(expected, dtype=torch.float64)
    scale = float(expected.abs().max()) if scale is None else scale
    torch.testing.assert_close(found.double(), expected.detach(), rtol=1e-5, atol=1e-6 * scale)


def test_erasure_is_the_loss_of_one_plain_run_per_token(distinct: whyword.Model) -> None:
    ids, foils = prompt_of(5), [9, 11]
    found = whyword.compare(distinct, ids, target=5, foil=foils, methods=ERASURES)
    whole = run_plainly(distinct, ids)
    expected: dict[str, list[float]] = {name: [] for name in found}
    for source in range(len(ids)):
        mask = torch.ones(1, len(ids), dtype=torch.long)
        mask[0, source] = 0
        hidden = run_plainly(distinct, ids, attention_mask=mask)
        deleted = run_plainly(distinct, ids[:source] + ids[source + 1 :])
        for name, without in (("erasure", hidden), ("erasure-deletion", deleted)):
            for ending, place in (("-logits", 0), ("", 1)):
                lost = contrast(whole[place], 5, foils) - contrast(without[place], 5, foils)
                expected[name + ending].append(lost)
    for name, scores in expected.items():
        close(found[name].scores, scores)


def test_gradients_are_finite_differences(distinct: whyword.Model) -> None:
    ids, step = prompt_of(2), 1e-5
    with torch.no_grad():
        embedded = distinct.network.get_input_embeddings()(torch.tensor([ids]))
    sources, width = embedded.shape[1:]
    moves = step * torch.eye(sources * width, dtype=torch.float64).reshape(-1, sources, width)
    ends = []
    for moved in (embedded + moves, embedded - moves):
        with torch.no_grad(), keep_precision(torch.float64):
            logits = distinct.network(inputs_embeds=moved).logits[:, -1]
        cap = distinct.logit_cap
        logits = logits if cap is None else cap * torch.atanh(logits / cap)
        ends.append(logits[:, 5] - logits[:, 9])
    gradient = ((ends[0] - ends[1]) / (2 * step)).reshape(sources, width)
    found = whyword.compare(distinct, ids, target=5, foil=9, methods=["gradient-norm", "gradient-x-input"])
    size = float(gradient.abs().sum(-1).max())
    torch.testing.assert_close(
        found["gradient-norm"].scores.double(), gradient.abs().sum(-1), rtol=1e-4, atol=1e-5 * size
    )
    torch.testing.assert_close(
        found["gradient-x-input"].scores.double(),
        (gradient * embedded[0]).sum(-1),
        rtol=1e-4,
        atol=1e-5 * size * float(embedded.abs().max()),
    )


@pytest.mark.parametrize("name", DISTINCT)
def test_attention_and_rollout_from_the_weights_that_the_model_returns(name: str) -> None:
    model, ids = whyword.load(build(name, torch.float64, attn_implementation="eager")), prompt_of(9)
    with torch.no_grad(), keep_precision(torch.float64):
        returned = model.network(torch.tensor([ids]), output_attentions=True).attentions
    weights = [each[0].mean(0).double() for each in returned]
    found = whyword.compare(model, ids, target=5, methods=["attention", "attention-rollout"])
    close(found["attention"].scores, weights[-1][-1])
    product = torch.eye(len(ids), dtype=torch.float64)
    for each in weights:
        product = (0.5 * each + 0.5 * torch.eye(len(ids), dtype=torch.float64)) @ product
    close(found["attention-rollout"].scores, product[-1])


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_alti_is_the_row_of_the_plain_reference(name: str) -> None:
    network, ids = build(name, torch.float64), prompt_of(11)
    with keep_precision(torch.float64):
        expected = reference.explain(network, ids, 5, 9).mixing[-1, -1]
    close(whyword.explain(whyword.load(network), ids, target=5, foil=9, method="alti").scores, expected)


def test_every_family_is_explained_by_every_method(family: whyword.Model) -> None:
    found = whyword.compare(family, prompt_of(5), target=5, foil=9, methods=ALL)
    assert list(found) == ALL
    for name, explanation in found.items():
        assert explanation.scores.isfinite().all()
        assert explanation.by_block.shape == (3 if METHODS[name].measure.by_block else 1, 5)
        assert explanation.ledger.error <= 1e-9
    close(found["alti"].scores, whyword.mixing(family, prompt_of(5))[-1, -1])
    assert (found["gradient-norm"].scores > 0).all()
    assert (found["gradient-x-input"].scores.abs() <= 1e4 * found["gradient-norm"].scores).all()


def test_target_and_foil_change_places(distinct: whyword.Model) -> None:
    one = whyword.compare(distinct, prompt_of(4), target=5, foil=9, methods=ALL)
    other = whyword.compare(distinct, prompt_of(4), target=9, foil=5, methods=ALL)
    for name in ALL:
        close(other[name].scores, one[name].scores.double() * (1 if name in SYMMETRIC else -1))
        assert METHODS[name].measure.contrastive or torch.equal(one[name].scores, other[name].scores)


def test_several_foils_are_the_mean_of_each(gpt2: whyword.Model) -> None:
    one, other, both = (
        whyword.compare(gpt2, prompt_of(6), target=5, foil=foil, methods=ALL) for foil in (9, 11, [9, 11])
    )
    for name in ALL:
        if name != "gradient-norm":  # the norm of a mean is none
            close(both[name].scores, (one[name].scores + other[name].scores).double() / 2)
    alone = whyword.compare(gpt2, prompt_of(6), target=5, foil=None, methods=["erasure", "gradient-x-input"])
    against = whyword.compare(
        gpt2, prompt_of(6), target=9, foil=None, methods=["erasure", "gradient-x-input"]
    )
    for name in alone:
        close(one[name].scores, alone[name].scores.double() - against[name].scores.double(), 10.0)


LENGTHS = (5, 1, 6, 2)
FOILS: list[Any] = [9, None, [8, 12], "auto"]


@pytest.mark.parametrize("name", ["bloom", "gemma2", "opt-post-norm-projected"])
def test_a_batch_gives_the_numbers_of_one_by_one(name: str) -> None:
    model = whyword.load(build(name, torch.float64))
    prompts = [prompt_of(length, seed=length) for length in LENGTHS]
    found = whyword.compare_batch(model, prompts, targets=5, foils=FOILS, methods=ALL, batch_size=3)
    for comparison, prompt, foil in zip(found, prompts, FOILS, strict=True):
        alone = whyword.compare(model, prompt, target=5, foil=foil, methods=ALL)
        assert comparison.tokens == alone.tokens
        for method in ALL:
            scale = max(float(alone[method].scores.abs().max()), 1e-3)
            torch.testing.assert_close(
                comparison[method].by_block, alone[method].by_block, rtol=1e-5, atol=1e-5 * scale
            )


@pytest.mark.parametrize(("name", "start"), [("bloom", 1), ("mistral", 3)])
def test_a_continuation_is_its_tokens_one_by_one(name: str, start: int) -> None:
    model, prompt, continuation = whyword.load(build(name, torch.float64)), prompt_of(start), prompt_of(2, 1)
    alone = [
        whyword.compare(model, prompt + continuation[:count], target=id_, foil="auto", methods=ALL)
        for count, id_ in enumerate(continuation)
    ]
    for method in ALL[2:]:
        together = whyword.explain_continuation(model, prompt, continuation, foil="auto", method=method)
        for explanation, other in zip(together, alone, strict=True):
            scale = max(float(other[method].scores.abs().max()), 1e-3)
            torch.testing.assert_close(explanation.scores, other[method].scores, rtol=1e-5, atol=1e-5 * scale)


def test_the_only_token_cannot_be_erased(distinct: whyword.Model) -> None:
    found = whyword.compare(distinct, [7], target=5, foil=9, methods=ALL)
    for name in ALL:
        assert found[name].scores.shape == (1,)
        if name.startswith("erasure"):
            assert found[name].scores.tolist() == [0.0]
    assert found["alti"].scores.tolist() == [1.0]


def test_the_ledger_is_that_of_the_prediction(gpt2: whyword.Model) -> None:
    exact = whyword.explain(gpt2, prompt_of(6), target=5, foil=9, method="logit")
    baseline = whyword.explain(gpt2, prompt_of(6), target=5, foil=9, method="erasure")
    assert baseline.ledger.logit == pytest.approx(exact.ledger.logit)
    torch.testing.assert_close(baseline.by_head, exact.by_head)
    assert not torch.allclose(baseline.scores, exact.scores)
    assert (baseline.measure.unit, baseline.measure.adds_up) == ("probability", False)
    assert (exact.measure.unit, exact.measure.adds_up) == ("logits", True)


@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("switch", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_gradients_leave_the_parameters_as_they_are(frozen: bool, switch: Any) -> None:
    network = build("llama", torch.float64)
    expected = whyword.explain(whyword.load(network), prompt_of(5), target=5, method="gradient-norm").scores
    network.requires_grad_(not frozen)
    model = whyword.load(network)
    with switch():
        found = whyword.explain(model, prompt_of(5), target=5, method="gradient-norm")
    torch.testing.assert_close(found.scores, expected)
    assert all(each.grad is None and each.requires_grad is not frozen for each in network.parameters())
    assert not found.by_block.requires_grad
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in network.modules())


def test_a_training_model_is_run_without_dropout() -> None:
    network = build("gpt2", torch.float64, resid_pdrop=0.5, embd_pdrop=0.5, attn_pdrop=0.5)
    expected = whyword.compare(whyword.load(network), prompt_of(5), target=5, foil=9)
    network.train()
    found = whyword.compare(whyword.load(network), prompt_of(5), target=5, foil=9)
    assert network.training
    for name in COMPARED:
        torch.testing.assert_close(found[name].scores, expected[name].scores)


def test_chance_is_the_same_for_the_same_tokens(gpt2: whyword.Model, llama: whyword.Model) -> None:
    one, other, another = (
        whyword.explain(model, ids, target=5, method="random").scores
        for model, ids in ((gpt2, prompt_of(9)), (llama, prompt_of(9)), (gpt2, prompt_of(9, seed=1)))
    )
    assert torch.equal(one, other)
    assert not torch.equal(one, another)
    assert ((one >= 0) & (one < 1)).all()
    assert len(set(one.tolist())) == 9


def test_sets_of_tokens_are_erased_together(distinct: whyword.Model) -> None:
    short, long = prompt_of(4), prompt_of(8, seed=1)
    sets = [frozenset[int](), {0, 2}, {1, 2, 3}]
    found = erase(distinct, [Erasure(short, Target(5, (9,)), sets), Erasure(long, Target(7), [{3, 7}])])
    assert [each.logits.shape for each in found] == [(3, 2), (1, 1)]
    for positions, logits, chances in zip(sets, found[0].logits, found[0].probabilities, strict=True):
        mask = torch.tensor([[int(place not in positions) for place in range(4)]])
        plain = run_plainly(distinct, short, attention_mask=mask)
        close(logits, plain[0][[5, 9]])
        close(chances, plain[1][[5, 9]])
    deleted = erase(distinct, [Erasure(long, Target(7, (5,)), [{3, 7}])], "deletion")[0]
    kept = [id_ for place, id_ in enumerate(long) if place not in (3, 7)]
    close(deleted.logits[0], run_plainly(distinct, kept)[0][[7, 5]])


def test_what_cannot_be_erased(gpt2: whyword.Model) -> None:
    with pytest.raises(whyword.InputError, match=r"All 2 tokens are to be erased\.\nLeave at least one"):
        erase(gpt2, [Erasure([3, 4], Target(5), [{0, 1}])])
    with pytest.raises(whyword.InputError, match=r"positions \[2\] are to be erased from 2 tokens"):
        erase(gpt2, [Erasure([3, 4], Target(5), [{2}])])
    assert erase(gpt2, []) == []
    (none,) = erase(gpt2, [Erasure([3, 4], Target(5), [])])
    assert isinstance(none, Likelihoods)
    assert none.logits.shape == (0, 1)


@pytest.mark.usefixtures("as_in_a_library")
def test_erased_inputs_are_run_together(gpt2: whyword.Model) -> None:
    """Of 6 prompts of 4 tokens: one recorded, all masked inputs at once, both gradients at once, gim."""
    shapes: list[tuple[int, int]] = []

    def count(_module: Any, _args: Any, kwargs: dict[str, Any]) -> None:
        ids, embedded = kwargs["input_ids"], kwargs["inputs_embeds"]
        shapes.append(tuple((ids if embedded is None else embedded).shape[:2]))

    handle = gpt2.network.register_forward_pre_hook(count, with_kwargs=True)
    try:
        prompts = [prompt_of(4, seed) for seed in range(6)]
        for _ in range(2):  # first, what is compared when a length is first met
            shapes.clear()
            list(whyword.compare_batch(gpt2, prompts, targets=5, foils=9, methods=ALL))
    finally:
        handle.remove()
    assert shapes == [(6, 4), (24, 4), (24, 3), (6, 4), (6, 4)]


def test_a_capped_logit_is_shown_beside() -> None:
    model = whyword.load(build("gemma2", torch.float64))
    found = whyword.explain(model, prompt_of(9), target=5, foil=9)
    for choice in (found.target, *found.foils, *whyword.predict(model, prompt_of(9), top=3)):
        assert choice.capped == pytest.approx(2 * math.tanh(choice.logit / 2))
    both = whyword.explain_continuation(model, prompt_of(4), [5, 6])
    assert both.sum().target.capped == pytest.approx(sum(each.target.capped for each in both))


def test_no_cap_no_capped_logit(gpt2: whyword.Model) -> None:
    assert whyword.explain(gpt2, [3], target=5).target.capped is None


def test_every_method_is_described_and_offered() -> None:
    from whyword.cli.options import MethodName

    assert list(METHODS) == [each.value for each in MethodName]
    assert all(callable(method.attribute) for method in METHODS.values())
    adding = {name: each.measure.sum_of for name, each in METHODS.items() if each.measure.adds_up}
    assert adding == {"alti-logit": "attention", "logit": "attention", "flow": "difference"}
