"""Networks whose weights are spread over processes are gathered: FSDP 1 and 2, tensor parallelism."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from transformers.models.llama.modeling_llama import LlamaDecoderLayer

import whyword
from whyword.models.sharded import gather

from families import build, prompt_of

IDS = prompt_of(7)
pytestmark = pytest.mark.filterwarnings("ignore")


def _wrap(network: Any, **options: Any) -> Any:
    policy = ModuleWrapPolicy({LlamaDecoderLayer})
    return FullyShardedDataParallel(
        network, auto_wrap_policy=policy, device_id=torch.device("cpu"), **options
    )


def _shard(network: Any) -> Any:
    for block in network.model.layers:
        fully_shard(block)
    return fully_shard(network)


def _split(network: Any) -> Any:
    mesh = init_device_mesh("cpu", (distributed.get_world_size(),))
    plan = {"up_proj": ColwiseParallel(), "gate_proj": ColwiseParallel(), "down_proj": RowwiseParallel()}
    for block in network.model.layers:
        parallelize_module(block.mlp, mesh, plan)
    return network


def _explain(source: Any) -> torch.Tensor:
    model = whyword.load(source)
    return torch.cat(
        [whyword.explain(model, IDS, target=5, foil=9, method=each).scores for each in ("flow", "alti-logit")]
    )


def _require_gathered(source: Any) -> None:
    """The gathered network is explained as the one that was sharded; that one still runs."""
    torch.testing.assert_close(_explain(source), _explain(build("llama", torch.float32)))
    source(input_ids=torch.tensor([IDS])).logits.sum().backward()


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[None]:
    distributed.init_process_group("gloo", f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        yield
    finally:
        distributed.destroy_process_group()


@pytest.mark.usefixtures("alone")
def test_a_group_of_one() -> None:
    flat = _wrap(build("llama", torch.float32), use_orig_params=False).train()
    _require_gathered(flat)
    assert flat.training
    _require_gathered(_shard(build("llama", torch.float32)))
    blocks_only = build("llama", torch.float32)
    for block in blocks_only.model.layers:
        fully_shard(block)
    _require_gathered(blocks_only)
    half = _wrap(build("llama", torch.float32), mixed_precision=MixedPrecision(param_dtype=torch.bfloat16))
    assert gather(half).dtype == torch.float32  # explained in the type of the weights
    plain = build("llama", torch.float32)
    assert gather(plain) is plain
    assert whyword.load(_shard(plain)).name == "LlamaForCausalLM"


@pytest.mark.usefixtures("alone")
def test_what_cannot_be_gathered_is_refused_in_two_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = _shard(build("llama", torch.float32))
    changed.model.layers[0].mlp.register_forward_hook(lambda *given: given[-1] * 1.1)
    with pytest.raises(
        whyword.ModelError, match=r"^LlamaForCausalLM, sharded.*other logits than its.*\nSave it whole"
    ):
        whyword.load(changed)
    pieces = build("llama", torch.float32)
    pieces._tp_size = 2  # as transformers 4 splits networks
    with pytest.raises(whyword.ModelError, match=r"split over 2 processes \(tensor parallelism\)\.\nSave"):
        whyword.load(pieces)
    peft = pytest.importorskip("peft", reason="peft is not installed")
    tuned = peft.get_peft_model(build("llama", torch.float32), peft.LoraConfig(target_modules=["o_proj"]))
    with pytest.raises(whyword.ModelError, match=r"adapters cannot be gathered.*\nSave the adapter"):
        whyword.load(fully_shard(tuned))


def _run_second(_index: int, folder: str) -> None:
    torch.set_num_threads(1)
    _run_in_a_group(1, folder)


def _run_in_a_group(rank: int, folder: str) -> None:
    distributed.init_process_group("gloo", f"file://{folder}/store", rank=rank, world_size=2)
    for make in (_wrap, _shard, _split):
        plain = build("llama", torch.float32).state_dict()
        whole = gather(make(build("llama", torch.float32))).state_dict()
        assert whole.keys() == plain.keys()
        assert all(torch.equal(whole[name], each) for name, each in plain.items())
    distributed.destroy_process_group()


def test_two_processes(tmp_path: Path) -> None:
    """Each has half of every layer, and gathers the other half; one of them is this one."""
    other = torch.multiprocessing.spawn(_run_second, (str(tmp_path),), nprocs=1, join=False)
    _run_in_a_group(0, str(tmp_path))
    assert other is not None
    assert other.join()
