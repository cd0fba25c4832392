"""Erased inputs that are run from where they differ give what whole runs give."""

from typing import Any

import pytest
import torch
from transformers.cache_utils import DynamicLayer

import whyword
from whyword.attribute import Erasure, erase, erased_inputs
from whyword.attribute.erased_inputs import WAYS, Variant, run_variants
from whyword.ledger import Likelihoods, Target
from whyword.trace.kept_prefixes import KeptPrefixes, keep_prefixes

from families import build, prompt_of

KEPT = ("gpt2", "opt", "bloom", "llama")
"""Families whose positions, biases and caches differ in kind, and that keep all keys and values."""


def load_family(name: str) -> whyword.Model:
    return whyword.load(build(name, torch.float64))


@pytest.fixture
def small_runs_are_cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count tokens as they are, so that tiny prompts are run from prefixes too."""
    monkeypatch.setattr(erased_inputs, "_FEW_TOKENS", {"cpu": 1})


def erase_each(way: str, lengths: tuple[int, ...] = (6, 9, 9, 7), positions: int = 1) -> list[Variant]:
    """List prompts without each token, and without two that stand apart; the last positions are read."""
    variants = []
    for seed, length in enumerate(lengths):
        ids, read = prompt_of(length, seed), range(length - positions, length)
        targets = [Target(5, (9, 11))] * positions
        sets = [{source} for source in range(length)] + [{1, 2, 4}, {2, 3}]
        variants += [WAYS[way](ids, each, read, targets) for each in sets]
    return variants


def run_whole(model: whyword.Model, variants: list[Variant]) -> list[Likelihoods]:
    return [
        erased_inputs._read_each([each], erased_inputs._read_whole(model, [each]))[0] for each in variants
    ]


def require_same(found: list[Likelihoods], expected: list[Likelihoods]) -> None:
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.logits, other.logits, rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(one.probabilities, other.probabilities, rtol=1e-6, atol=1e-9)


@pytest.mark.usefixtures("small_runs_are_cheap")
@pytest.mark.parametrize("way", WAYS)
def test_every_family_gives_what_whole_runs_give(family: whyword.Model, way: str) -> None:
    if family.encoder_stack is not None:
        pytest.skip("tokens of a source are not erased by a mask of the decoder")
    variants = erase_each(way)
    for _ in range(2):  # the first time, some are compared
        require_same(run_variants(family, variants), run_whole(family, variants))


@pytest.mark.usefixtures("small_runs_are_cheap")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", KEPT)
def test_fewer_tokens_are_run(name: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, run = load_family(name), list[int]()

    def count(*args: Any) -> Any:
        run.append(args[2].numel())
        return read_on(*args)

    read_on = erased_inputs.read_on
    monkeypatch.setattr(erased_inputs, "read_on", count)
    variants = erase_each(way, positions=2)
    require_same(run_variants(model, variants), run_whole(model, variants))
    assert run
    assert sum(run) < 0.7 * sum(len(variant.ids) for variant in variants)


@pytest.mark.usefixtures("small_runs_are_cheap")
def test_a_cache_that_gives_something_else_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    model, asked = load_family("gpt2"), list[int]()

    def spoil(*args: Any) -> KeptPrefixes:
        asked.append(1)
        kept = keep_prefixes(*args)
        assert kept is not None
        return KeptPrefixes([(keys, 1.01 * values) for keys, values in kept.layers])

    monkeypatch.setattr(erased_inputs, "keep_prefixes", spoil)
    variants = erase_each("mask")
    for _ in range(2):
        require_same(run_variants(model, variants), run_whole(model, variants))
    assert asked == [1]


@pytest.mark.usefixtures("small_runs_are_cheap")
def test_hooks_of_a_user_see_whole_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    model = load_family("gpt2")
    monkeypatch.setattr(erased_inputs, "keep_prefixes", lambda *_: pytest.fail("prefixes were kept"))
    ids, sets = prompt_of(6), [{source} for source in range(6)]
    handle = model.network.register_forward_hook(lambda *_: None)
    try:
        erase(model, [Erasure(ids, Target(5), sets)])
    finally:
        handle.remove()


def test_where_inputs_begin_to_differ() -> None:
    ids, last, target = [3, 4, 4, 5, 6], range(4, 5), [Target(5)]
    hidden = [WAYS["mask"](ids, each, last, target).alike for each in ({0}, {2}, {1, 2}, {1, 3}, {4}, set())]
    assert hidden == [1, 3, 3, 2, 4, 4]
    deleted = [WAYS["deletion"](ids, each, last, target).alike for each in ({0}, {1}, {3}, {4})]
    assert deleted == [0, 2, 3, 3]  # of two equal tokens, either may be the one that is gone


def score_each(model: whyword.Model, prompt: list[int]) -> list[float]:
    return whyword.explain(model, prompt, target=5, foil=9, method="erasure-logits").scores.tolist()


@pytest.mark.usefixtures("small_runs_are_cheap")
def test_a_cache_that_is_patched_later_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The network gives something else with its cache, as it runs by default, than without."""
    model, prompt = load_family("llama"), prompt_of(14)
    own = DynamicLayer.update
    score_each(model, prompt)

    def update(layer: Any, keys: Any, values: Any, *args: Any, **options: Any) -> Any:
        return own(layer, keys, values * 1.3, *args, **options)

    monkeypatch.setattr(DynamicLayer, "update", update)
    with pytest.raises(whyword.ProofError, match="logits of the recorded run"):
        score_each(model, prompt)


def test_a_row_that_sees_nothing_is_no_nan() -> None:
    """In float64 transformers gives NaN here: it casts the mask's least number to float32."""
    prompt, found = prompt_of(12), []
    for dtype in (torch.float32, torch.float64):
        network = build("llama", dtype)
        network.set_attn_implementation("eager")
        network.config.output_attentions = True
        found.append(score_each(whyword.load(network), prompt))
    assert found[0] == pytest.approx(found[1], abs=1e-3)
