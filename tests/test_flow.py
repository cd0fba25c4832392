"""Flow adds up at every depth, is conserved at every node, and what is broken on purpose is caught."""

import gc
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import whyword
from frozen_blocks import FREEZERS, freeze_gpt2, freeze_marian
from whyword.attribute import flow
from whyword.errors import InputError, ModelError, ProofError
from whyword.ledger import Target
from whyword.ledger.direction import read_logits, unembedding_bias, unembedding_direction
from whyword.maths.proof import Identity, gather_errors
from whyword.models.open import open_model
from whyword.models.testing.tiny_families import build
from whyword.trace import (
    Places,
    Plan,
    block_tally,
    edges,
    frozen_run,
    hooks,
    intercepted_operation,
    record,
    recorder,
)
from whyword.trace.direct_attention import ReturnedWeights
from whyword.trace.frozen_gradients import Halve, ratio_of
from whyword.trace.frozen_run import FrozenRun
from whyword.trace.heap_holes import give_back_holes
from whyword.trace.memory_plan import Request, estimate, make_plan
from whyword.view.translation_depths import at_word, lay_out_translation_depths

IDS = [5, 17, 33, 8, 60, 71, 12, 9, 44, 23]
EXACT = 1e-9


def errors_of(run: Callable[[], Any]) -> dict[Identity, float]:
    with gather_errors() as errors:
        run()
    return {identity: errors[identity] for identity in (Identity.FLOW, Identity.EDGES)}


def explain(network: Any, **more: Any) -> whyword.Explanation:
    return whyword.explain(open_model(network), IDS, target=3, foil=4, method="flow", **more)


@pytest.mark.parametrize("family", ["bloom", "gemma3", "gpt-oss", "opt-post-norm-projected"])
def test_explanations_add_up_at_every_depth(family: str) -> None:
    """What is proven of every family is in test_doctor.py; this is what a user gets."""
    for dtype, tolerance in ((torch.float64, EXACT), (torch.float32, 1e-4)):
        explanation = explain(build(family, dtype))
        assert torch.allclose(
            explanation.flow.sum(1) + explanation.bias,
            torch.tensor(explanation.ledger.logit, dtype=torch.float64),
            atol=tolerance * float(explanation.flow.abs().sum(1).max()),
        )


@pytest.mark.parametrize("family", ["marian", "t5-v1.1", "nllb-moe"])
def test_a_translation_adds_up_at_every_depth_of_encoder_and_decoder(family: str, tmp_path: Any) -> None:
    model = open_model(build(family, torch.float64))
    translation = whyword.explain_translation(model, [*IDS[:6], 2], [17, 33, 8, 2], method="flow")
    flow = translation.flow
    logits = torch.tensor([ledger.logit for ledger in translation.ledgers], dtype=torch.float64)[:, None]
    decoder = flow.prefix.sum(2) + flow.read.sum(2) + flow.bias
    below = flow.prefix[:, 0].sum(1) + flow.bias[:, 0]
    encoder = flow.source.sum(2) + flow.encoder_bias + below[:, None]
    assert torch.allclose(decoder, logits.expand_as(decoder), atol=EXACT)
    assert torch.allclose(encoder, logits.expand_as(encoder), atol=EXACT)
    assert flow.prefix.shape[1] == len(model.blocks) + 1
    assert model.encoder_stack is not None
    assert flow.source.shape[1] == len(model.encoder_stack.blocks) + 1
    assert not flow.read[:, -1].any()  # no block above reads
    seen = len(translation.source)
    assert torch.allclose(translation.scores[:, :seen], flow.source[:, 1].float())  # a tenth of the blocks
    assert torch.allclose(translation.scores[:, seen:], flow.prefix[:, 0].float())
    translation.save(tmp_path / "translation.json")
    again = whyword.read(tmp_path / "translation.json")
    assert all(torch.equal(getattr(again.flow, name), getattr(flow, name)) for name in vars(flow))
    logit = whyword.explain_translation(model, IDS[:4], [17, 2], method="logit")
    with pytest.raises(InputError, match="The method logit has no flow"):
        _ = logit.flow


def test_a_translated_word_is_laid_out_by_depth(capsys: pytest.CaptureFixture[str]) -> None:
    model = open_model(build("marian", torch.float64))
    translation = whyword.explain_translation(model, [*IDS[:6], 0], [17, 33, 8, 0], foil=(44, 2))
    document, logits = translation.to_dict(), [ledger.logit for ledger in translation.ledgers]
    for word, logit in ((1, logits[0]), (4, logits[3]), (None, logits[1])):  # None: that with a foil
        grid = lay_out_translation_depths(at_word(document, word), top=9)
        assert [row.label for row in grid.rows] == [
            *(f"decoder {depth}" for depth in (3, 2, 1, 0)),
            *(f"encoder {depth}" for depth in (2, 1, 0)),
        ]
        assert [row.total for row in grid.rows] == pytest.approx([logit] * 7, abs=1e-4)
    assert grid.columns[-1] == "bias"
    translation.show(by="depth", word=3)
    shown = capsys.readouterr().out
    assert "encoder 1" in shown
    assert "decoder 3 after its last block" in " ".join(shown.split())
    with pytest.raises(InputError, match=r"word is 9\.\nThe translation has words 1 to 4"):
        at_word(document, 9)
    logit_alone = whyword.explain_translation(model, IDS[:4], [17, 0], method="logit").to_dict()
    with pytest.raises(InputError, match=r"The method logit has no flow\.\nMethods that have: flow"):
        lay_out_translation_depths(logit_alone)


@pytest.mark.parametrize("family", FREEZERS)
def test_flow_is_the_frozen_network_run_on_each_token_and_each_bias_alone(family: str) -> None:
    freeze, changes = FREEZERS[family]
    network = build(family, torch.float64, attn_implementation="eager", **changes)
    found, expected = explain(network), freeze(network, IDS, 3, 4)
    for depth in range(4):
        flow = [expected.flow(depth, position) for position in range(len(IDS))]
        assert found.flow[depth].tolist() == pytest.approx(flow, abs=EXACT)
        assert float(found.bias[depth]) == pytest.approx(expected.bias(depth), abs=EXACT)


def test_flow_of_a_translation_is_the_frozen_network_run_on_each_token_and_each_bias_alone() -> None:
    network = build("marian", torch.float64, attn_implementation="eager")
    source, target = [*IDS[:6], 0], [17, 33, 8]
    translation = whyword.explain_translation(open_model(network), source, target, method="flow")
    given = [network.config.decoder_start_token_id, *target[:-1]]
    expected, flow = freeze_marian(network, source, given, target[-1]), translation.flow
    for depth in range(4):
        prefix = [expected.flow(depth, position) for position in range(len(given))]
        read = [expected.read_source(depth, position) for position in range(len(source))]
        assert flow.prefix[-1, depth].tolist() == pytest.approx(prefix, abs=EXACT)
        assert flow.read[-1, depth].tolist() == pytest.approx(read, abs=EXACT)
        assert float(flow.bias[-1, depth]) == pytest.approx(expected.bias(depth), abs=EXACT)
    for depth in range(3):
        below = [expected.flow_from_source(depth, position) for position in range(len(source))]
        assert flow.source[-1, depth].tolist() == pytest.approx(below, abs=EXACT)
        assert float(flow.encoder_bias[-1, depth]) == pytest.approx(expected.source_bias(depth), abs=EXACT)


@pytest.mark.parametrize("activation", ["gelu", "relu", "relu2", "tanh", "sigmoid", "quick_gelu", "laplace"])
def test_an_activation_is_so_many_times_its_input_and_what_it_gives_for_zero(activation: str) -> None:
    network = build("gpt2", torch.float64, activation_function=activation, attn_implementation="eager")
    found, expected = explain(network), freeze_gpt2(network, IDS, 3, 4)
    assert float(found.bias[0]) == pytest.approx(expected.bias(0), abs=EXACT)
    assert float(found.flow[0, 2]) == pytest.approx(expected.flow(0, 2), abs=EXACT)


def test_at_zero_the_ratio_is_the_slope() -> None:
    inputs = torch.tensor([0.0, 1.0, -2.0], dtype=torch.float64)
    silu = nn.functional.silu
    ratio = ratio_of(inputs, silu(inputs), silu(torch.zeros((), dtype=torch.float64)), silu)
    assert torch.allclose(ratio, torch.sigmoid(inputs))


def test_the_same_with_every_implementation_of_attention() -> None:
    eager, fast = (
        explain(build("llama", torch.float64, attn_implementation=name)) for name in ("eager", "sdpa")
    )
    assert torch.allclose(eager.flow, fast.flow)
    assert [(route.block, route.head) for route in eager.routes()] == [
        (route.block, route.head) for route in fast.routes()
    ]


def test_all_is_at_the_explained_position_at_the_top() -> None:
    explanation = explain(build("gpt2", torch.float64))
    assert not explanation.flow[-1, :-1].any()
    assert torch.equal(explanation.scores, explanation.flow[1].float())  # ⌈3 / 10⌉


def test_an_edge_is_what_a_head_writes_times_the_direction_there() -> None:
    """In the last block of a model without biases that is the ledger's own entry, but for the MLP above."""
    network = build("llama", torch.float64)
    with torch.no_grad():
        network.model.layers[-1].mlp.down_proj.weight.zero_()
        network.model.layers[-1].mlp.down_proj.bias.zero_()
    explanation = explain(network)
    for route in (route for route in explanation.routes(256) if route.block == 2):
        assert route.destination == len(IDS) - 1
        entry = explanation.ledger.by_head[2, route.head, route.source]
        assert route.amount == pytest.approx(float(entry), abs=1e-9)


def test_a_sum_of_positions_goes_down_at_once() -> None:
    model = open_model(build("llama", torch.float64))
    targets = [Target(3, (4,)), Target(7), Target(11, (12,))]
    trace = record(model, [IDS], Places((range(7, 10),)), Plan(frozen=True))
    assert trace.frozen is not None
    directions = unembedding_direction(model, targets)
    together = trace.frozen.descend(directions, again=True).decoder
    apart = [
        trace.frozen.descend(torch.diag(one).to(directions) @ directions, again=True).decoder
        for one in torch.eye(3, dtype=torch.float64)
    ]
    assert torch.allclose(together.flow, torch.stack([each.flow for each in apart]).sum(0))
    logit = (read_logits(trace.uncapped, targets) - unembedding_bias(model, targets)).sum()
    assert torch.allclose(together.flow[0].sum() + together.biases.sum(), logit)


@pytest.mark.parametrize("family", ["bloom", "gpt2", "gpt-oss", "mixtral", "deepseek-v3"])
def test_a_batch_gives_what_each_prompt_gives(family: str) -> None:
    model = open_model(build(family, torch.float64))
    prompts = [IDS[:3], IDS[2:9], IDS[4:6]]
    batch = whyword.explain_batch(
        model, prompts, targets=[3, 3, 3], foils=[4, 4, 4], method="flow", batch_size=3
    )
    for found, prompt in zip(batch, prompts, strict=True):
        alone = whyword.explain(model, prompt, target=3, foil=4, method="flow")
        assert torch.allclose(found.flow, alone.flow, atol=EXACT)
        assert torch.allclose(found.bias, alone.bias, atol=EXACT)
        assert found.routes(1)[0].source == alone.routes(1)[0].source


def test_one_token_is_enough() -> None:
    model = open_model(build("gpt2", torch.float64))
    explanation = whyword.explain(model, IDS[:1], method="flow")
    assert torch.allclose(
        explanation.flow[:, 0] + explanation.bias, torch.tensor(explanation.ledger.logit).double()
    )


def test_a_document_keeps_flow(tmp_path: Any) -> None:
    explanation = explain(build("gpt2", torch.float64))
    explanation.save(tmp_path / "flow.json")
    (again,) = [whyword.read(tmp_path / "flow.json")]
    assert torch.equal(again.flow, explanation.flow)
    assert torch.equal(again.bias, explanation.bias)
    assert again.routes() == explanation.routes()


@pytest.mark.parametrize("depth", [-1, 4])
def test_a_depth_must_be_one_of_the_model(depth: int) -> None:
    with pytest.raises(InputError) as error:
        explain(build("gpt2", torch.float32), depth=depth)
    assert error.value.remedy.startswith("Give 0 (before block 1) to 3 (after the last block")


def test_methods_without_flow_say_which_have_it() -> None:
    model = open_model(build("gpt2", torch.float32))
    with pytest.raises(InputError, match="The method logit has no flow"):
        _ = whyword.explain(model, IDS, method="logit").flow
    with pytest.raises(InputError, match="has no flow"):
        whyword.explain(model, IDS, method="logit").routes()
    with pytest.raises(InputError, match="logit has no depth"):
        whyword.explain(model, IDS, method="logit", depth=1)


def test_the_network_is_left_as_it_was() -> None:
    network = build("llama", torch.float32).train()
    with torch.inference_mode():
        explain(network)
    assert all(parameter.requires_grad and parameter.grad is None for parameter in network.parameters())
    assert all(not module._forward_hooks and not module._forward_pre_hooks for module in network.modules())
    assert network.training


@pytest.mark.parametrize("family", ["bloom", "gpt2", "llama", "mixtral", "marian"])
def test_a_run_is_freed_with_its_trace(family: str) -> None:
    """By counting references alone: activations are too large to wait for the garbage collector."""
    model = open_model(build(family, torch.float32))
    directions, source = unembedding_direction(model, [Target(3)]), None
    if model.encoder_stack is not None:
        source = [IDS[:4]]
    gc.disable()
    try:
        trace = record(model, [IDS[:5]], Places((range(4, 5),)), Plan(frozen=True), source)
        assert isinstance(trace.frozen, FrozenRun)
        trace.frozen.descend(directions, again=True)
        stream = weakref.ref(trace.frozen._stacks[False].entered[0])
        del trace
        assert stream() is None
    finally:
        gc.enable()


class _Cosine(nn.Module):
    def forward(self, inputs: Tensor) -> Tensor:
        return inputs * torch.cos(inputs)


def test_an_operation_without_a_rule_is_refused_by_name_for_flow_only() -> None:
    network = build("llama", torch.float64)
    network.model.layers[1].mlp.act_fn = _Cosine()
    with pytest.raises(ModelError, match="block 2: flow has no rule for the operation cos"):
        explain(network)
    whyword.explain(open_model(network), IDS, method="logit")


def _cut_edge(moved: Any) -> Any:
    if moved.strongest.amount.shape[1] == 0:
        return moved
    incoming = moved.incoming.clone()
    incoming[0, int(moved.strongest.target[0, 0])] -= moved.strongest.amount[0, 0]
    return replace(moved, incoming=incoming)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_ratio_that_is_wrong_by_a_hundredth_is_caught(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    from whyword.trace import frozen_rules

    monkeypatch.setattr(frozen_rules, "ratio_of", lambda *given: ratio_of(*given) * 1.01)
    with pytest.raises(ProofError, match="flow at all positions"):
        explain(build("llama", dtype))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_gate_that_is_wrong_by_a_hundredth_in_one_block_is_caught(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, passed = Halve.backward, []

    def wrong(context: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        passed.append(True)
        one, two = own(context, *gradients)
        return (one * 1.01, two) if len(passed) % 3 == 2 else (one, two)  # of three blocks

    monkeypatch.setattr(Halve, "backward", staticmethod(wrong))
    with pytest.raises(ProofError, match="depth 0: flow at all positions"):
        explain(build("llama", dtype))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_bias_that_is_counted_twice_is_caught(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    own = block_tally.BlockTally.add_bias

    def twice(self: Any, rows: Any, amounts: Tensor, what: str) -> None:
        own(self, rows, amounts * 2 if what == "block 2: the operation linear" else amounts, what)

    monkeypatch.setattr(block_tally.BlockTally, "add_bias", twice)
    with pytest.raises(ProofError, match="depth 0: flow at all positions"):
        explain(build("llama", dtype))


def test_a_bias_that_is_not_counted_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    from whyword.trace import frozen_rules

    monkeypatch.setattr(frozen_rules, "count_constant", lambda operation, result, constant: result)
    with pytest.raises(ProofError, match="flow at all positions"):
        explain(build("gpt2", torch.float64))
    assert intercepted_operation.count_constant is not frozen_rules.count_constant


@pytest.mark.parametrize("place", [0, 20, 39])
def test_the_strongest_edges_are_found_wherever_they_are(place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks in which no edge is stronger than those found before are passed over."""
    monkeypatch.setattr(edges, "ROWS", 8)
    monkeypatch.setattr(edges, "STRONGEST", 16)
    torch.manual_seed(place)
    weights = torch.rand(2, 4, 40, 40, dtype=torch.float64).tril().softmax(-1).tril()
    values, gradient = torch.randn(2, 2, 4, 40, 8, dtype=torch.float64)
    gradient[:, :, place] *= 100
    none = torch.full((2,), -1, dtype=torch.float64)
    _, moved = edges.move(ReturnedWeights(values, weights), gradient, True, none)
    every = weights * (gradient @ values.transpose(2, 3))
    for example, all_of_them in enumerate(every):
        expected = all_of_them.flatten().abs().topk(16)
        found = moved.strongest
        assert torch.allclose(found.amount[example].abs(), expected.values)
        at = found.head[example], found.target[example], found.source[example]
        assert torch.allclose(all_of_them[at], found.amount[example])


@pytest.mark.parametrize("family", ["gpt2", "llama", "bloom"])
def test_the_strongest_edges_are_those_of_all_blocks(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks further down keep only edges that are stronger than those found above."""
    model, prompts = open_model(build(family, torch.float64)), [IDS, IDS[::-1]]
    every = [each.routes(10_000) for each in whyword.explain_batch(model, prompts, targets=3, foils=4)]
    for module in (edges, block_tally, flow):
        monkeypatch.setattr(module, "STRONGEST", 12)
    found = [each.routes(10_000) for each in whyword.explain_batch(model, prompts, targets=3, foils=4)]
    assert [len(each) for each in found] == [12, 12]
    assert found == [each[:12] for each in every]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_an_edge_that_is_missing_is_caught(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    own = block_tally.move

    def cut(*given: Any) -> Any:
        pulled, moved = own(*given)
        return pulled, _cut_edge(moved)

    monkeypatch.setattr(block_tally, "move", cut)
    with pytest.raises(ProofError, match="block 1: flow below"):
        explain(build("llama", dtype))


@pytest.mark.parametrize("family", ["bloom", "gpt2", "llama", "mixtral"])
def test_blocks_that_are_computed_again_give_the_same(family: str) -> None:
    model = open_model(build(family, torch.float64))
    directions = unembedding_direction(model, [Target(3, (4,))])
    kept, again = (
        record(model, [IDS], Places((range(9, 10),)), Plan(frozen=True, recomputed_blocks=blocks)).frozen
        for blocks in (0, 3)
    )
    assert kept is not None
    assert again is not None
    one, two = kept.descend(directions).decoder, again.descend(directions).decoder
    assert torch.allclose(one.flow, two.flow, atol=EXACT)
    assert torch.allclose(one.biases, two.biases, atol=EXACT)
    assert torch.allclose(one.moved[0].incoming, two.moved[0].incoming, atol=EXACT)


def test_less_memory_means_blocks_computed_again() -> None:
    model = open_model(build("gpt2", torch.float32))
    request, whole = Request(1, 60), Plan(frozen=True)
    needed = [estimate(model, request, Plan(frozen=True, recomputed_blocks=blocks)) for blocks in (0, 3)]
    assert needed[1] < needed[0]
    assert make_plan(model, request, whole, needed[0]).recomputed_blocks == 0
    assert make_plan(model, request, whole, needed[1]).recomputed_blocks > 0
    with pytest.raises(InputError, match="max_memory"):
        make_plan(model, request, whole, needed[1] // 2)


def test_words_that_are_nearly_tied_are_not_taken_for_an_error() -> None:
    """Their difference is small, the products that it is the sum of are not, and rounding goes by these."""
    network = build("llama", torch.float32)
    with torch.no_grad():
        rows = network.get_output_embeddings().weight
        rows.mul_(30)
        rows[4] = rows[3]
        rows[4, 0] += 1e-4
    found = explain(network)
    assert abs(found.ledger.logit) < 1e-2
    assert max(errors_of(lambda: explain(network)).values()) < 1e-4


def test_long_prompts_hold_values_once_and_give_back_holes(monkeypatch: pytest.MonkeyPatch) -> None:
    network, given_back = build("llama", torch.float64), []
    expected = explain(network)
    for module in (frozen_run, recorder):
        monkeypatch.setattr(module, "LARGE", 1)
    monkeypatch.setattr(frozen_run, "give_back_holes", lambda: given_back.append(True))
    found = explain(network)
    assert given_back
    assert torch.equal(found.flow, expected.flow)
    assert torch.equal(found.ledger.by_head, expected.ledger.by_head)


def test_holes_are_given_back_where_the_c_library_can() -> None:
    give_back_holes()


class Spread(nn.Module):
    """Not a function of every element alone."""

    def forward(self, given: Tensor) -> Tensor:
        return given + given.mean(-1, keepdim=True)


def test_a_module_that_mixes_elements_is_followed_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    network = build("gpt2", torch.float64)
    for block in network.transformer.h:
        block.mlp.act = Spread()
    expected = explain(network).flow
    monkeypatch.setattr(hooks, "_ACTIVATIONS", Spread.__module__)
    assert torch.allclose(explain(network).flow, expected, atol=1e-12)


class Detached(nn.Module):
    """A branch whose gradient its author has cut."""

    def __init__(self, inside: nn.Module) -> None:
        super().__init__()
        self.inside = inside

    def forward(self, inputs: Tensor) -> Tensor:
        return self.inside(inputs.detach())


class Unseen(nn.Module):
    """A projection that torch does not see, as kernels of other libraries."""

    def __init__(self, inside: nn.Module) -> None:
        super().__init__()
        self.matrix = inside.weight.detach().numpy()

    def forward(self, inputs: Tensor) -> Tensor:
        return torch.from_numpy(inputs.detach().numpy() @ self.matrix.T)


class Hyperbolic(nn.Module):
    """An activation without a ratio that flow knows: tanh may also be a gate."""

    def __init__(self, inside: nn.Module) -> None:
        super().__init__()
        self.inside = inside

    def forward(self, inputs: Tensor) -> Tensor:
        return self.inside.down_proj(torch.tanh(self.inside.up_proj(inputs)))


@pytest.mark.parametrize(
    ("part", "replacement"),
    [("mlp", Detached), ("mlp", Hyperbolic), ("mlp.down_proj", Unseen), ("self_attn.v_proj", Detached)],
)
def test_a_branch_that_cannot_be_followed_is_no_bias(part: str, replacement: type[nn.Module]) -> None:
    """Every sum would hold: what depends on the prompt must not be counted as what does not."""
    network = build("llama", torch.float64)
    block = network.model.layers[1]
    block.set_submodule(part, replacement(block.get_submodule(part)))
    with pytest.raises(ModelError, match=r"block 2: the operation .* adds something that depends"):
        explain(network)
