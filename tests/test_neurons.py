"""Neurons: their updates add up to the ledger's entry of their MLP, whatever the MLP is made of."""

import copy
from dataclasses import replace
from typing import Any

import pytest
import torch

import whyword
from whyword.inside.neuron_names import lay_out_model, read_name
from whyword.ledger import Target, settle
from whyword.ledger.neuron_updates import NeuronEntries, push_forward, settle_neurons
from whyword.models import Experts, open_model
from whyword.models.catalogue import describe
from whyword.trace import Places, Plan, Trace, record
from whyword.trace.neuron_activations import read_neurons

from families import build, prompt_of

PROMPTS = [prompt_of(9), prompt_of(5, seed=1)]
TARGETS = [Target(7, (3, 5)), Target(11)]
MIXTURES = ("deepseek-v3", "gpt-oss", "mixtral", "qwen2-moe")


def record_neurons(model: whyword.Model, prompts: list[list[int]]) -> Trace:
    places = Places(tuple(range(len(ids) - 1, len(ids)) for ids in prompts))
    return record(model, prompts, places, Plan(neurons=True))


def settle_blocks(model: whyword.Model, trace: Trace) -> list[NeuronEntries]:
    return list(settle_neurons(model, trace, TARGETS[: len(list(trace.places))]))[::-1]


def require_sums(model: whyword.Model, tolerance: float) -> None:
    trace = record_neurons(model, PROMPTS)
    ledgers, blocks = settle(model, trace, TARGETS), settle_blocks(model, trace)
    for row, ledger in enumerate(ledgers):
        for entries, layout in zip(blocks, lay_out_model(model), strict=True):
            update, bias = entries.update[row].double(), float(entries.bias[row])
            size = float(update.abs().sum()) + abs(bias)
            assert size > 0
            found = float(update.sum()) + bias
            assert abs(found - float(ledger.mlp[entries.block])) <= tolerance * size
            assert update.shape[0] == layout.neurons


def test_updates_add_up_to_the_entry_of_the_mlp(family: whyword.Model) -> None:
    require_sums(family, 1e-9)
    require_sums(replace(family, network=copy.deepcopy(family.network).float()), 1e-4)


def test_what_a_neuron_adds_is_what_it_writes_carried_to_the_logit(distinct: whyword.Model) -> None:
    """The update by the direction pulled back, against its value vector pushed forward."""
    trace = record_neurons(distinct, PROMPTS[:1])
    (target,) = TARGETS[:1]
    for entries in settle_blocks(distinct, trace):
        values = torch.cat([group.values for group in entries.groups])
        logits = push_forward(distinct, trace, entries.block, values)
        contrast = logits[:, target.token] - logits[:, list(target.foils)].mean(1)
        gates = torch.cat([group.gate.expand(len(group.values)) for group in entries.groups])
        torch.testing.assert_close(entries.update[0], gates * entries.activation[0] * contrast)


@pytest.mark.parametrize("family", MIXTURES)
def test_gates_and_activations_of_experts(family: str) -> None:
    """Against a plain computation: two experts of four are chosen, and each is a gated MLP."""
    model = open_model(build(family, torch.float64))
    trace, block = record_neurons(model, PROMPTS), len(model.blocks) - 1
    groups = read_neurons(model, trace, block)
    (read,) = (part.read[block] for part in trace.decoder.sublayers if getattr(part, "read", None))
    mlp = model.blocks[block].mlp if family != "mixtral" else None
    module: Any = mlp or getattr(model.blocks[block], "mlp", None) or model.blocks[block].block_sparse_moe
    routed = [group for group in groups if group.expert != "shared"]
    chosen = torch.stack([group.gate != 0 for group in routed], dim=1)
    assert chosen.sum(1).tolist() == [2, 2]
    for index, group in enumerate(routed):
        expected = plain_activation(family, module.experts, index, read)
        torch.testing.assert_close(group.activation, expected * chosen[:, index, None])
    if family == "qwen2-moe":
        gate = torch.sigmoid(module.shared_expert_gate(read))[:, 0]
        torch.testing.assert_close(groups[-1].gate, gate)
        assert groups[-1].expert == "shared"


def plain_activation(family: str, experts: Any, index: int, read: torch.Tensor) -> torch.Tensor:
    silu = torch.nn.functional.silu
    if family == "gpt-oss":
        both = read @ experts.gate_up_proj[index] + experts.gate_up_proj_bias[index]
        gate, up = both[:, ::2].clamp(max=7.0), both[:, 1::2].clamp(-7.0, 7.0)
        return (up + 1) * gate * torch.sigmoid(1.702 * gate)
    if isinstance(experts, torch.nn.ModuleList):
        own: Any = experts[index]
        if family == "mixtral":
            return silu(own.w1(read)) * own.w3(read)
        return silu(own.gate_proj(read)) * own.up_proj(read)
    gate, up = (read @ experts.gate_up_proj[index].T).chunk(2, dim=1)
    return silu(gate) * up


def test_a_wrong_neuron_is_noticed(gpt2: whyword.Model) -> None:
    trace = record_neurons(gpt2, PROMPTS[:1])
    (written,) = (part for part in trace.decoder.sublayers if getattr(part, "read", None))
    written.read[1][0, 17] += 0.5
    with pytest.raises(whyword.ProofError, match="block 2, MLP: neurons \\+ bias = "):
        settle_blocks(gpt2, trace)


@pytest.mark.parametrize("family", ["gpt2", "gpt-oss", "opt-post-norm-projected"])
def test_neurons_of_one_prediction(family: str) -> None:
    model = open_model(build(family, torch.float64))
    found = whyword.neurons(model, prompt_of(9), target=7, foil=3, top=4)
    e = whyword.explain(model, prompt_of(9), target=7, foil=3, method="logit")
    assert max(block.error for block in found.blocks) <= 1e-6  # kept in float32
    torch.testing.assert_close(torch.tensor([block.mlp for block in found.blocks]), e.ledger.mlp.float())
    updates = torch.cat([block.update for block in found.blocks])
    raising = [neuron.update for neuron in found.named if neuron.update > 0]
    lowering = [neuron.update for neuron in found.named if neuron.update < 0]
    assert raising == updates.topk(4).values.tolist()
    assert lowering == (-(-updates).topk(4).values).tolist()
    for neuron in found.named:
        block = found.blocks[neuron.name.block]
        assert float(block.update[block.layout.place(neuron.name)]) == neuron.update
        assert read_name(neuron.name.label, [each.layout for each in found.blocks]) == neuron.name
        assert len(neuron.promotes) == len(neuron.suppresses) == 6
    last = found.named[-1]
    assert whyword.neurons(model, prompt_of(9), target=7, foil=3, names=[last.name.label]).named == (last,)
    document = found.to_dict()
    assert document["schema"] == "whyword.neurons/1"
    assert [each["label"] for each in document["named"]] == [each.name.label for each in found.named]
    total = sum(sum(block["update"]) + block["bias"] for block in document["blocks"])
    assert total == pytest.approx(sum(document["ledger"]["mlp"]), abs=1e-3)


def test_explaining_records_no_neurons(llama: whyword.Model) -> None:
    places = Places((range(8, 9),))
    trace = record(llama, [prompt_of(9)], places)
    assert [getattr(part, "read", None) for part in trace.decoder.sublayers] == [None, None]


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("383", "'383' is not the name of a neuron."),
        ("9.1", "There is no block 9."),
        ("2.48", "There is no neuron 2.48."),
        ("2.e0.4", "There is no neuron 2.e0.4."),
    ],
)
def test_names_that_are_refused(llama: whyword.Model, name: str, wrong: str) -> None:
    with pytest.raises(whyword.InputError) as caught:
        read_name(name, lay_out_model(llama))
    assert caught.value.wrong == wrong
    assert caught.value.remedy


def test_descriptions_that_do_not_fit() -> None:
    network = build("gpt-oss", torch.float64)
    architecture = describe(network.config)
    attention, mlp = architecture.decoder.sublayers

    def open_as(**changes: Any) -> whyword.Model:
        stack = replace(architecture.decoder, sublayers=(attention, replace(mlp, **changes)))
        return replace(open_model(network), architecture=replace(architecture, decoder=stack))

    with pytest.raises(whyword.ModelError, match=r"no parameter 'w2'; it has .*\nName it .*Experts\(weight"):
        whyword.neurons(open_as(experts=Experts(weight="w2")), [4, 5])
    with pytest.raises(whyword.ModelError, match=r"no module 'w9' that its neurons.*\nName it .*Mlp\(down"):
        whyword.neurons(open_as(down="w9", experts=Experts(module="none")), [4, 5])
