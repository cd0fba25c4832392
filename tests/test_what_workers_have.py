"""Worker processes have the network that is loaded here, with all code that acts in it, or are refused."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers.models.llama import modeling_llama

import whyword
from whyword.pipeline.model_source import ModelSource, choose_source, find_model, share_source
from whyword.runs.engine import Workers, choose_engine

import toy_tokenizers
from families import build
from run_folders import PROMPTS, write_rows

STRENGTH = [1.0]
TWO = Workers(2)


def steer(_module: nn.Module, _args: Any, output: Tensor) -> Tensor:
    return output * STRENGTH[0]


class Own(modeling_llama.LlamaMLP):
    """A module of somebody's own, which workers import."""

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = super().forward(x) * 2
        return found


def make_model(hook: Callable[..., Any] | None = None) -> whyword.Model:
    network = build("llama", torch.float32)
    if hook is not None:
        network.model.layers[1].mlp.register_forward_hook(hook)
    return whyword.load(network)


def _patch_class(patch: pytest.MonkeyPatch) -> None:
    own = modeling_llama.LlamaMLP.forward
    patch.setattr(modeling_llama.LlamaMLP, "forward", lambda self, x: own(self, x) * 2)


def _patch_file(patch: pytest.MonkeyPatch) -> None:
    own = modeling_llama.apply_rotary_pos_emb
    patch.setattr(
        modeling_llama, "apply_rotary_pos_emb", lambda query, *rest, **more: own(query * 1.5, *rest, **more)
    )


def _hook_everywhere(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(nn.modules.module._global_forward_hooks, 0, lambda _module, _args, output: None)


PATCHES: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    r"LlamaMLP\.forward was replaced in this process": _patch_class,
    r"modeling_llama\.apply_rotary_pos_emb was replaced in this process": _patch_file,
    "A hook of all modules acts in this process": _hook_everywhere,
}


@pytest.mark.parametrize("message", PATCHES)
def test_what_acts_in_this_process_only_is_refused(message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        PATCHES[message](patch)
        model = make_model()
        engine = choose_engine("local", TWO)
        named = find_model("tiny", TWO)
        tries = (
            lambda: choose_source(engine, model, None),
            lambda: choose_source(engine, model, named),
            lambda: share_source(find_model(model, TWO)),
            lambda: share_source(named),  # the model that workers open would be another than here
        )
        for each in tries:
            with pytest.raises(whyword.ModelError, match=rf"{message}.*\n.*workers=1"):
                each()
        assert choose_source(choose_engine("local", Workers()), model, None).source is model
    assert share_source(named) is named


def test_a_hook_that_cannot_be_sent_is_refused() -> None:
    model = make_model(lambda _module, _args, output: output * 2)
    with pytest.raises(whyword.ModelError, match=r"in LlamaMLP cannot be sent to workers: .*\n.*workers=1"):
        share_source(ModelSource(model))


def test_what_a_hook_reads_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = pickle.dumps(share_source(ModelSource(make_model(steer))))
    assert pickle.loads(sent).open()
    monkeypatch.setattr(f"{__name__}.STRENGTH", [2.0])
    with pytest.raises(whyword.ModelError, match=r"computes something else on this worker .*\n.*workers=1"):
        pickle.loads(sent).open()


def test_workers_explain_what_is_loaded_here(tmp_path: Path) -> None:
    """A module of a user's own comes with its class; a global variable that was set here does not."""
    tokenizer = toy_tokenizers.make("byte-level")
    network = build("llama", torch.float32, vocab_size=len(tokenizer), max_position_embeddings=256)
    blocks = network.model.layers
    own = Own(network.config).eval()
    own.load_state_dict(blocks[1].mlp.state_dict())
    blocks[1].mlp = own
    blocks[0].mlp.register_forward_hook(steer)
    model = whyword.load(network, tokenizer, start="tokenizer")
    asked = {"target": "cat", "foil": "dog"}
    source = write_rows(tmp_path / "rows.jsonl", [{"prompt": each, **asked} for each in PROMPTS[:2]])
    options: dict[str, Any] = {"methods": "logit", "shard_rows": 1, "start": "tokenizer"}
    options |= {"format": "jsonl", "workers": 2}
    found = [each.ledger.logit for each in whyword.run(model, source, tmp_path / "out", **options)]
    expected = [whyword.explain(model, each, **asked).ledger.logit for each in PROMPTS[:2]]
    assert found == pytest.approx(expected, abs=1e-4)
    STRENGTH[0] = 2.0
    try:
        with pytest.raises(whyword.ModelError, match="computes something else on this worker"):
            whyword.run(model, source, tmp_path / "other", **options)
    finally:
        STRENGTH[0] = 1.0
