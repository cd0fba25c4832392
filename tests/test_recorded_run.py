"""The recorded run is the model's own run: whatever its attention, its type, its mask and its lengths."""

import os
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import sdpa_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

import whyword
from whyword.ledger import Target, settle
from whyword.models.length_classes import find_thresholds
from whyword.models.testing.shrink import uninitialised
from whyword.trace import Places, record

from families import DISTINCT, build, prompt_of, randomise

SPARSE = {
    "num_hidden_layers": 2,
    "hidden_size": 32,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "vocab_size": 97,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
    "q_lora_rank": 12,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 4,
    "v_head_dim": 10,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_shared_experts": 1,
    "moe_intermediate_size": 24,
    "first_k_dense_replace": 1,
    "n_group": 1,
    "topk_group": 1,
    "index_topk": 16,
    "index_n_heads": 2,
    "index_head_dim": 8,
}
LONGROPE = {
    "max_position_embeddings": 64,
    "original_max_position_embeddings": 16,
    "rope_scaling": {
        "type": "longrope",
        "short_factor": [1.0, 1.2, 1.4, 1.6],
        "long_factor": [2.0, 3.0, 4.0, 5.0],
    },
    "sliding_window": None,
}
HALF = (torch.float16, torch.bfloat16)
PROMPTS = int(os.environ.get("WHYWORD_PROMPTS", "24"))


def own_difference(network: Any, ids: list[int]) -> float:
    """What the network itself gives for token 5 minus token 9."""
    with torch.no_grad():
        logits = network(torch.tensor([ids])).logits[0, -1].double()
    return float(logits[5] - logits[9])


def attend(scores_times: float, values_times: float = 1.0) -> Any:
    """An attention function that a user could write, causal by itself."""

    def function(
        _module: Any, query: Tensor, key: Tensor, value: Tensor, _mask: Any, scaling: float, **_: Any
    ) -> tuple[Tensor, None]:
        function.calls += 1
        key, value = (each.repeat_interleave(query.shape[1] // each.shape[1], 1) for each in (key, value))
        scores = query @ key.transpose(2, 3) * scaling * scores_times
        future = torch.ones(scores.shape[2:]).triu(1).bool()
        weights = scores.masked_fill(future, -torch.inf).softmax(-1)
        return (weights @ value * values_times).transpose(1, 2).contiguous(), None

    function.calls = 0
    return function


@pytest.mark.parametrize("kind", ["DeepseekV32", "GlmMoeDsa"])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_a_sparse_mask_that_goes_by_the_name_of_the_implementation(kind: str, attention: str) -> None:
    if not hasattr(transformers, f"{kind}Config"):
        pytest.skip(f"transformers {transformers.__version__} has no {kind}")
    config = getattr(transformers, f"{kind}Config")(**SPARSE, bos_token_id=1, eos_token_id=2, pad_token_id=0)
    with uninitialised():
        network = getattr(transformers, f"{kind}ForCausalLM")(config)
    network = randomise(network).eval()
    network.set_attn_implementation(attention)
    model = whyword.load(network)
    for length in (9, 40):  # below and beyond index_topk
        found = whyword.explain(model, prompt_of(length), target=5, foil=9)
        assert found.ledger.total == pytest.approx(own_difference(network, prompt_of(length)), abs=1e-4)


def test_the_config_is_not_touched(distinct: whyword.Model) -> None:
    config, seen = distinct.network.config, []
    own = config._attn_implementation
    handle = distinct.blocks[0].register_forward_pre_hook(lambda *_: seen.append(config._attn_implementation))
    try:
        whyword.explain(distinct, prompt_of(9), target=5)
    finally:
        handle.remove()
    assert set(seen) == {own}


@pytest.mark.parametrize("name", ["llama", "gpt2", "mistral"])
def test_eager_attention_gives_the_same_numbers(name: str) -> None:
    network = build(name, torch.float32)
    expected = whyword.explain(whyword.load(network), prompt_of(20), target=5, foil=9)
    network.set_attn_implementation("eager")
    found = whyword.explain(whyword.load(network), prompt_of(20), target=5, foil=9)
    torch.testing.assert_close(found.by_head, expected.by_head, rtol=1e-3, atol=1e-4)
    assert found.ledger.total == pytest.approx(own_difference(network, prompt_of(20)), abs=1e-4)


def test_the_function_of_a_user_is_the_one_that_runs() -> None:
    honest = attend(1.0)
    AttentionInterface.register("honest", honest)
    network = build("llama", torch.float64)
    model = whyword.load(network)
    network.set_attn_implementation("honest")  # after the model was loaded
    honest.calls = 0
    found = whyword.explain(model, prompt_of(9), target=5, foil=9)
    # Is it causal (two), recorded, untouched; its biases, as it is and nudged.
    assert honest.calls == 6 * len(model.blocks)
    assert found.ledger.total == pytest.approx(own_difference(network, prompt_of(9)), abs=1e-5)
    whyword.load(network)


@pytest.mark.parametrize("method", ["logit", "alti-logit"])
@pytest.mark.parametrize("changes", [(3.0, 1.0), (1.0, 1.01)])
def test_attention_with_other_weights_is_refused(method: str, changes: tuple[float, float]) -> None:
    AttentionInterface.register("other", attend(*changes))
    network = build("llama", torch.float64)
    model = whyword.load(network)
    network.set_attn_implementation("other")
    with pytest.raises(whyword.ProofError) as caught:
        whyword.explain(model, prompt_of(9), target=5, foil=9, method=method)
    assert caught.value.wrong.startswith("block 1")
    assert "weights × values" in caught.value.wrong
    assert "with the weights of eager attention" in caught.value.remedy
    assert len(str(caught.value).splitlines()) == 2
    with pytest.raises(whyword.ProofError):
        whyword.load(network)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_functions_are_put_back_whatever_happens(attention: str) -> None:
    network = build("llama", torch.float64)
    network.set_attn_implementation(attention)
    model, file = whyword.load(network), sys.modules[type(network).__module__]
    before = dict(ALL_ATTENTION_FUNCTIONS.items()), file.eager_attention_forward

    def fail(*_: Any) -> None:
        if dict(ALL_ATTENTION_FUNCTIONS.items()) == before[0]:
            return  # a run that is not recorded: is the model still causal?
        AttentionInterface.register(f"{attention} meanwhile", attend(1.0))
        raise KeyboardInterrupt

    handle = model.blocks[1].register_forward_pre_hook(fail)
    try:
        with pytest.raises(KeyboardInterrupt):
            whyword.explain(model, prompt_of(9), target=5)
    finally:
        handle.remove()
    after = dict(ALL_ATTENTION_FUNCTIONS.items())
    assert f"{attention} meanwhile" in after
    assert ({name: after[name] for name in before[0]}, file.eager_attention_forward) == before
    whyword.explain(model, prompt_of(9), target=5)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_other_threads_run_the_network_unseen(attention: str) -> None:
    network = build("gpt2", torch.float64)
    network.set_attn_implementation(attention)
    model, found = whyword.load(network), []
    expected = own_difference(network, prompt_of(14))

    def run(*_: Any) -> None:
        if threading.current_thread() is threading.main_thread():
            thread = threading.Thread(target=lambda: found.append(own_difference(network, prompt_of(14))))
            thread.start()
            thread.join()

    handle = model.blocks[1].register_forward_hook(run)
    try:
        explanation = whyword.explain(model, prompt_of(9), target=5, foil=9)
    finally:
        handle.remove()
    assert set(found) == {expected}
    assert explanation.ledger.total == pytest.approx(own_difference(network, prompt_of(9)), abs=1e-5)


def plant(model: whyword.Model, ids: list[int], factor: float) -> Iterator[tuple[str, bool]]:
    """Multiply the weights of one head after the other; say of those that matter whether it was noticed."""
    trace = record(model, [ids], Places((range(len(ids) - 1, len(ids)),)))
    target, foil = trace.logits[0].topk(2).indices.tolist()
    targets = [Target(target, (foil,))]
    (ledger,) = settle(model, trace, targets)
    shares = ledger.by_head.sum(-1).abs() / abs(ledger.logit)
    for block, weights in enumerate(trace.decoder.attention.weights):
        for head in range(weights.shape[1]):
            if shares[block, head] < 0.01:
                continue
            own = weights[:, head].clone()
            weights[:, head] *= factor
            try:
                settle(model, trace, targets)
            except whyword.ProofError as error:
                yield error.wrong, f"block {block + 1}, attention, head {head + 1}: " in error.wrong
            else:
                yield f"block {block + 1}, head {head + 1} of {len(ids)} tokens: not noticed", False
            weights[:, head] = own


@pytest.mark.parametrize("dtype", HALF, ids=str)
@pytest.mark.parametrize("name", DISTINCT)
def test_an_error_in_one_head_is_noticed_in_half_precision(name: str, dtype: torch.dtype) -> None:
    model = whyword.load(build(name, dtype))
    found = [each for length in (2, 11, 40) for each in plant(model, prompt_of(length, length), 1.05)]
    assert len(found) > 15
    assert [wrong for wrong, noticed in found if not noticed] == []


@pytest.mark.parametrize("dtype", HALF, ids=str)
@pytest.mark.parametrize("name", ["llama", "gpt2", "granite", "mistral"])
def test_an_error_in_one_mlp_is_noticed_in_half_precision(name: str, dtype: torch.dtype) -> None:
    model = whyword.load(build(name, dtype))
    trace = record(model, [prompt_of(11)], Places((range(10, 11),)))
    targets = [Target(int(trace.logits[0].argmax()))]
    for block, output in enumerate(trace.decoder.sublayers[-1].output):
        own = output.clone()
        output *= 1.05
        with pytest.raises(whyword.ProofError, match=f"block {block + 1}: stream in"):
            settle(model, trace, targets)
        output.copy_(own)
    settle(model, trace, targets)


@pytest.mark.parametrize("dtype", HALF, ids=str)
@pytest.mark.parametrize("name", DISTINCT)
def test_rounding_in_half_precision_is_no_error(name: str, dtype: torch.dtype) -> None:
    """None of 288 prompts in each type; `make proof` tries 1,000 of every family.

    Prompts are explained in batches, and every head of each is proven. By flow, gradients and erasure, which
    take longer, a share of the prompts is explained; every run of those is compared with an untouched one.
    """
    network = build(name, dtype)
    model, comparing = whyword.load(network), whyword.load(network, verify="always")
    prompts = [prompt_of(1 + seed % 30, seed) for seed in range(PROMPTS)]
    for method in ("logit", "alti-logit"):
        assert len(list(whyword.explain_batch(model, prompts, foils="auto", method=method))) == PROMPTS
    for method, share in (("flow", 4), ("gradient-x-input", 4), ("erasure", 12)):
        some = prompts[share - 1 :: share]
        assert len(list(whyword.explain_batch(comparing, some, foils="auto", method=method))) == len(some) > 0


def test_a_model_that_sees_what_comes_after() -> None:
    with pytest.raises(whyword.ModelError) as caught:
        whyword.load(build("gemma3", torch.float64, use_bidirectional_attention=True))
    assert "Gemma3ForCausalLM is not causal: with other tokens after position " in caught.value.wrong
    assert "no position sees those after it" in caught.value.remedy


def test_a_mask_that_lets_the_future_in() -> None:
    def see_all(batch_size: int, kv_length: int, **_: Any) -> Tensor:
        return torch.ones(batch_size, 1, kv_length, kv_length).bool()  # no cache: as many rows as sources

    network = build("llama", torch.float64)
    AttentionMaskInterface.register("sdpa", see_all)
    try:
        with pytest.raises(whyword.ModelError, match="is not causal"):
            whyword.load(network)
    finally:
        AttentionMaskInterface.register("sdpa", sdpa_mask)
    whyword.load(network)


def require_one_by_one(model: whyword.Model, lengths: list[int], method: str = "logit") -> None:
    prompts = [prompt_of(length, length) for length in lengths]
    found = whyword.explain_batch(model, prompts, targets=5, foils=9, method=method)
    for prompt, together in zip(prompts, found, strict=True):
        alone = whyword.explain(model, prompt, target=5, foil=9, method=method)
        assert together.ledger.total == pytest.approx(alone.ledger.total, abs=1e-7)
        torch.testing.assert_close(together.by_head, alone.by_head, rtol=1e-5, atol=1e-7)
        torch.testing.assert_close(together.scores, alone.scores, rtol=1e-4, atol=1e-5)


def test_a_batch_on_both_sides_of_every_threshold(family: whyword.Model) -> None:
    most = family.most_tokens or 64
    near = {length for each in family.lengths.thresholds for length in (each - 1, each, each + 1)}
    lengths = sorted({length for length in near | {3, 4} if 1 <= length <= min(most, 64)})
    require_one_by_one(family, lengths)


@pytest.mark.parametrize("method", ["logit", "alti-logit", "erasure-deletion", "gradient-norm"])
def test_positions_that_change_with_the_length(method: str) -> None:
    model = whyword.load(build("phi3", torch.float64, **LONGROPE))
    assert 16 in model.lengths.thresholds
    require_one_by_one(model, [12, 15, 16, 17, 18, 20], method)


def test_a_continuation_over_a_threshold() -> None:
    model, ids = whyword.load(build("phi3", torch.float64, **LONGROPE)), prompt_of(20)
    found = whyword.explain_continuation(model, ids[:13], ids[13:])
    assert len(list(found)) == 7
    for place, explanation in enumerate(found):
        alone = whyword.explain(model, ids[: 13 + place], target=ids[13 + place])
        assert explanation.ledger.total == pytest.approx(alone.ledger.total, abs=1e-7)
        torch.testing.assert_close(explanation.by_block, alone.by_block, rtol=1e-4, atol=1e-5)


def test_thresholds_are_found_wherever_they_are() -> None:
    config = build("phi3", torch.float32, **LONGROPE).config
    assert {16, 64} <= set(find_thresholds(config))
    assert 5 in find_thresholds(build("mistral", torch.float32).config)
    assert 5 in find_thresholds(build("gpt-neo", torch.float32).config)
    assert 5 in find_thresholds(build("gemma3-multimodal", torch.float32).config.get_text_config())
    sizes = find_thresholds(build("qwen3-moe", torch.float32).config)
    assert not {32, 48, 97, 24} & set(sizes)  # widths of matrices


@pytest.mark.usefixtures("as_in_a_library")
def count_runs(model: whyword.Model, lengths: list[int]) -> list[int]:
    """Explain a prompt of each length; give how often the network ran."""
    runs: list[int] = []
    handle = model.network.register_forward_pre_hook(lambda *_: runs.append(1))
    counts = []
    try:
        whyword.explain(model, prompt_of(2), target=5)  # the hook is a change of the network, looked at once
        for length in lengths:
            before = len(runs)
            whyword.explain(model, prompt_of(length), target=5)
            counts.append(len(runs) - before)
    finally:
        handle.remove()
    return counts


def test_untouched_runs_are_made_once_for_a_kind_of_length() -> None:
    network = build("mistral", torch.float64)  # its window is 5
    lengths = [3, 4, 4, 6, 7, 40, 33, 45, 64, 3]
    assert count_runs(whyword.load(network), lengths) == [2, 1, 1, 2, 1, 2, 1, 1, 2, 1]
    assert count_runs(whyword.load(network, verify="always"), lengths) == [4] * 10
    assert count_runs(whyword.load(network, verify="load"), lengths) == [1] * 10
    with pytest.raises(whyword.InputError, match="verify is 'never'"):
        whyword.load(network, verify="never")


@pytest.mark.parametrize("verify", ["auto", "always"])
def test_a_module_that_knows_that_it_is_recorded(verify: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = whyword.load(build("llama", torch.float64), verify=verify)
    mlp = model.blocks[0].mlp
    original = mlp.forward

    def forward(stream: Tensor) -> Tensor:
        recorded = bool(mlp._forward_hooks) and stream.shape[1] > 20
        return original(stream) * (1.5 if recorded else 1.0)

    monkeypatch.setattr(mlp, "forward", forward)
    whyword.explain(model, prompt_of(9), target=5)
    with pytest.raises(whyword.ProofError, match="whole model: logits of the recorded run"):
        whyword.explain(model, prompt_of(40), target=5)


@pytest.mark.usefixtures("as_in_a_library")
def test_a_batch_that_padding_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A threshold that is in no config: the batch is compared with its prompts alone."""
    model = whyword.load(build("llama", torch.float64))
    mlp = model.blocks[0].mlp
    original = mlp.forward
    monkeypatch.setattr(mlp, "forward", lambda stream: original(stream) * (1 + (stream.shape[1] > 7)))
    whyword.explain(model, prompt_of(9), target=5)
    with pytest.raises(whyword.ProofError, match="whole model: logits of the recorded run"):
        list(whyword.explain_batch(model, [prompt_of(6), prompt_of(9)], targets=5))
