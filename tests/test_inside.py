"""Inside the network over a dataset: means by group, runs that go on, examples, ablation."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

import whyword
from whyword.data import Dataset, Example, read_datasets
from whyword.inside import survey as surveying
from whyword.inside.ablation import ablate
from whyword.inside.split import Split, read_split
from whyword.inside.survey import Survey, survey
from whyword.inside.tally import read_tally
from whyword.inside.top_examples import find_answers
from whyword.runs.progress import listen
from whyword.runs.single_writer import write_folder_alone

import toy_tokenizers
from families import build, other_weights

PREFIXES = (
    "A report about this",
    "The reports about those",
    "She said that",
    "He has seen these and this",
    "They have",
    "The painter has gone",
    "what they have not seen",
)


def make_dataset() -> Dataset:
    pairs = [("has", "have"), ("been", "the")]
    examples = tuple(
        Example("toy", row, prefix, *pairs[row % 2], columns={"kind": "even" if row % 2 == 0 else "odd"})
        for row, prefix in enumerate([*PREFIXES, PREFIXES[2], PREFIXES[0]])
    )
    same = Example("toy", 9, "A report", "has", "has", columns={"kind": "odd"})
    return Dataset("toy", "toy", "toy", "subject", (*examples, same), (), "0" * 64, "here")


def make_model(family: str = "llama") -> whyword.Model:
    tokenizer = toy_tokenizers.make("byte-level")
    return whyword.load(
        build(family, torch.float32, vocab_size=len(tokenizer)), tokenizer=tokenizer, start="tokenizer"
    )


@pytest.fixture(scope="module")
def model() -> whyword.Model:
    return make_model()


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three examples between two checkpoints."""
    monkeypatch.setattr(surveying, "_WINDOW", 3)


def usable() -> list[Example]:
    return [example for example in make_dataset().examples if example.target != example.foil]


def test_means_are_those_of_one_prediction_after_the_other(model: whyword.Model) -> None:
    found = survey(model, [make_dataset()], split=read_split("kind"))
    assert found.groups == ["even", "odd"]
    for group in found.groups:
        own = [example for example in usable() if example.columns["kind"] == group]
        single = [whyword.neurons(model, e.prefix, target=e.target, foil=e.foil, top=1) for e in own]
        assert found.tally.groups[group].count == len(own)
        for block in range(3):
            updates = torch.stack([each.blocks[block].update for each in single]).double()
            torch.testing.assert_close(found.mean(group, block), updates.mean(0), atol=1e-5, rtol=1e-4)
            spread = updates.std(0, correction=0)
            torch.testing.assert_close(found.deviation(group, block), spread, atol=2e-3, rtol=1e-2)
    assert sum(found.tally.skipped.values()) == 1
    assert "are the same tokens" in next(iter(found.tally.skipped))


def test_heads_are_those_of_one_explanation_after_the_other(model: whyword.Model) -> None:
    found = survey(model, [make_dataset()], part="heads")
    single = [
        whyword.explain(model, e.prefix, target=e.target, foil=e.foil, method="logit").by_head.sum(2)
        for e in usable()
    ]
    expected = torch.stack(single).mean(0).double()
    actual = torch.stack([found.mean("all", block) for block in range(3)])
    torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-4)
    document = found.to_dict(top=2)
    best = int(expected.abs().argmax())
    assert document["ranked"][0]["label"] == f"{best // 4 + 1}.{best % 4 + 1}"
    assert document["examples"] == 9


def test_ranked_by_how_much_groups_differ(model: whyword.Model) -> None:
    found = survey(model, [make_dataset()], split=read_split("this,that|these,those"))
    assert found.groups == ["this,that", "these,those", "other"]
    difference = torch.cat(
        [(found.mean("this,that", block) - found.mean("these,those", block)).abs() for block in range(3)]
    )
    best = int(difference.argmax())
    ranked = found.to_dict(top=3)["ranked"]
    assert ranked[0]["label"] == f"{best // 48 + 1}.{best % 48}"
    assert len(ranked) == 3


def test_a_run_that_was_killed_goes_on(windows: None, model: whyword.Model, tmp_path: Path) -> None:
    script = f"""
import os, sys
sys.path[:0] = [{str(Path(__file__).parent)!r}]
import whyword.inside.survey as surveying
from test_inside import make_dataset, make_model
from whyword.inside.tally import Tally
surveying._WINDOW, save, saved = 3, Tally.save, []
def save_and_die(self, path):
    save(self, path)
    saved.append(self.done)
    if len(saved) == 2:
        (path.parent / ".neurons.safetensors.1").write_bytes(b"half a fi")  # what a kill may leave
        os._exit(9)
Tally.save = save_and_die
surveying.survey(make_model(), [make_dataset()], folder={str(tmp_path / "run")!r})
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=os.environ)
    assert done.returncode == 9, done.stderr
    seen: list[int] = []
    with listen(lambda what, count, total: seen.append(count) if what == "examples" else None):
        resumed = survey(model, [make_dataset()], folder=tmp_path / "run")
    assert min(seen) > 6  # the first six were not looked at again
    whole = survey(model, [make_dataset()], folder=tmp_path / "other")
    assert_equal(resumed, whole)


def assert_equal(one: Survey, two: Survey) -> None:
    assert one.to_dict() == two.to_dict()
    for name, group in one.tally.groups.items():
        for kind in ("update", "square", "activation"):
            for mine, yours in zip(getattr(group, kind), getattr(two.tally.groups[name], kind), strict=True):
                assert torch.equal(mine, yours)


def test_what_is_kept_does_not_grow(windows: None, model: whyword.Model, tmp_path: Path) -> None:
    sizes = []
    for limit in (3, 9):
        survey(model, [make_dataset()], folder=tmp_path / str(limit), limit=limit)
        sizes.append((tmp_path / str(limit) / "neurons.safetensors").stat().st_size)
    assert abs(sizes[0] - sizes[1]) < 64


def test_a_folder_of_another_run_is_refused(model: whyword.Model, tmp_path: Path) -> None:
    survey(model, [make_dataset()], part="heads", folder=tmp_path, limit=2)
    with pytest.raises(whyword.InputError) as caught:
        survey(model, [make_dataset()], part="heads", folder=tmp_path, limit=3)
    assert caught.value.wrong == f"{tmp_path} holds a run with other settings: limit is 2 there, 3 here."
    assert caught.value.remedy == "Write somewhere else, or delete it: runs are not mixed."
    with (
        other_weights(model.network),
        pytest.raises(whyword.InputError, match="holds a run with other settings: weights is"),
    ):
        survey(model, [make_dataset()], part="heads", folder=tmp_path, limit=2)
    with (
        write_folder_alone(tmp_path),
        pytest.raises(whyword.InputError, match=r"is being written by process \d+ on"),
    ):
        survey(model, [make_dataset()], part="heads", folder=tmp_path, limit=2)
    save_file({"x": torch.zeros(1)}, tmp_path / "neurons.safetensors", metadata={"whyword": "{}"})
    with pytest.raises(whyword.InputError, match="is damaged"):
        read_tally(tmp_path / "neurons.safetensors", {}, (1,))
    (tmp_path / "neurons.safetensors").write_bytes(b"not one")
    with pytest.raises(whyword.InputError, match="is damaged"):
        read_tally(tmp_path / "neurons.safetensors", {}, (1,))


def test_nothing_to_survey(model: whyword.Model) -> None:
    dataset = make_dataset()
    only = Dataset("toy", "toy", "toy", "subject", dataset.examples[-1:], (), "1", "here")
    with pytest.raises(whyword.InputError, match=r"No example could be used: .* the same tokens"):
        survey(model, [only])


def example(prefix: str, **columns: str) -> Example:
    return Example("toy", 0, prefix, "a", "b", columns=columns)


@pytest.mark.parametrize(
    ("prefix", "group"),
    [
        ("Craig saw this", "this,that"),
        ("Those of this kind saw these", "these,those"),
        ("THAT one", "this,that"),
        ("thistle", "other"),
        ("", "other"),
    ],
)
def test_the_last_word_decides(prefix: str, group: str) -> None:
    assert read_split("this, that|these,those").name(example(prefix)) == group


def test_splits_that_are_refused() -> None:
    with pytest.raises(whyword.InputError, match=r"has a group without words\.\nWrite this,that"):
        read_split("this|")
    with pytest.raises(whyword.InputError, match=r"toy has no column 'size'\.\nIt has kind"):
        read_split("size").name(example("", kind="odd"))
    with pytest.raises(whyword.InputError, match="more than 12 values"):
        Split(column="row").require_few([str(number) for number in range(13)])


def test_inputs_that_a_neuron_answers_to(model: whyword.Model) -> None:
    found = find_answers(model, [make_dataset()], "2.17", top=3)
    activations = {
        example.row: float(
            whyword.neurons(model, example.prefix, target=example.target, foil=example.foil, top=1)
            .blocks[1]
            .activation[17]
        )
        for example in usable()
    }
    ranked = sorted(activations.values(), reverse=True)
    assert [each.activation for each in found.highest] == pytest.approx(ranked[:3], abs=1e-5)
    assert [each.activation for each in found.lowest] == pytest.approx(ranked[::-1][:3], abs=1e-5)
    assert [activations[each.row] for each in found.lowest] == pytest.approx(ranked[::-1][:3], abs=1e-5)
    assert found.examples == 9


@pytest.mark.parametrize(("family", "path"), [("llama", "mlp.down_proj"), ("opt", "fc2")])
def test_ablation_sets_one_neuron_at_one_position(family: str, path: str) -> None:
    model = make_model(family)
    found = ablate(model, [make_dataset()], "2.17", split=read_split("kind"))
    single = {
        each.row: whyword.neurons(model, each.prefix, target=each.target, foil=each.foil, top=1)
        for each in usable()
    }
    averaged = [single[row].blocks[1].activation[17] for row in (0, 1, 4, 5, 8)]
    assert found.mean == pytest.approx(float(torch.stack(averaged).mean()), abs=1e-5)
    changes = []
    for row in (2, 3, 6, 7):
        explanation = single[row].explanation
        down = model.blocks[1].get_submodule(path)

        def change(_module: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
            read = args[0].clone()
            (read[-1] if read.ndim == 2 else read[0, -1])[17] = found.mean
            return (read,)

        handle = down.register_forward_pre_hook(change)
        with torch.no_grad():
            logits = model.network(torch.tensor([explanation.tokens.ids])).logits[0, -1]
        handle.remove()
        assert explanation.foil is not None
        changes.append(
            float(logits[explanation.target.id] - logits[explanation.foil.id]) - explanation.ledger.logit
        )
    everything, *groups = found.effects
    assert everything.measured == pytest.approx(sum(changes) / 4, abs=1e-5)
    assert [effect.group for effect in groups] == ["even", "odd"]
    assert [effect.examples for effect in found.effects] == [4, 2, 2]
    updates = [float(single[row].blocks[1].update[17]) for row in (2, 3, 6, 7)]
    assert everything.update == pytest.approx(sum(updates) / 4, abs=1e-5)
    assert not down._forward_pre_hooks


def test_neurons_of_experts_are_not_ablated() -> None:
    model = make_model("gpt-oss")
    with pytest.raises(whyword.InputError, match=r"2\.e1\.3 is a neuron of an expert"):
        ablate(model, [make_dataset()], "2.e1.3")
    assert find_answers(model, [make_dataset()], "2.e1.3", top=1, limit=2).examples == 2


@pytest.mark.parametrize("path", ["mlp.down_proj", "mlp"])
def test_neurons_that_blocks_share_are_not_ablated(path: str) -> None:
    """What sets them in one block sets them in all."""
    model = make_model()
    parent, _, name = path.rpartition(".")
    setattr(model.blocks[0].get_submodule(parent), name, model.blocks[1].get_submodule(path))
    with pytest.raises(
        whyword.ModelError, match=r"^Blocks 1 and 2 of .* share mlp\.down_proj, .* 2\.17 .*\nGive "
    ):
        ablate(model, [make_dataset()], "2.17")
    if path != "mlp":  # where all of it is shared, nothing is explained
        assert ablate(model, [make_dataset()], "3.17").effects


@pytest.mark.real
def test_a_neuron_of_the_determiner_matters(smollm: whyword.Model) -> None:
    """Found on some pairs of the built-in suite, it moves the difference as predicted on others."""
    (dataset,) = read_datasets(["builtin-dna"])
    split = read_split("this,that|these,those")
    smollm = replace(smollm, start="none")
    found = survey(smollm, [dataset], split=split, limit=24).to_dict(top=10)
    carrying = [each for each in found["ranked"] if min(each["mean"].values()) > -0.05]
    held_out = Dataset(
        dataset.name, dataset.title, dataset.group, dataset.phenomenon, dataset.examples[24:56], (), "", ""
    )
    effect = ablate(smollm, [held_out], carrying[0]["label"]).effects[0]
    assert abs(effect.measured) > 0.05
    assert effect.measured * effect.predicted > 0
    assert effect.agreement > 0.8


@pytest.mark.real
def test_heads_that_move_a_name(smollm: whyword.Model) -> None:
    found = survey(
        replace(smollm, start="none"), read_datasets(["builtin-ioi"]), part="heads", limit=12
    ).to_dict(top=4)
    assert [each["label"] for each in found["ranked"][:2]] == ["24.4", "30.2"]
    assert found["ranked"][0]["mean"]["all"] > 1.5
    json.dumps(found, allow_nan=False)
