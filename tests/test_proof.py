"""The proof can fail: each part of a model is broken on purpose, and caught with the right message."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import whyword
from whyword.models import Architecture, Attention, Mlp, Norm, Stack
from whyword.models.catalogue import CATALOGUE, GENERAL, describe

from families import build, prompt_of


def entry(network: Any) -> Architecture:
    return describe(network.config)


def with_decoder(architecture: Architecture, **changes: Any) -> Architecture:
    return replace(architecture, decoder=replace(architecture.decoder, **changes))


def test_an_output_bias_that_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    model = whyword.load(build("gpt2", torch.float64))
    original = model.blocks[1].attn.c_proj.forward
    monkeypatch.setattr(model.blocks[1].attn.c_proj, "forward", lambda x: original(x) + 0.25)
    with pytest.raises(whyword.ProofError) as caught:
        whyword.explain(model, prompt_of(9), target=5)
    assert caught.value.wrong.startswith("block 2, attention: parts + output bias = ")


def test_a_value_layout_that_is_wrong() -> None:
    network = build("bloom", torch.float64)
    attention, mlp = entry(network).decoder.sublayers
    assert isinstance(attention, Attention)
    assert attention.value is not None
    for wrong in (replace(attention.value, pattern="(part head dim)"), replace(attention.value, part=1)):
        broken = with_decoder(entry(network), sublayers=(replace(attention, value=wrong), mlp))
        with pytest.raises(whyword.ProofError) as caught:
            whyword.load(network, architecture=broken)
        assert "block 1: attention weights × values = " in caught.value.wrong
        model = replace(whyword.load(network), architecture=broken)
        with pytest.raises(whyword.ProofError) as caught:
            whyword.explain(model, prompt_of(9), target=5, method="logit")
        assert "block 1, attention, head 1: weights × values of one head = " in caught.value.wrong


def test_a_norm_with_another_epsilon() -> None:
    network = build("llama", torch.float64)
    network.model.norm.other_epsilon = 0.5
    broken = with_decoder(entry(network), norm=Norm(centred=False, epsilon="other_epsilon"))
    with pytest.raises(whyword.ProofError) as caught:
        whyword.load(network, architecture=broken)
    assert "final norm: frozen norm of the last stream = " in caught.value.wrong


def test_a_norm_after_a_sublayer_that_is_left_out() -> None:
    network = build("gemma3", torch.float64)
    attention, mlp = entry(network).decoder.sublayers
    broken = with_decoder(entry(network), sublayers=(attention, replace(mlp, norm_after=None)))
    with pytest.raises(whyword.ProofError) as caught:
        whyword.load(network, architecture=broken)
    assert "block 1: stream in + all that was written = " in caught.value.wrong


def test_an_mlp_that_writes_something_else() -> None:
    network = build("gpt2", torch.float64)
    attention, _ = entry(network).decoder.sublayers
    broken = with_decoder(entry(network), sublayers=(attention, Mlp(output="ln_2")))
    with pytest.raises(whyword.ProofError) as caught:
        whyword.load(network, architecture=broken)
    assert "block 1: stream in + all that was written = " in caught.value.wrong


def test_logits_that_are_changed_after_the_unembedding(monkeypatch: pytest.MonkeyPatch) -> None:
    model = whyword.load(build("gpt2", torch.float64))
    original = model.unembedding.forward
    monkeypatch.setattr(model.unembedding, "forward", lambda x: original(x) * 1.5)
    with pytest.raises(whyword.ProofError) as caught:
        whyword.explain(model, prompt_of(9), target=5)
    assert caught.value.wrong.startswith("position 9: sum of the ledger = ")
    assert "relative error" in caught.value.wrong
    assert "allowed 1e-06" in caught.value.wrong


def test_an_unknown_type_that_fits_the_general_description(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    without = {name: entry for name, entry in CATALOGUE.items() if name != "qwen2"}
    monkeypatch.setattr("whyword.models.catalogue.CATALOGUE", without)
    model = whyword.load(build("qwen2", torch.float64))
    assert model.architecture is GENERAL
    assert caplog.messages == [
        "The model type 'qwen2' has no entry: the general description was used, and proven."
    ]
    assert whyword.explain(model, prompt_of(9), target=5).ledger.error <= 1e-9


ENTRY = """
from dataclasses import replace
from whyword.models.catalogue import CATALOGUE, GENERAL
described = replace(GENERAL, name="from a package")
wrong = "no description"
"""


def test_packages_add_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a real entry point of a real distribution."""
    (tmp_path / "our_models.py").write_text(ENTRY)
    folder = tmp_path / "our_models-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: our-models\nVersion: 1.0\n")
    points = "[whyword.architectures]\nqwen2 = our_models:described\ngpt2 = our_models:wrong\n"
    (folder / "entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(tmp_path)
    network = build("qwen2", torch.float64)
    assert whyword.load(network).architecture.name == "llama"  # our own entry goes first
    without = {name: entry for name, entry in CATALOGUE.items() if name not in ("qwen2", "gpt2")}
    monkeypatch.setattr("whyword.models.catalogue.CATALOGUE", without)
    model = whyword.load(network)
    assert model.architecture.name == "from a package"
    assert whyword.explain(model, prompt_of(9), target=5).ledger.error <= 1e-9
    with pytest.raises(whyword.ModelError, match="is 'no description'"):
        whyword.load(build("gpt2", torch.float64))


def test_an_unknown_type_that_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    without = {name: entry for name, entry in CATALOGUE.items() if name not in ("gpt2", "gemma3_text")}
    monkeypatch.setattr("whyword.models.catalogue.CATALOGUE", without)
    with pytest.raises(
        whyword.ModelError, match=r"GPT2Model has no module 'layers'; it has wte, .*\nCatalogued"
    ):
        whyword.load(build("gpt2", torch.float64))
    with pytest.raises(whyword.ProofError) as caught:
        whyword.load(build("gemma3", torch.float64))
    assert (
        "'gemma3_text' is not catalogued, and the general description does not fit it" in caught.value.wrong
    )
    assert f"Catalogued: {', '.join(sorted(without))}." in caught.value.remedy


def test_a_config_that_contradicts_its_description() -> None:
    network = build("bloom", torch.float32)
    network.config.slow_but_exact = True
    with pytest.raises(whyword.ModelError) as caught:
        whyword.load(network)
    assert (
        "config.slow_but_exact is True, but the bloom description was written for False" in caught.value.wrong
    )


def test_a_description_of_ones_own() -> None:
    network = build("gpt2", torch.float64)
    own = Architecture(
        name="mine",
        decoder=Stack(
            blocks="h",
            sublayers=(Attention(module="attn", output="attn.c_proj"), Mlp(output="mlp.c_proj")),
            norm=Norm(centred=True),
            final_norm="ln_f",
        ),
    )
    model = whyword.load(network, architecture=own)
    assert model.architecture is own
    assert whyword.explain(model, prompt_of(9), target=5).ledger.error <= 1e-9


def test_modules_that_are_changed_after_loading() -> None:
    network = build("llama", torch.float64)
    model = whyword.load(network)
    network.model.layers[2] = network.model.layers[0]
    with pytest.raises(whyword.ModelError, match=r"these are not what they were when it was loaded: 3\."):
        whyword.explain(model, prompt_of(9), target=5)
    with pytest.raises(whyword.ModelError, match=r"Blocks 1 and 3 of LlamaForCausalLM share self_attn\."):
        whyword.load(network)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("model.layers.1.self_attn.o_proj", "a module of block 2: self_attn.o_proj"),
        ("model.layers.1.mlp", "a module of block 2: what gives its output"),
        ("lm_head", "a module of the network: the unembedding"),
    ],
)
def test_what_is_computed_around_a_module(path: str, said: str) -> None:
    network = build("llama", torch.float64)
    model, module = whyword.load(network), network.get_submodule(path)

    class Around(type(module)):  # type: ignore[misc]
        def __call__(self, stream: Any) -> Any:
            return self.forward(stream)

    module.__class__ = Around
    with pytest.raises(whyword.ModelError) as caught:
        whyword.explain(model, prompt_of(9), target=5)
    assert said in caught.value.wrong
