"""The doctor: what holds is shown with its errors, what does not is named with what to do."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn
from typer.testing import CliRunner

import whyword
from whyword.cli.application import application
from whyword.doctor import FLOW_IDENTITIES, IDENTITIES, LENGTHS, diagnose, open_to_diagnose
from whyword.maths.proof import Identity
from whyword.models import open_model
from whyword.models.catalogue import CATALOGUE
from whyword.models.testing.shrink import make_small, shrink
from whyword.models.testing.tiny_families import TRANSLATORS, build, find_present
from whyword.trace import block_tally

RUNNER = CliRunner()


PAGE = Path(__file__).parents[1] / "docs" / "families.md"


@pytest.mark.parametrize("name", ["bloom", "deepseek-v3", "gemma2", "gpt2", "marian", "t5"])
def test_every_identity_is_checked(name: str) -> None:
    found = diagnose(open_model(build(name, torch.float64)))
    assert found.proven, found.failure
    assert found.flow_failure is None
    assert tuple(found.errors) == LENGTHS
    all_, capped = {*IDENTITIES, *FLOW_IDENTITIES}, {Identity.CAP}
    assert all(all_ - set(errors) in (set(), capped) for errors in found.errors.values())
    assert 0 < found.largest <= 1e-9


def spoil(model: whyword.Model, **changes: Any) -> whyword.Model:
    """Change the description of the attention sub-layer."""
    stack = model.architecture.decoder
    wrong = replace(stack, sublayers=(replace(stack.sublayers[0], **changes), *stack.sublayers[1:]))
    return replace(model, architecture=replace(model.architecture, decoder=wrong))


def test_a_wrong_description_is_named_with_what_to_write() -> None:
    found = diagnose(spoil(open_model(build("gemma3", torch.float64)), norm_after=None))
    assert not found.proven
    assert found.failure is not None
    assert found.failure.startswith("1 token: block 1: stream in + all that was written = ")
    assert found.hint is not None
    assert "norm_after" in found.hint
    assert found.errors[1][Identity.STREAM] > 1e-3
    assert found.why == "it was given"


class _Cosine(nn.Module):
    def forward(self, inputs: Tensor) -> Tensor:
        return inputs * torch.cos(inputs)


def test_a_part_without_a_rule_is_refused_for_flow_only(monkeypatch: pytest.MonkeyPatch) -> None:
    network = build("llama", torch.float64)
    network.model.layers[1].mlp.act_fn = _Cosine()
    model = open_model(network)
    found = diagnose(model)
    assert found.proven
    assert found.flow_failure is not None
    assert "block 2: flow has no rule for the operation cos" in found.flow_failure
    assert all(not set(FLOW_IDENTITIES) & set(errors) for errors in found.errors.values())
    assert found.to_dict()["flow_failure"] == found.flow_failure
    monkeypatch.setattr("whyword.doctor.open_to_diagnose", lambda *_, **__: model)
    result = RUNNER.invoke(application, ["doctor", "a-model"])
    assert result.exit_code == 0
    text = re.sub(r"\s+", " ", result.output)
    assert "without flow: block 2: flow has no rule for the operation cos" in text
    assert "flow at all positions + bias = logit" in text


def test_flow_that_does_not_add_up_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    own = block_tally.BlockTally.add_bias
    monkeypatch.setattr(
        block_tally.BlockTally,
        "add_bias",
        lambda self, rows, amounts, what: own(self, rows, amounts * 2, what),
    )
    found = diagnose(open_model(build("gpt2", torch.float64)), lengths=(2,))
    assert found.flow_failure is not None
    assert "flow at all positions + bias = " in found.flow_failure


def test_a_missing_module_is_named() -> None:
    found = diagnose(spoil(open_model(build("llama", torch.float64)), output="self_attn.dense"))
    assert found.failure is not None
    assert "has no module 'self_attn.dense'; self_attn has q_proj, k_proj, v_proj, o_proj." in found.failure
    assert "llama" in found.fits


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the config of a model that is too large for this machine, and no weights."""
    path = tmp_path_factory.mktemp("large")
    transformers.LlamaConfig(
        hidden_size=8192,
        intermediate_size=28672,
        num_hidden_layers=80,
        num_attention_heads=64,
        num_key_value_heads=8,
        vocab_size=128256,
        max_position_embeddings=8192,
        bos_token_id=128000,
        eos_token_id=128001,
    ).save_pretrained(path)
    return path


def test_a_large_model_is_checked_by_its_config_alone(folder: Path) -> None:
    result = RUNNER.invoke(application, ["doctor", str(folder), "--random"])
    assert result.exit_code == 0, result.output
    text = re.sub(r"\s+", " ", result.output)
    assert f"{folder.name}: LlamaForCausalLM, model type llama" in text
    assert "3 blocks, float32, weights random, sizes shrunk" in text
    assert "described as llama: its model type has an entry" in text
    assert "sum of the ledger = logit" in text
    assert "proven: no error above 1e-04" in text


def test_json(folder: Path) -> None:
    result = RUNNER.invoke(application, ["doctor", str(folder), "--random", "--dtype", "float64", "--json"])
    document = json.loads(result.stdout)
    assert document["schema"] == "whyword.diagnosis/1"
    assert document["proven"] is True
    assert set(document["errors"]) == {str(length) for length in LENGTHS}
    assert document["errors"]["60"]["sum of the ledger"] <= 1e-9


def mask(table: str) -> list[str]:
    """Leave out what differs from machine to machine: errors, and the version of transformers."""
    lines = [re.sub(r" *\d+e-\d+ *", " # ", line).rstrip() for line in table.strip().splitlines()]
    return [re.sub(r"transformers \S+$", "transformers #", line) for line in lines]


def test_the_documents_show_the_table_of_all_families() -> None:
    result = RUNNER.invoke(application, ["doctor", "--all"], env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.output
    (shown,) = re.findall(
        r"^```text\n\$ whyword doctor --all\n(.*?)```", PAGE.read_text(), re.DOTALL | re.MULTILINE
    )
    assert mask(result.stdout) == mask(shown)
    assert all(float(error) <= 1e-9 for error in re.findall(r"\d+e-\d+", result.stdout))


def test_a_model_that_fails_gives_exit_code_1_and_what_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(CATALOGUE, "starcoder2")
    transformers.Starcoder2Config(
        hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=60000
    ).save_pretrained(tmp_path)
    result = RUNNER.invoke(application, ["doctor", str(tmp_path), "--random"])
    assert result.exit_code == 1, result.output
    text = re.sub(r"\s+", " ", result.output)
    assert "described as general: its model type has no entry" in text
    assert "not proven: 1 token: LayerNorm has no attribute 'variance_epsilon'" in text
    assert "write norm=Norm(centred=True) in the description" in text
    assert "Catalogued descriptions that fit: stablelm, olmo." in text


def test_all_goes_alone() -> None:
    result = RUNNER.invoke(application, ["doctor", "some-model", "--all"])
    assert result.exit_code == 2
    assert "--all was given with a model." in result.stderr


@pytest.mark.parametrize("name", [*find_present(), *TRANSLATORS])
def test_a_config_of_every_family_can_be_shrunk(name: str) -> None:
    config = build(name, torch.float32).config
    small = shrink(config)
    assert small.get_text_config().num_hidden_layers <= config.get_text_config().num_hidden_layers
    found = diagnose(open_model(make_small(config).double()), lengths=(12,))
    assert found.proven, found.failure


def test_the_default_model_by_name() -> None:
    model = open_to_diagnose(None, random=True)
    assert model.name == "smollm2-135m-instruct"
    assert len(model.blocks) == 3


@pytest.mark.parametrize("which", [["--random"], ["--all"]])
def test_an_unknown_type_of_numbers_is_refused_in_two_lines(folder: Path, which: list[str]) -> None:
    model = [] if which == ["--all"] else [str(folder)]
    result = RUNNER.invoke(application, ["doctor", *model, *which, "--dtype", "int7"])
    assert result.exit_code == 2
    assert "dtype is 'int7'." in result.stderr


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        ("Jamba", "Of 5 blocks of JambaForCausalLM, these have no attention: 1, 2, 3, 4."),
        ("Mamba", "A model of this config (mamba) has no attention: its blocks keep a state instead."),
        ("XLNet", "XLNetModel has no module 'layers'; it has word_embedding, layer, dropout."),
    ],
)
def test_a_random_model_that_cannot_be_explained(kind: str, wrong: str, tmp_path: Path) -> None:
    getattr(transformers, f"{kind}Config")().save_pretrained(tmp_path)
    result = RUNNER.invoke(application, ["doctor", str(tmp_path), "--random"])
    assert result.exit_code == 2
    said = result.stderr.strip().split("\n")
    assert said[0] == f"error: {wrong}"
    assert len(said) == 2
