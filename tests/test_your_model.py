"""Models as people have them: adapters, wrappers, quantised, offloaded; classifiers; tokenizers."""

import copy
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    LlamaConfig,
    LlamaForCausalLM,
    LlamaForSequenceClassification,
    pipeline,
)

import whyword
from whyword.attribute.methods import METHODS as all_methods
from whyword.doctor import diagnose
from whyword.models.projection import Projection
from whyword.models.testing.shrink import randomise
from whyword.models.weights import dequantise
from whyword.trace.network_state import look_again, read_state

import toy_tokenizers
from families import build, prompt_of

METHODS = ("flow", "logit", "alti-logit", "gim", "gradient-x-input", "erasure")
IDS = prompt_of(9)
Change = Callable[[nn.Module], nn.Module]


@torch.no_grad()
def network_of(dtype: torch.dtype = torch.float32, kind: Any = LlamaForCausalLM, **options: Any) -> Any:
    """A small network whose matrices are wide enough to be quantised in groups of 64."""
    sizes = {"hidden_size": 128, "intermediate_size": 192, "num_hidden_layers": 2, "vocab_size": 128}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "attention_bias": True}
    config = LlamaConfig(**{**sizes, **heads, **options})
    return randomise(kind(config)).to(dtype).eval()


def explain_all(model: whyword.Model, methods: tuple[str, ...] = METHODS) -> dict[str, torch.Tensor]:
    """Explain by every method, and by neurons."""
    compared = whyword.compare(model, IDS, target=5, foil=9, methods=list(methods))
    neurons = whyword.neurons(model, IDS, target=5, foil=9)
    updates = torch.cat([block.update for block in neurons.blocks])
    return {name: compared[name].scores.double() for name in methods} | {"neurons": updates.double()}


def require_same(
    model: whyword.Model, other: whyword.Model, bound: float, names: tuple[str, ...] = (*METHODS, "neurons")
) -> None:
    """Require explanations of two models to be the same, relative to the largest number of each."""
    ours, theirs = explain_all(model), explain_all(other)
    for name in names:
        scores = ours[name]
        apart = (scores - theirs[name]).abs().max() / theirs[name].abs().max()
        assert apart <= bound, (name, float(apart))


def change_blocks(network: Any, change: Change) -> Any:
    """Replace every projection of the blocks."""
    for block in network.model.layers:
        for path, module in list(block.named_modules()):
            if isinstance(module, nn.Linear):
                parent, _, name = path.rpartition(".")
                setattr(block.get_submodule(parent), name, change(module))
    return network


# Adapters


@pytest.mark.parametrize("kind", ["lora", "dora", "rslora", "conv1d", "ia3"])
def test_adapters_are_explained_as_if_they_were_merged(kind: str) -> None:
    peft = pytest.importorskip("peft", reason="peft is not installed")
    if kind == "conv1d":
        base = build("gpt2", torch.float64)
        config = peft.LoraConfig(target_modules=["c_attn", "c_proj", "c_fc"], fan_in_fan_out=True)
    elif kind == "ia3":
        base = network_of(torch.float64)
        config = peft.IA3Config(
            target_modules=["v_proj", "o_proj", "down_proj"], feedforward_modules=["down_proj"]
        )
    else:
        base = network_of(torch.float64)
        options = {"use_dora": kind == "dora", "use_rslora": kind == "rslora", "lora_dropout": 0.5}
        config = peft.LoraConfig(
            r=4, target_modules=["q_proj", "v_proj", "o_proj", "down_proj", "lm_head"], **options
        )
    adapted = peft.get_peft_model(base, config).double()
    torch.manual_seed(1)
    for name, parameter in adapted.named_parameters():
        if "lora_" in name or "ia3_" in name:
            parameter.data.normal_(1.0 if "magnitude" in name or "ia3" in name else 0.0, 0.2)
    adapted.train()  # dropout is off in a recorded run, whatever the model's mode
    merged = copy.deepcopy(adapted).eval().merge_and_unload()
    model = whyword.load(adapted)
    assert adapted.training
    require_same(model, whyword.load(merged), 1e-9)
    said = {"lora": "LoRA, rank 4", "dora": "DoRA, rank 4", "rslora": "rsLoRA, rank 4", "ia3": "IA3"}
    assert said.get(kind, "LoRA, rank 8") in whyword.explain(model, IDS).to_dict()["model"]
    assert diagnose(model, lengths=(3,)).flow_failure is None


def test_the_active_adapter_is_explained(tmp_path: Path) -> None:
    """Of several; also after another was switched on, and when all are off."""
    peft = pytest.importorskip("peft", reason="peft is not installed")
    base = network_of()
    plain = whyword.explain(whyword.load(copy.deepcopy(base)), IDS, target=5, foil=9, method="alti-logit")
    options = {"target_modules": ["o_proj", "v_proj"], "init_lora_weights": False}
    base.add_adapter(peft.LoraConfig(r=4, **options), adapter_name="one")  # as transformers puts it in
    base.add_adapter(peft.LoraConfig(r=2, **options), adapter_name="two")
    seen = {}
    for name in ("one", "two"):
        base.set_adapter(name)
        model = whyword.load(base)
        assert model.name == f"LlamaForCausalLM + {name} (LoRA, rank {4 if name == 'one' else 2})"
        seen[name] = whyword.explain(model, IDS, target=5, foil=9, method="alti-logit").scores
    base.set_adapter("one")  # what was kept of the other's matrices is noticed to be out of date
    again = whyword.explain(model, IDS, target=5, foil=9, method="alti-logit").scores
    torch.testing.assert_close(again, seen["one"])
    assert not torch.allclose(seen["one"], seen["two"], atol=1e-3)
    base.disable_adapters()
    off = whyword.load(base)
    assert off.name == "LlamaForCausalLM"
    torch.testing.assert_close(
        whyword.explain(off, IDS, target=5, foil=9, method="alti-logit").scores,
        plain.scores,
        atol=1e-5,
        rtol=1e-4,
    )


def _adapt(**options: Any) -> tuple[Any, whyword.Model]:
    """A network with adapters on all projections, and the same merged."""
    peft = pytest.importorskip("peft", reason="peft is not installed")
    config = peft.LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False, **options)
    adapted = peft.get_peft_model(network_of(torch.float64), config).double().eval()
    return adapted, whyword.load(copy.deepcopy(adapted).merge_and_unload())


@pytest.mark.parametrize("changed", ["nothing", "a hook on a part", "a hook on the layer", "a weight", "off"])
def test_low_rank_adapters_are_read_from_their_parts(changed: str) -> None:
    """Where somebody changes what the layer or a part gives, also later, it is followed step by step."""
    adapted, merged = _adapt()
    model = whyword.load(adapted)
    explain_all(model)  # that they act by their parts was found
    layers = [block.self_attn.v_proj for block in model.blocks]
    if changed == "a weight":
        for each in layers:
            each.lora_B["default"].weight.data.mul_(2)
    elif changed == "off":
        adapted.base_model.disable_adapter_layers()
    elif changed != "nothing":
        for each in layers:
            part = each.lora_A["default"] if "part" in changed else each
            part.register_forward_hook(lambda _module, _args, output: output * 2)
    read = [model.project(each).low_rank for each in layers]
    assert all(each is None for each in read) == ("hook" in changed)
    if changed in ("off", "a weight"):
        copied = copy.deepcopy(adapted)
        merged = whyword.load(copied.unload() if changed == "off" else copied.merge_and_unload())
    elif changed != "nothing":
        for block, layer in zip(merged.blocks, layers, strict=True):
            projection = block.self_attn.v_proj
            with torch.no_grad():
                if "part" in changed:
                    projection.weight += layer.get_delta_weight("default")
                else:
                    projection.weight *= 2
                    projection.bias *= 2
    require_same(model, merged, 1e-9)


def test_a_layer_that_fails_leaves_torch_as_it_was() -> None:
    adapted, _ = _adapt()
    model = whyword.load(adapted)
    whyword.explain(model, IDS, target=5, foil=9, method="flow")
    base = model.blocks[1].mlp.up_proj.base_layer
    base.weight.data = base.weight.data[:, :-1]
    with pytest.raises(whyword.ModelError, match=r"^.+\n.+$"):
        whyword.explain(model, IDS, target=5, foil=9, method="flow")
    assert torch.overrides._get_current_function_mode() is None  # type: ignore[no-untyped-call]
    assert torch.is_grad_enabled()


def test_an_adapter_folder_loads_its_base(tmp_path: Path) -> None:
    peft = pytest.importorskip("peft", reason="peft is not installed")
    network_of().save_pretrained(tmp_path / "base")
    base = AutoModelForCausalLM.from_pretrained(tmp_path / "base")
    config = peft.LoraConfig(r=2, target_modules=["o_proj"], init_lora_weights=False)
    adapted = peft.get_peft_model(base, config)
    folder = tmp_path / "tuned"
    adapted.save_pretrained(folder)
    model = whyword.load(folder)
    assert model.name == "base + tuned (LoRA, rank 2)"
    expected = whyword.explain(whyword.load(adapted), IDS, target=5).scores
    torch.testing.assert_close(whyword.explain(model, IDS, target=5).scores, expected)
    (tmp_path / "base").rename(tmp_path / "gone")
    with pytest.raises(
        whyword.ModelError, match=r"base model of the adapter tuned is not there: .*\nPut it there"
    ):
        whyword.load(folder)
    written = folder / "adapter_config.json"
    for name, expected_line in (
        ("someone/base", r"cannot be loaded\. 'someone/base' is not in the local cache"),
        (None, r"does not name the base model of the adapter \(base_model_name_or_path is None\)"),
    ):
        written.write_text(json.dumps({**json.loads(written.read_text()), "base_model_name_or_path": name}))
        with pytest.raises(whyword.ModelError, match=expected_line):
            whyword.load(folder)
    written.write_text("{")
    with pytest.raises(whyword.ModelError, match=r"adapter_config\.json cannot be read"):
        whyword.load(folder)


def _put_into_cache(cache: Path, name: str, folder: Path) -> None:
    """Put a folder into a cache of the hub, as if it had been fetched under a name."""
    place, revision = cache / f"models--{name.replace('/', '--')}", "0" * 40
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "main").write_text(revision)
    shutil.copytree(folder, place / "snapshots" / revision)


def test_an_adapter_on_the_hub_loads_its_base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both by name, offline, from the cache."""
    peft = pytest.importorskip("peft", reason="peft is not installed")
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    network_of().save_pretrained(tmp_path / "base")
    _put_into_cache(tmp_path / "hub", "someone/base", tmp_path / "base")
    base = AutoModelForCausalLM.from_pretrained("someone/base")
    config = peft.LoraConfig(r=2, target_modules=["o_proj"], init_lora_weights=False)
    adapted = peft.get_peft_model(base, config)
    adapted.save_pretrained(tmp_path / "tuned")
    toy_tokenizers.make("byte-level").save_pretrained(tmp_path / "tuned")
    _put_into_cache(tmp_path / "hub", "another/tuned", tmp_path / "tuned")
    model = whyword.load("another/tuned")
    assert model.name == "someone/base + another/tuned (LoRA, rank 2)"
    assert model.tokenizer is not None
    expected = whyword.explain(whyword.load(adapted), IDS, target=5, foil=9).scores
    torch.testing.assert_close(whyword.explain(model, IDS, target=5, foil=9).scores, expected)
    assert whyword.load("someone/base").name == "someone/base"
    (tmp_path / "tuned" / "adapter_model.safetensors").unlink()
    _put_into_cache(tmp_path / "hub", "another/empty", tmp_path / "tuned")
    with pytest.raises(whyword.ModelError, match=r"^another/empty has no weights of its adapter .*\nPass a"):
        whyword.load("another/empty")
    (tmp_path / "hub" / "models--someone--base").rename(tmp_path / "gone")
    with pytest.raises(
        whyword.ModelError,
        match=r"^The base model of the adapter another/tuned cannot be loaded\. 'someone/base' is not in the",
    ):
        whyword.load("another/tuned")


def test_virtual_tokens_are_refused() -> None:
    peft = pytest.importorskip("peft", reason="peft is not installed")
    tuned = peft.get_peft_model(
        network_of(), peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=3)
    )
    with pytest.raises(
        whyword.ModelError, match=r"\(PROMPT_TUNING\) puts 3 virtual tokens .*\n.*get_base_model"
    ):
        whyword.load(tuned)


# Wrappers


@pytest.mark.parametrize("how", ["wrapped", "in place", "blocks"])
def test_compiled_models_run_as_they_are_written(how: str, capfd: pytest.CaptureFixture[str]) -> None:
    network = network_of()
    expected = explain_all(whyword.load(network))
    source = network
    if how == "wrapped":
        source = torch.compile(network)
    elif how == "in place":
        network.compile()
    else:
        for index, block in enumerate(network.model.layers):
            network.model.layers[index] = torch.compile(block)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    found = explain_all(whyword.load(source))
    assert not torch._dynamo.utils.counters["frames"]
    assert all(torch.equal(found[name], scores) for name, scores in expected.items())
    assert capfd.readouterr().err == ""
    if how == "in place":
        assert network._compiled_call_impl is not None  # as it was


def test_parallel_wrappers_come_off(tmp_path: Path) -> None:
    network = network_of()
    assert whyword.load(nn.DataParallel(network)).network is network
    torch.distributed.init_process_group("gloo", f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        wrapped = torch.compile(nn.parallel.DistributedDataParallel(network))
        assert whyword.load(wrapped).network is network
    finally:
        torch.distributed.destroy_process_group()


def test_a_pipeline_gives_model_and_tokenizer() -> None:
    tokenizer = toy_tokenizers.make("byte-level")
    network = build("llama", torch.float32, vocab_size=len(tokenizer), max_position_embeddings=256)
    model = whyword.load(pipeline("text-generation", model=network, tokenizer=tokenizer))
    assert (model.network, model.tokenizer) == (network, tokenizer)
    with pytest.raises(whyword.ModelError, match="cannot be loaded from a dict"):
        whyword.load({"model": network})


# Quantised


def _bitsandbytes(bits: int) -> Change:
    bnb = pytest.importorskip("bitsandbytes", reason="bitsandbytes is not installed")

    def change(module: Any) -> nn.Module:
        sizes = module.in_features, module.out_features, module.bias is not None
        made = (
            bnb.nn.Linear4bit(*sizes, compute_dtype=torch.float32, quant_type="nf4")
            if bits == 4
            else bnb.nn.Linear8bitLt(*sizes, has_fp16_weights=False, threshold=6.0)
        )
        made.load_state_dict(module.state_dict())
        return made.to("cpu").requires_grad_(False).eval()

    return change


def _quanto(weights: str, activations: str | None = None) -> Change:
    quanto = pytest.importorskip("optimum.quanto", reason="optimum-quanto is not installed")

    def change(module: nn.Module) -> nn.Module:
        held = nn.Sequential(module)
        quanto.quantize(held, weights=weights, activations=activations)
        quanto.freeze(held)
        return held[0]

    return change


def _torchao(bits: int) -> Change:
    ao = pytest.importorskip("torchao.quantization", reason="torchao is not installed")
    config = ao.Int8WeightOnlyConfig() if bits == 8 else ao.IntxWeightOnlyConfig(weight_dtype=torch.int4)

    def change(module: nn.Module) -> nn.Module:
        held = nn.Sequential(module)
        ao.quantize_(held, config)
        return held[0]

    return change


def _torchao_dynamic() -> Change:
    ao = pytest.importorskip("torchao.quantization", reason="torchao is not installed")

    def change(module: nn.Module) -> nn.Module:
        held = nn.Sequential(module)
        ao.quantize_(held, ao.Int8DynamicActivationInt8WeightConfig())
        return held[0]

    return change


def _hqq(bits: int) -> Change:
    hqq = pytest.importorskip("hqq.core.quantize", reason="hqq is not installed")
    config = hqq.BaseQuantizeConfig(nbits=bits, group_size=64)
    return lambda module: hqq.HQQLinear(module, config, compute_dtype=torch.float32, device="cpu")


class _Packed(nn.Module):
    """A projection whose weights are eight 4-bit numbers to an int32, with scales and zeros by group."""

    def __init__(self, linear: Any, differentiable: bool, group: int = 64) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.bias, self.differentiable = linear.bias, differentiable
        grouped = linear.weight.detach().T.reshape(-1, group, linear.out_features)
        low, high = grouped.amin(1, keepdim=True), grouped.amax(1, keepdim=True)
        scales = (high - low) / 15
        numbers = ((grouped - low) / scales).round().long().view(-1, 8, linear.out_features)
        packed = (numbers << (4 * torch.arange(8)[:, None])).sum(1)
        self.register_buffer("qweight", (packed - (packed >= 2**31) * 2**32).int())
        self.register_buffer("scales", scales)
        self.register_buffer("zeros", low)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Unpack, scale, multiply; some kernels have no gradient."""
        with torch.set_grad_enabled(torch.is_grad_enabled() and self.differentiable):
            numbers = (self.qweight[:, None] >> (4 * torch.arange(8, dtype=torch.int32)[:, None])) & 15
            weight = numbers.view(len(self.scales), -1, self.out_features) * self.scales + self.zeros
            found = rows @ weight.view(self.in_features, -1).to(rows)
            return found if self.bias is None else found + self.bias.to(rows)


def _packed(differentiable: bool) -> Change:
    return lambda module: _Packed(module, differentiable).eval()


def quantise_groups(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return scales and zeros of 4 bits, in groups of 64 along what is read."""
    grouped = weight.detach().view(len(weight), -1, 64)
    low, high = grouped.amin(-1), grouped.amax(-1)
    scales = ((high - low) / 15).half().float()
    return scales, (-low / scales).round().clamp(0, 15)


def _gptqmodel(kind: str) -> Change:
    """Packed by the package that transformers loads GPTQ and AWQ checkpoints with."""
    pytest.importorskip("gptqmodel", reason="gptqmodel is not installed")
    from gptqmodel.nn_modules.qlinear.torch import TorchLinear
    from gptqmodel.nn_modules.qlinear.torch_awq import AwqTorchLinear

    def change(module: Any) -> nn.Module:
        scales, zeros = quantise_groups(module.weight)
        options = {"bits": 4, "group_size": 64, "sym": False, "desc_act": False, "register_buffers": True}
        sizes = {"in_features": module.in_features, "out_features": module.out_features}
        made = (TorchLinear if kind == "gptq" else AwqTorchLinear)(
            **options, **sizes, bias=module.bias is not None
        )
        made.pack(module, scales, zeros, (torch.arange(module.in_features) // 64).int())
        return cast(nn.Module, made.eval())

    return change


@pytest.mark.parametrize(
    ("make", "exactness", "bound"),
    [
        pytest.param(lambda: _bitsandbytes(4), None, 2e-2, id="bitsandbytes 4"),
        pytest.param(lambda: _bitsandbytes(8), "int8", 6e-2, id="bitsandbytes 8"),
        pytest.param(lambda: _quanto("qint8"), "float32", 1e-4, id="quanto 8"),
        pytest.param(lambda: _quanto("qint4"), "float32", 1e-4, id="quanto 4"),
        pytest.param(lambda: _torchao(8), "float32", 1e-4, id="torchao 8"),
        pytest.param(lambda: _torchao(4), "float32", 1e-4, id="torchao 4"),
        pytest.param(lambda: _hqq(4), "float32", 1e-4, id="HQQ 4"),
        pytest.param(lambda: _torchao_dynamic(), "int8", 6e-2, id="torchao dynamic"),
        pytest.param(lambda: _packed(True), "float32", 1e-4, id="packed 4"),
        pytest.param(lambda: _packed(False), "float32", 1e-4, id="packed 4, no gradient"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_quantised_models_are_explained_by_the_weights_that_they_apply(
    make: Callable[[], Change], exactness: str | None, bound: float
) -> None:
    """The same as a plain network with these weights, within rounding of the type that kernels compute in."""
    change = make()
    quantised = change_blocks(network_of(), change)
    model = whyword.load(quantised)
    if exactness is not None:
        assert str(model.exactness) == f"torch.{exactness}"
    plain = _with_weights_as_applied(quantised)
    exact = model.exactness == torch.float32
    methods = (
        (*METHODS, "neurons") if exact else ("flow", "logit", "alti-logit", "gim")
    )  # others rerun the network
    require_same(model, whyword.load(plain), bound, methods)
    found = diagnose(model, lengths=(3,))
    assert found.proven
    assert found.flow_failure is None
    said = whyword.explain(model, IDS).to_dict()["computed_in"]
    assert said == {"int8": "float32, projections read 8 bits", "float32": "float32"}.get(
        exactness or said, said
    )


@pytest.mark.parametrize("kind", ["nf4", "fp4"])
def test_four_bits_are_unpacked_as_the_kernel_reads_them(kind: str) -> None:
    """Weight by weight: a basis vector gives one weight of every output, rounded as the kernel rounds it."""
    bnb = pytest.importorskip("bitsandbytes", reason="bitsandbytes is not installed")
    plain = nn.Linear(128, 96, bias=False)
    module = bnb.nn.Linear4bit(128, 96, bias=False, compute_dtype=torch.float32, quant_type=kind)
    module.load_state_dict(plain.state_dict())
    module = module.to("cpu").requires_grad_(False).eval()
    with torch.no_grad():
        applied = module(torch.eye(128))
    found = dequantise(module)
    assert found is not None
    if getattr(module.weight.quant_state, "packing_format_for_cpu", False):
        assert torch.equal(found, applied)
    torch.testing.assert_close(found, applied, atol=0, rtol=8e-3)


def test_four_bits_are_dequantised_once_to_pull_a_direction_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch would dequantise them forward and backward. W_O is read once for all that the ledger does."""
    read = list[nn.Module]()

    def count(module: nn.Module) -> Any:
        read.append(module)
        return dequantise(module)

    quantised = change_blocks(network_of(), _bitsandbytes(4))
    model = whyword.load(quantised)
    whyword.explain(model, IDS, target=5, foil=9, method="flow")  # that they act by these weights was found
    monkeypatch.setattr("whyword.models.projection.dequantise", count)
    monkeypatch.setattr(Projection, "_pull", lambda *_: pytest.fail("a module was asked"))
    whyword.explain(model, IDS, target=5, foil=9, method="logit")
    assert read == [block.self_attn.o_proj for block in model.blocks]
    read.clear()
    whyword.explain(model, IDS, target=5, foil=9, method="flow")
    times = {read.count(module) for module in read}
    assert times == {1, 2}
    assert {module for module in read if read.count(module) == 2} == {
        block.self_attn.o_proj for block in model.blocks
    }


def test_a_quantised_layer_that_somebody_changes_is_asked_again() -> None:
    quantised = change_blocks(network_of(), _bitsandbytes(4))
    model = whyword.load(quantised)
    whyword.explain(model, IDS, target=5, foil=9, method="flow")
    for block in model.blocks:
        block.self_attn.v_proj.register_forward_hook(lambda _module, _args, output: output * 2)
        block.self_attn.o_proj.register_forward_hook(lambda _module, _args, output: output * 3)
    plain = whyword.load(_with_weights_as_applied(quantised))
    require_same(model, plain, 2e-2, ("flow", "logit", "alti-logit", "gim"))


def _with_weights_as_applied(quantised: Any) -> Any:
    """A plain network whose projections do what those of a quantised one do."""
    plain = network_of()
    for block, own in zip(plain.model.layers, quantised.model.layers, strict=True):
        for path, module in block.named_modules():
            if isinstance(module, nn.Linear):
                applied = own.get_submodule(path)
                with torch.no_grad():
                    at_zero = applied(torch.zeros(1, module.in_features))
                    module.weight.copy_((applied(torch.eye(module.in_features)) - at_zero).T)
                    module.bias = None if module.bias is None else nn.Parameter(at_zero[0])
    return plain


@pytest.mark.parametrize("kind", ["gptq", "awq"])
@pytest.mark.filterwarnings("ignore")
def test_checkpoints_of_gptq_and_awq(kind: str, tmp_path: Path) -> None:
    """A folder as it is published, loaded by transformers with gptqmodel's CPU kernels."""
    change = _gptqmodel(kind)
    state = network_of().state_dict()
    for path, module in network_of().model.layers.named_modules():
        if isinstance(module, nn.Linear):
            state = {name: each for name, each in state.items() if f"layers.{path}." not in name}
            packed = change(module).state_dict()
            state |= {f"model.layers.{path}.{name}": each for name, each in packed.items()}
    save_file({name: each.contiguous() for name, each in state.items()}, tmp_path / "model.safetensors")
    said = {
        "gptq": {"desc_act": False, "sym": False, "checkpoint_format": "gptq_v2"},
        "awq": {"zero_point": True, "version": "gemm"},
    }[kind]
    config = network_of().config.to_dict() | {
        "architectures": ["LlamaForCausalLM"],
        "quantization_config": {"bits": 4, "group_size": 64, "quant_method": kind, **said},
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    model = whyword.load(tmp_path, dtype="float32")
    quantised = model.blocks[0].self_attn.q_proj
    assert type(quantised).__module__.startswith("gptqmodel.")
    require_same(model, whyword.load(_with_weights_as_applied(model.network)), 1e-4)
    assert diagnose(model, lengths=(3,)).proven


def test_a_missing_package_of_a_checkpoint_is_named(tmp_path: Path) -> None:
    if find_spec("gptqmodel") is not None:
        pytest.skip("gptqmodel is installed")
    network_of().save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    for kind, package in (("gptq", "optimum"), ("awq", "gptqmodel"), ("hqq", "hqq"), ("quanto", "quanto")):
        quantisation = {"bits": 4, "group_size": 64, "quant_method": kind}
        (tmp_path / "config.json").write_text(json.dumps({**config, "quantization_config": quantisation}))
        with pytest.raises(
            whyword.ModelError,
            match=rf"is quantised \({kind}\) and cannot be loaded: .*\nInstall .*{package}.*, with kernels",
        ):
            whyword.load(tmp_path)


@pytest.mark.filterwarnings("ignore")
def test_activations_that_are_quantised_too_coarsely_are_refused() -> None:
    dynamic: Any = torch.ao.quantization.quantize_dynamic(
        network_of(), {nn.Linear}
    )  # by tensor, not by token
    with pytest.raises(
        whyword.ModelError, match=r"largest number of all positions: .*\nQuantise weights only"
    ):
        whyword.load(dynamic)
    network = change_blocks(network_of(), _quanto("qint8", "qint8"))
    with pytest.raises(
        whyword.ModelError,
        match=r"Block 1: self_attn\.q_proj \(QLinear\) does not map linearly: .*\nIt quantises",
    ):
        whyword.load(network)


def test_a_quantised_unembedding() -> None:
    change = _quanto("qint8")
    network = network_of()
    network.lm_head = change(network.lm_head)
    plain = network_of()
    with torch.no_grad():
        plain.lm_head.weight.copy_(network.lm_head(torch.eye(128)).T)
    require_same(whyword.load(network), whyword.load(plain), 1e-4)


# Offloaded


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_offloaded_weights_are_fetched_and_left_where_they_are(family: str, tmp_path: Path) -> None:
    network = build(family, torch.float32)
    network.save_pretrained(tmp_path / "model")
    stack, blocks = ("model", "layers") if family == "llama" else ("transformer", "h")
    places = {f"{stack}.{name}": "cpu" for name, _ in network.get_submodule(stack).named_children()}
    del places[f"{stack}.{blocks}"]
    places |= {
        f"{stack}.{blocks}.{index}": "disk"
        for index in range(len(network.get_submodule(stack).get_submodule(blocks)))
    }
    places |= {"lm_head": "cpu"}
    offloaded = AutoModelForCausalLM.from_pretrained(
        tmp_path / "model", device_map=places, offload_folder=tmp_path / "weights", dtype=torch.float32
    )
    elsewhere = [name for name, parameter in offloaded.named_parameters() if parameter.is_meta]
    assert len(elsewhere) > len(places)
    model = whyword.load(offloaded)
    require_same(model, whyword.load(tmp_path / "model"), 1e-5)
    assert diagnose(model, lengths=(3,)).proven
    assert [name for name, parameter in offloaded.named_parameters() if parameter.is_meta] == elsewhere
    before = read_state(model)  # fetching changes nothing: else every call would compare its run again
    whyword.explain(model, IDS, target=5, foil=9)
    assert look_again(model, before) is None


@pytest.mark.parametrize("share", [0.3, 0.8])
def test_weights_that_transformers_offloads_by_itself(
    share: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`device_map="auto"` with less memory than the model needs: one layer's weights are there at a time."""
    from accelerate import hooks

    network = network_of(num_hidden_layers=4, hidden_size=64)
    network.save_pretrained(tmp_path / "model")
    size = sum(parameter.nbytes for parameter in network.parameters())
    offloaded = AutoModelForCausalLM.from_pretrained(
        tmp_path / "model",
        device_map="auto",
        max_memory={"cpu": int(share * size)},
        offload_folder=tmp_path / "weights",
        dtype=torch.float32,
    )
    assert "disk" in offloaded.hf_device_map.values()
    elsewhere = [name for name, parameter in offloaded.named_parameters() if parameter.is_meta]
    present: dict[tuple[int, str], int] = {}
    most = [0]
    place = hooks.set_module_tensor_to_device

    def follow(module: nn.Module, name: str, device: Any, **options: Any) -> Any:
        found = place(module, name, device, **options)
        tensor = getattr(module.get_submodule(name.rpartition(".")[0]), name.rpartition(".")[2])
        present[id(module), name] = 0 if tensor.is_meta else tensor.nbytes
        most[0] = max(most[0], sum(present.values()))
        return found

    monkeypatch.setattr(hooks, "set_module_tensor_to_device", follow)
    model = whyword.load(offloaded)
    require_same(model, whyword.load(network), 1e-5)
    assert 0 < most[0] <= sum(parameter.nbytes for parameter in network.model.layers[0].parameters())
    assert [name for name, parameter in offloaded.named_parameters() if parameter.is_meta] == elsewhere
    if share == 0.3:
        assert whyword.explain_continuation(model, IDS, new_tokens=2).sum().scores.isfinite().all()


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="no two CUDA devices here")
def test_blocks_on_several_devices(tmp_path: Path) -> None:
    network_of(num_hidden_layers=4).save_pretrained(tmp_path)
    places: dict[str, int | str] = {f"model.layers.{index}": index % 2 for index in range(4)}
    places |= {"model.embed_tokens": 0, "model.rotary_emb": 0, "model.norm": 1, "lm_head": "cpu"}
    spread = AutoModelForCausalLM.from_pretrained(tmp_path, device_map=places, dtype=torch.float32)
    require_same(whyword.load(spread), whyword.load(tmp_path), 1e-3)


# Half precision


def test_half_precision_is_computed_in_float32_where_the_cpu_is_slow_at_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from whyword.models import half_precision

    monkeypatch.setenv("WHYWORD_CACHE", str(tmp_path / "cache"))
    network = build("llama", torch.bfloat16)
    network.save_pretrained(tmp_path / "model")
    measured = half_precision.compare_speed(torch.bfloat16)
    kept = tmp_path / "cache" / "processor" / "bfloat16.json"
    record = json.loads(kept.read_text())
    assert record["ratio"] == measured == half_precision.compare_speed(torch.bfloat16)
    kept.write_text(json.dumps({**record, "ratio": 60.0}))  # as if this were another machine
    slow = whyword.load(tmp_path / "model")
    assert slow.dtype == torch.float32
    said = whyword.explain(slow, IDS).to_dict()["computed_in"]
    assert said == "float32 (the checkpoint is bfloat16)"
    assert whyword.load(tmp_path / "model", dtype="bfloat16").dtype == torch.bfloat16
    assert whyword.load(network).dtype == torch.bfloat16  # taken as it is
    monkeypatch.setattr(half_precision, "_LARGE", 1)
    assert half_precision.advise(network) == (
        "The model is bfloat16, which takes this CPU 60 × as long as float32: model.float() before "
        "whyword.load is faster."
    )
    kept.write_text(json.dumps({**record, "ratio": 1.0}))
    assert whyword.load(tmp_path / "model").computed_in == "bfloat16"
    assert half_precision.advise(network) is None
    kept.write_text("{")
    assert half_precision.compare_speed(torch.bfloat16) != 1.0  # damaged: measured anew


# Classifiers


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_classes_are_explained_like_words(family: str, tmp_path: Path) -> None:
    config = build(family, torch.float32).config
    config.num_labels, config.pad_token_id = 3, 0
    config.id2label, config.label2id = {0: "sad", 1: "glad", 2: "mad"}, {"sad": 0, "glad": 1, "mad": 2}
    with torch.no_grad():
        network = randomise(AutoModelForSequenceClassification.from_config(config)).float().eval()
    network.save_pretrained(tmp_path)
    with torch.no_grad():
        own = network(input_ids=torch.tensor([IDS])).logits[0]
    for model in (whyword.load(network), whyword.load(tmp_path)):
        assert model.labels == ("sad", "glad", "mad")
        for method in METHODS:
            explained = whyword.explain(model, IDS, target="Glad", foil=2, method=method)
            assert explained.ledger.logit == pytest.approx(float(own[1] - own[2]), rel=1e-4)
            assert (explained.target.text, explained.foil.text) == ("glad", "mad")
    found = whyword.predict(model, IDS)
    assert [choice.id for choice in found] == own.argsort(descending=True).tolist()
    assert {*whyword.neurons(model, IDS, target="sad").named[0].promotes} == {"sad", "glad", "mad"}
    with pytest.raises(whyword.InputError, match=r"no class 'bad'\.\nClasses: sad, glad, mad \(0 to 2\)"):
        whyword.explain(model, IDS, target="bad")
    with pytest.raises(whyword.InputError, match="predicts classes"):
        whyword.explain_continuation(model, IDS)


# Tokenizers


def test_tokenizers_of_other_kinds(tmp_path: Path) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import ByT5Tokenizer

    network = build("llama", torch.float32, vocab_size=500, max_position_embeddings=256)
    letters = Tokenizer(
        models.WordLevel({letter: index for index, letter in enumerate("?abcdeghinoprstT ")}, "?")
    )
    letters.pre_tokenizer, letters.decoder = pre_tokenizers.Split("", "isolated"), decoders.Fuse()
    raw = toy_tokenizers.make("byte-level")
    raw.save_pretrained(tmp_path)
    for tokenizer, pieces in (
        (raw.backend_tokenizer, ["The", " painter", " has"]),
        (tmp_path, ["The", " painter", " has"]),
        (letters, list("The painter has")),
        (ByT5Tokenizer(), list("The painter has")),
    ):
        model = whyword.load(network, tokenizer=tokenizer, start="none")
        explained = whyword.explain(model, "The painter has", target="a", foil="i")
        assert [token.text for token in explained.tokens][: len(pieces)] == pieces
        assert explained.target.text.strip() == "a"
    with pytest.raises(
        whyword.ModelError, match=r"^dict \(builtins\) is not a tokenizer .*\nPass one of transformers"
    ):
        whyword.load(network, tokenizer={})


def test_missing_sentencepiece_is_named(tmp_path: Path) -> None:
    """In a process of its own, in which it cannot be imported."""
    sentencepiece = pytest.importorskip("sentencepiece", reason="sentencepiece is not installed")
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(toy_tokenizers.CORPUS),
        model_prefix=str(tmp_path / "source"),
        vocab_size=120,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    (tmp_path / "source.model").rename(tmp_path / "source.spm")
    (tmp_path / "target.spm").write_bytes((tmp_path / "source.spm").read_bytes())
    build("marian", torch.float32).save_pretrained(tmp_path)
    (tmp_path / "vocab.json").write_text('{"</s>": 0, "<unk>": 1, "<pad>": 2}')
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "MarianTokenizer"}')
    script = (
        "import sys; sys.modules['sentencepiece'] = None\n"
        "import whyword\n"
        f"try: whyword.load({str(tmp_path)!r})\n"
        "except whyword.ModelError as error: print(error)\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert (
        "needs sentencepiece, which is not installed.\nInstall it: pip install sentencepiece." in ran.stdout
    )


# All of them, by every public function


def _tune(**options: Any) -> Any:
    peft = pytest.importorskip("peft", reason="peft is not installed")
    return peft.get_peft_model(_with_vocabulary(), peft.LoraConfig(init_lora_weights=False, **options))


def _with_vocabulary(kind: Any = LlamaForCausalLM, **options: Any) -> Any:
    return network_of(kind=kind, vocab_size=len(TOKENIZER), pad_token_id=0, **options)


def _offload() -> Any:
    from accelerate import cpu_offload

    return cpu_offload(_with_vocabulary(), execution_device=torch.device("cpu"))


TOKENIZER = toy_tokenizers.make("byte-level")
RAW = TOKENIZER.backend_tokenizer
EVERY = tuple(all_methods)
CLASSIFIER = ("explain_continuation", "evaluate")
"""What a classifier refuses: nothing comes after a class, and datasets ask for words."""
TABLE: dict[str, Callable[[], Any]] = {
    "LoRA": lambda: _tune(target_modules="all-linear"),
    "DoRA": lambda: _tune(target_modules="all-linear", use_dora=True),
    "LoRA on 4 bits": lambda: _tune_quantised(),
    "bitsandbytes 4": lambda: change_blocks(_with_vocabulary(), _bitsandbytes(4)),
    "bitsandbytes 8": lambda: change_blocks(_with_vocabulary(), _bitsandbytes(8)),
    "quanto": lambda: change_blocks(_with_vocabulary(), _quanto("qint4")),
    "torchao": lambda: change_blocks(_with_vocabulary(), _torchao(8)),
    "HQQ": lambda: change_blocks(_with_vocabulary(), _hqq(4)),
    "packed": lambda: change_blocks(_with_vocabulary(), _packed(False)),
    "compiled": lambda: torch.compile(_with_vocabulary()),
    "parallel": lambda: nn.DataParallel(_with_vocabulary()),
    "pipeline": lambda: pipeline("text-generation", model=_with_vocabulary(), tokenizer=TOKENIZER),
    "raw tokenizer": lambda: _with_vocabulary(),
    "offloaded": _offload,
    "bfloat16": lambda: _with_vocabulary().bfloat16(),
    "classifier": lambda: _with_vocabulary(LlamaForSequenceClassification, num_labels=12),
}


def _tune_quantised() -> Any:
    peft = pytest.importorskip("peft", reason="peft is not installed")
    network = change_blocks(_with_vocabulary(), _bitsandbytes(4))
    config = peft.LoraConfig(target_modules=["o_proj", "down_proj"], init_lora_weights=False)
    return peft.get_peft_model(network, config)


Call = Callable[..., Any]


def _save_and_read(result: Any, path: Path) -> Any:
    """What is read back must say the same."""
    result.save(path)
    assert whyword.read(path).to_dict() == result.to_dict()
    return result


def _run_rows(model: Any, folder: Path, words: dict[str, Any]) -> Any:
    rows = folder / "rows.jsonl"
    rows.write_text("".join(json.dumps({"id": n, "prompt": TEXT, **words}) + "\n" for n in "ab"))
    whyword.run(model, rows, folder / "out", format="jsonl")
    return whyword.open_run(folder / "out")


TEXT = "A report about the painter"
FUNCTIONS: dict[str, Call] = {
    "explain": lambda model, words, folder: [
        _save_and_read(whyword.explain(model, TEXT, **words, method=method), folder / f"{method}.json")
        for method in EVERY
    ],
    "compare": lambda model, words, folder: _save_and_read(
        whyword.compare(model, TEXT, **words), folder / "compared.json"
    ),
    "compare_parts": lambda model, words, folder: whyword.compare_parts(
        model, whyword.fill("{first} about {second}", first="A report", second="the painter"), **words
    ),
    "explain_batch": lambda model, words, folder: list(
        whyword.explain_batch(model, [TEXT, TEXT[:9]], targets=[words["target"]] * 2)
    ),
    "compare_batch": lambda model, words, folder: list(
        whyword.compare_batch(model, [TEXT, TEXT[:9]], targets=[words["target"]] * 2)
    ),
    "explain_continuation": lambda model, words, folder: _save_and_read(
        whyword.explain_continuation(model, TEXT, new_tokens=2), folder / "continuation.json"
    ).sum(),
    "account": lambda model, words, folder: whyword.account(
        whyword.explain(model, TEXT, **words, method="alti-logit")
    ),
    "difference": lambda model, words, folder: whyword.difference(
        *(whyword.explain(model, text, **words) for text in (TEXT, TEXT + "s"))
    ),
    "predict": lambda model, words, folder: _save_and_read(
        whyword.predict(model, TEXT, top=2), folder / "predicted.json"
    ),
    "mixing": lambda model, words, folder: whyword.mixing(model, TEXT),
    "neurons": lambda model, words, folder: _save_and_read(
        whyword.neurons(model, TEXT, **words), folder / "neurons.json"
    ),
    "evaluate": lambda model, words, folder: whyword.evaluate(
        model, ["builtin-aga"], folder / "evaluated", limit=2, methods=["logit", "flow"]
    ),
    "run": lambda model, words, folder: len(_run_rows(model, folder, words)),
    "tokenize": lambda model, words, folder: whyword.tokenize(model, TEXT),
    "explain_translation": lambda model, words, folder: whyword.explain_translation(model, TEXT),
    "align": lambda model, words, folder: whyword.align(model, TEXT, TEXT),
}
REFUSED = ("explain_translation", "align")
"""What needs an encoder."""


def test_every_public_function_is_tried() -> None:
    others = {"load", "read", "open_run", "fill", "show_progress"}  # the table loads, reads, opens and fills
    functions = {name for name in whyword.__all__ if not isinstance(getattr(whyword, name), type)}
    assert functions - others == {*FUNCTIONS}


@pytest.mark.parametrize("name", TABLE)
@pytest.mark.filterwarnings("ignore")
def test_every_function_explains_or_refuses_in_two_lines(name: str, tmp_path: Path) -> None:
    """Never a traceback; what is explained was proven."""
    made = TABLE[name]()
    model = whyword.load(made, RAW if name == "raw tokenizer" else TOKENIZER)
    words = {"target": 0, "foil": 1} if name == "classifier" else {"target": "has", "foil": "have"}
    refused = {*REFUSED, *(CLASSIFIER if name == "classifier" else ())}
    for function, call in FUNCTIONS.items():
        if function in refused:
            with pytest.raises(whyword.WhywordError, match=r"^.+\n.+$"):
                call(model, words, tmp_path)
        else:
            call(model, words, tmp_path)
    found = diagnose(model, lengths=(5,))
    assert found.proven, found.failure
    assert found.flow_failure is None


@pytest.mark.parametrize("kind", ["LoRA", "quanto"])
def test_translation_models_too(kind: str) -> None:
    network = build("marian", torch.float32)
    if kind == "LoRA":
        peft = pytest.importorskip("peft", reason="peft is not installed")
        config = peft.LoraConfig(r=2, target_modules=["v_proj", "out_proj", "fc2"], init_lora_weights=False)
        adapted = peft.get_peft_model(network, config)
        plain = whyword.load(copy.deepcopy(adapted).merge_and_unload())
        model = whyword.load(adapted)
        for method in ("flow", "logit", "alti-logit"):
            ours, theirs = (
                whyword.explain_translation(each, IDS, IDS[::-1], method=method) for each in (model, plain)
            )
            torch.testing.assert_close(ours.scores, theirs.scores, atol=1e-4, rtol=1e-3)
    else:
        change = _quanto("qint8")
        for module in [each for each in network.modules() if hasattr(each, "out_proj")]:
            module.out_proj = change(module.out_proj)
        found = whyword.explain_translation(whyword.load(network), IDS, IDS[::-1], method="flow")
        assert found.scores.isfinite().any()


# Devices


@pytest.mark.parametrize("device", ["cuda", "mps"])
def test_other_devices(device: str) -> None:
    present = torch.cuda.is_available() if device == "cuda" else torch.backends.mps.is_available()
    if not present:
        pytest.skip(f"no {device} device here")
    require_same(whyword.load(network_of().to(device)), whyword.load(network_of()), 1e-3)


class _Inverting(TorchDispatchMode):
    """A device on which products of one shape come out with the wrong sign, unseen by autograd."""

    def __init__(self, read: int) -> None:
        super().__init__()
        self.shapes = (len(IDS), read), (read, 128)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        factors = {torch.ops.aten.mm.default: args[:2], torch.ops.aten.addmm.default: args[1:3]}.get(func)
        wrong = factors is not None and tuple(tuple(each.shape) for each in factors) == self.shapes
        return -output if wrong else output


@pytest.mark.parametrize(
    ("read", "method"), [(128, "logit"), (128, "alti-logit"), (128, "flow"), (192, "flow"), (192, "neurons")]
)
def test_a_device_that_silently_gives_the_opposite_is_caught(read: int, method: str) -> None:
    """As MPS does for some products; the model's own logits are wrong, and so is an untouched run's."""
    model = whyword.load(network_of())
    explain: Any = whyword.neurons if method == "neurons" else partial(whyword.explain, method=method)
    with (
        _Inverting(read),
        pytest.raises(whyword.ProofError, match="does not fit the model, so nothing is shown"),
    ):
        explain(model, IDS, target=5, foil=9)
