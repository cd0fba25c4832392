"""The sweep over model types: what is explained, what is refused and why, what is wrong is noticed."""

import json
from dataclasses import replace
from typing import Any

import pytest
import torch
import transformers
from typer.testing import CliRunner

import whyword
from whyword.cli.application import application
from whyword.models.catalogue import CATALOGUE
from whyword.models.testing.random_configs import build_type, list_types, make_config
from whyword.models.testing.tiny_families import FAMILIES, TRANSLATORS
from whyword.sweep import one_type
from whyword.sweep.all_types import sweep_types
from whyword.sweep.one_type import check_type
from whyword.sweep.plain_heads import recompute_heads

from families import prompt_of

RUNNER = CliRunner()
TYPES = list_types()
OWN_CONFIGS = {
    getattr(transformers, f"{kind}Config").model_type
    for kind, _ in {**FAMILIES, **TRANSLATORS}.values()
    if hasattr(transformers, f"{kind}Config")
}


def need(model_type: str) -> str:
    if model_type not in TYPES:
        pytest.skip(f"transformers {transformers.__version__} has no {model_type}")
    return model_type


@pytest.mark.parametrize(
    "model_type", sorted((set(CATALOGUE) & set(TYPES)) - OWN_CONFIGS | {"bart", "mbart"})
)
def test_every_catalogued_type_is_proven(model_type: str) -> None:
    """Those without a small config of their own, which are tested far more."""
    model = whyword.load(build_type(model_type))
    assert model.architecture in CATALOGUE[model_type]


@pytest.mark.parametrize("model_type", ["gpt2", "bart"])
def test_a_type_that_is_explained(model_type: str) -> None:
    found = check_type(model_type, seeds=2)
    assert (found.outcome, found.reason, found.refused) == ("explained", None, {})
    assert found.networks + found.declined == 2
    assert {2, 12, 40} <= set(found.lengths)
    assert 0 < found.largest < 1e-4


@pytest.mark.parametrize(
    ("model_type", "reason"),
    [
        ("mamba", "has no attention: its blocks keep a state instead"),
        ("jamba", "Of 4 blocks of JambaForCausalLM, these have no attention: 1, 3."),
        ("musicgen", "The unembedding of MusicgenForCausalLM (ModuleList) is not one matrix."),
        ("xlnet", "XLNetModel has no module 'layers'"),
        ("gemma3n_text", "has several residual streams: its blocks read [2, 1, 12, 32] numbers instead of"),
        ("hy_v4", "has several residual streams: its blocks read [1, 12, 4, 32] numbers instead of"),
        ("gemma4_assistant", "cannot be run: ValueError: inputs_embeds"),
    ],
)
def test_a_type_that_is_refused_in_two_lines(model_type: str, reason: str) -> None:
    found = check_type(need(model_type), seeds=1)
    assert found.outcome == "refused"
    assert reason in (found.reason or "")
    with pytest.raises(whyword.WhywordError) as caught:
        whyword.load(build_type(model_type))
    assert len(str(caught.value).splitlines()) == 2


def spoil(change: str) -> Any:
    """Explain as usual, with a wrong number that is shown."""

    def explain(*args: Any, **options: Any) -> whyword.Explanation:
        found = whyword.explain(*args, **options)
        by_head = found.ledger.by_head.clone()
        by_head[1, 2] *= 1.01  # one head of one block
        ledger = {"total": replace(found.ledger, total=found.ledger.total + 0.01)}.get(change)
        return replace(found, ledger=ledger or replace(found.ledger, by_head=by_head))

    return explain


@pytest.mark.parametrize(
    ("change", "reason"), [("total", "logit: the ledger at"), ("head", "logit: head 2.3 at")]
)
def test_a_wrong_number_is_noticed(change: str, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_type, "explain", spoil(change))
    found = check_type("gpt2", seeds=1)
    assert found.outcome == "wrong"
    assert reason in (found.reason or "")
    assert "the model's own number is" in (found.reason or "")


def test_a_traceback_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_type, "explain_continuation", lambda *_, **__: 1 / 0)
    found = check_type("gpt2", seeds=1)
    assert found.outcome == "traceback"
    assert "ZeroDivisionError: division by zero (test_sweep.py" in (found.reason or "")


def test_heads_are_recomputed_by_source() -> None:
    model = whyword.load(build_type("llama"))
    found = whyword.explain(model, prompt_of(9), target=5, foil=9, method="logit")
    own = recompute_heads(model, prompt_of(9), 5, 9)
    for block, sources in enumerate(own.by_source):
        assert sources is not None
        torch.testing.assert_close(found.by_head[block].double(), sources, rtol=1e-4, atol=1e-5)


def test_a_worker_that_takes_too_long_is_replaced() -> None:
    found = list(sweep_types(["gpt2", "opt"], seeds=1, seconds=0.01))
    assert [each.outcome for each in found] == ["traceback"] * 2
    assert {each.reason for each in found} == {"not finished after 0.01 seconds"}


def test_the_command() -> None:
    done = RUNNER.invoke(application, ["doctor", "--sweep", "gpt2, mamba", "--seeds", "1", "--json"])
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert (report["seeds"], report["transformers"]) == (1, transformers.__version__)
    assert [(each["model_type"], each["outcome"]) for each in report["types"]] == [
        ("gpt2", "explained"),
        ("mamba", "refused"),
    ]


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        (["--sweep", "gpt5"], "'gpt5' is not a causal model type of the installed transformers."),
        (["--sweep", "--seeds", "0"], "seeds is 0."),
        (["--sweep", "--random"], "--sweep was given with --random or --dtype."),
        (["--seeds", "2"], "--seeds was given without --sweep."),
    ],
)
def test_what_the_command_refuses(arguments: list[str], wrong: str) -> None:
    done = RUNNER.invoke(application, ["doctor", *arguments])
    assert done.exit_code != 0
    assert wrong in done.stderr


def test_configs_are_drawn_by_their_seed() -> None:
    def draw(seed: int) -> dict[str, Any]:
        config: dict[str, Any] = make_config("granite", seed).to_dict()
        return config

    assert draw(1) == draw(1)
    assert draw(1) != draw(2)
    assert draw(0)["residual_multiplier"] == 1.0
    assert draw(1)["residual_multiplier"] != 1.0
    assert draw(0)["num_hidden_layers"] == draw(1)["num_hidden_layers"] == 4


@pytest.mark.parametrize("model_type", ["deepseek_v32", "glm_moe_dsa"])
def test_sources_that_are_selected_among_equal_scores(model_type: str) -> None:
    """Which of equal scores are among the top k depends on how many there are: every length is run alone."""
    model = whyword.load(build_type(need(model_type)))
    ids = prompt_of(30)
    found = whyword.explain_continuation(model, ids[:18], ids[18:], foil=None, method="logit")
    for place, explanation in enumerate(found):
        alone = whyword.explain(model, ids[: 18 + place], target=ids[18 + place], foil=None, method="logit")
        assert explanation.ledger.total == pytest.approx(alone.ledger.total, abs=1e-6)
    prompts = [ids[:length] for length in (20, 23, 27, 30)]
    for prompt, together in zip(
        prompts, whyword.explain_batch(model, prompts, targets=5, foils=9), strict=True
    ):
        alone = whyword.explain(model, prompt, target=5, foil=9)
        assert together.ledger.total == pytest.approx(alone.ledger.total, abs=1e-6)


def test_a_continuation_that_changes_with_what_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A length that is in no config: positions before the last are compared with runs that end there."""
    model = whyword.load(build_type("llama"))
    mlp, ids = model.blocks[0].mlp, prompt_of(14)
    original = mlp.forward
    monkeypatch.setattr(mlp, "forward", lambda stream: original(stream) * (1 + (stream.shape[1] > 12)))
    with pytest.raises(whyword.ProofError, match="position 10 of 13: logits of the recorded run"):
        whyword.explain_continuation(model, ids[:10], ids[10:])


@pytest.mark.parametrize("model_type", ["llama4_text", "dbrx"])
def test_neurons_that_cannot_be_read(model_type: str) -> None:
    model = whyword.load(build_type(need(model_type)))
    with pytest.raises(whyword.ModelError) as caught:
        whyword.neurons(model, prompt_of(9), target=5)
    assert len(str(caught.value).splitlines()) == 2


def test_gradients_of_a_model_that_reads_embeddings_in_another_way() -> None:
    network = build_type("gpt2")
    model = whyword.load(network)
    own = network.transformer.forward

    def forward(*args: Any, **options: Any) -> Any:
        if options.get("inputs_embeds") is not None:
            options["inputs_embeds"] = options["inputs_embeds"] * 1.5
        return own(*args, **options)

    whyword.explain(model, prompt_of(9), target=5, foil=9, method="logit")
    network.transformer.forward = forward
    with pytest.raises(whyword.ProofError, match="logits of the embeddings of a prompt"):
        whyword.explain(model, prompt_of(9), target=5, foil=9, method="gradient-norm")
