"""What is wrapped around a network, and acts outside of it: it is noticed, or refused."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers
from torch import nn

import whyword

from families import build, prompt_of

PROMPT = prompt_of(12, 3)


def _adapted(**options: Any) -> Any:
    peft = pytest.importorskip("peft", reason="peft is not installed")
    config = peft.LoraConfig(init_lora_weights=False, **options)
    return peft.get_peft_model(build("llama", torch.float32), config).eval()


INVOCATION = {"task_type": "CAUSAL_LM", "alora_invocation_tokens": [3, 4]}


def test_adapters_that_wait_for_tokens_are_refused() -> None:
    """Their wrapper looks for the tokens (aLoRA): the network inside runs without the adapter."""
    peft = pytest.importorskip("peft", reason="peft is not installed")
    tuned = _adapted(target_modules=["q_proj"], **INVOCATION)
    with pytest.raises(
        whyword.ModelError, match=r"'default' \(aLoRA\) acts only after .*\nExplain a model whose"
    ):
        whyword.load(tuned)
    with tuned.disable_adapter():
        assert whyword.load(tuned).name == "LlamaForCausalLM"
    tuned = _adapted(target_modules=["q_proj"])
    model = whyword.load(tuned)
    tuned.add_adapter("waiting", peft.LoraConfig(target_modules=["q_proj"], **INVOCATION))
    tuned.set_adapter("waiting")
    with pytest.raises(whyword.ModelError, match=r"'waiting' \(aLoRA\) acts only after "):
        whyword.explain(model, PROMPT, target=5, foil=9, method="logit")


def test_adapters_that_act_around_the_network_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """X-LoRA weighs its adapters from outside of the network."""
    tuned = _adapted(target_modules=["q_proj"])
    kind = type(tuned.base_model)
    other = type(
        "Weighing", (kind,), {"forward": lambda self, *args: None, "__module__": "peft.tuners.other"}
    )
    monkeypatch.setattr(tuned.base_model, "__class__", other)
    with pytest.raises(
        whyword.ModelError, match=r"adapters of Weighing act by .*\(forward\).*\nExplain a model"
    ):
        whyword.load(tuned)


WRAPPERS: dict[str, Callable[[], Any]] = {
    "PeftModel": lambda: _adapted(target_modules=["q_proj"]),
    "LoraModel": lambda: _adapted(target_modules=["q_proj"]),
    "DataParallel": lambda: nn.DataParallel(build("llama", torch.float32)),
    "OptimizedModule": lambda: torch.compile(build("llama", torch.float32)),
}


@pytest.mark.parametrize("way", ["hook", "pre-hook", "forward", "class"])
@pytest.mark.parametrize("kind", WRAPPERS)
def test_what_is_put_on_a_wrapper_is_refused(kind: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The network inside would be explained without it, whether it comes before or after loading."""
    wrapped = WRAPPERS[kind]()
    wrapper = wrapped.base_model if kind == "LoraModel" else wrapped
    model, own = whyword.load(wrapped, verify="always"), wrapper.forward
    expected = whyword.explain(model, PROMPT, target=5, foil=9, method="logit").ledger.total
    with monkeypatch.context() as patched:
        if way == "forward":
            patched.setattr(wrapper, "forward", lambda *args, **given: own(*args, **given))
        elif way == "class" and "forward" not in vars(wrapper):
            patched.setattr(type(wrapper), "forward", lambda _self, *args, **given: own(*args, **given))
        elif way == "pre-hook":
            wrapper.register_forward_pre_hook(lambda *_: None)
        else:
            wrapper.register_forward_hook(lambda *_: None)
        refused = pytest.raises(
            whyword.ModelError, match=rf"^The wrapper {kind}.* has a hook or .*\nTake it off"
        )
        with refused:
            whyword.explain(model, PROMPT, target=5, foil=9, method="logit")
        with refused:
            whyword.load(wrapped)
    for hooks in (wrapper._forward_hooks, wrapper._forward_pre_hooks):
        hooks.clear()
    again = whyword.explain(model, PROMPT, target=5, foil=9, method="logit").ledger.total
    assert again == pytest.approx(expected)


def test_a_name_says_which_adapters_act_now() -> None:
    peft = pytest.importorskip("peft", reason="peft is not installed")
    tuned = _adapted(r=4, target_modules=["q_proj"])
    model = whyword.load(tuned)
    named = model.base_name
    tuned.add_adapter("other", peft.LoraConfig(r=8, target_modules=["q_proj"], init_lora_weights=False))

    def name() -> str:
        return whyword.explain(model, PROMPT, target=5, foil=9, method="logit").model

    assert name() == f"{named} + default (LoRA, rank 4)"
    tuned.set_adapter("other")
    assert name() == model.name == f"{named} + other (LoRA, rank 8)"
    with tuned.disable_adapter():
        assert name() == named


def make_classifier(padding: int | None = None) -> Any:
    config = transformers.LlamaConfig(
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        vocab_size=100,
        num_labels=3,
        pad_token_id=padding,
    )
    return transformers.LlamaForSequenceClassification(config).eval()


@pytest.mark.parametrize("way", ["hook", "pre-hook", "forward"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_what_is_put_on_a_classifier_is_refused(when: str, way: str) -> None:
    """Its decoder and its head are run, not its own forward."""
    classifier = make_classifier()
    model = whyword.load(classifier) if when == "after" else None
    if way == "hook":
        classifier.register_forward_hook(lambda *_: None)
    elif way == "pre-hook":
        classifier.register_forward_pre_hook(lambda *_: None)
    else:
        own = classifier.forward
        classifier.forward = lambda *args, **given: own(*args, **given)
    with pytest.raises(whyword.ModelError, match="LlamaForSequenceClassification has a hook or a forward"):
        whyword.explain(model or whyword.load(classifier), PROMPT, target=1, foil=2)


@pytest.mark.parametrize("method", ["logit", "flow", "erasure", "gradient-x-input"])
def test_a_text_that_ends_in_what_is_padding_for_a_classifier_is_refused(method: str) -> None:
    """transformers reads the last token before it."""
    classifier = make_classifier(padding=0)
    model = whyword.load(classifier)
    found = whyword.explain(model, PROMPT, target=1, foil=2, method=method)
    with torch.no_grad():
        own = classifier(torch.tensor([PROMPT])).logits[0]
    assert found.ledger.logit == pytest.approx(float(own[1] - own[2]), abs=1e-5)
    for prompt in ([*PROMPT, 0], [0, 0]):
        with pytest.raises(whyword.InputError, match="The text ends in token 0, the classifier's padding"):
            whyword.explain(model, prompt, target=1, foil=2, method=method)
    whyword.predict(model, PROMPT)
    with pytest.raises(whyword.InputError, match="The text ends in token 0"):
        whyword.predict(model, [*PROMPT, 0])
