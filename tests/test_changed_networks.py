"""A network that is changed after it was loaded: it is explained as it is then, or refused in two lines.

Every run of these lengths was compared with an untouched run before the change, so none is compared again
unless the change is noticed.
"""

import copy
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from types import MethodType
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook
from torch.nn.utils import parametrizations
from transformers import AttentionMaskInterface, DynamicCache
from transformers.masking_utils import sdpa_mask
from transformers.models.llama.modeling_llama import LlamaMLP

import whyword
from whyword.trace.network_state import look_again, read_state

from families import build, prompt_of

pytestmark = pytest.mark.usefixtures("as_in_a_library")
Change = Callable[[Any], AbstractContextManager[Any]]
LONG, SHORT = prompt_of(12), prompt_of(9, 3)
NOTED = ("whether gradients are noted", "weights that are computed", "inference mode", "no gradients")
"""Changes that matter where a run is noted for gradients: flow is tried, too."""


def own_difference(network: Any, ids: list[int]) -> float:
    """What the network itself gives for token 5 minus token 9, without dropout."""
    training = [module for module in network.modules() if module.training]
    for module in training:
        module.training = False
    with torch.no_grad():
        logits = network(torch.tensor([ids]), use_cache=False).logits[0, -1].double()
    for module in training:
        module.training = True
    return float(logits[5] - logits[9])


def explain_all(model: whyword.Model, name: str) -> Iterator[tuple[float, list[int]]]:
    """Explain prompts alone and together; give the sums of the ledgers."""
    for method in ("logit", "flow") if name in NOTED else ("logit",):
        yield whyword.explain(model, LONG, target=5, foil=9, method=method).ledger.total, LONG
    both = whyword.explain_batch(model, [LONG, SHORT], targets=5, foils=9, method="logit")
    for prompt, explanation in zip([LONG, SHORT], both, strict=True):
        yield explanation.ledger.total, prompt
    found = whyword.explain_continuation(model, LONG[:10], LONG[10:], foil=None, method="logit")
    for place, explanation in enumerate(found):
        ids = LONG[: 10 + place]
        with torch.no_grad():
            own = model.network.eval()(torch.tensor([ids])).logits[0, -1, LONG[10 + place]]
        assert explanation.ledger.total == pytest.approx(float(own), abs=1e-6)


def load(name: str) -> whyword.Model:
    """Load a small model, and let every kind of run be compared."""
    model = whyword.load(build("llama", torch.float64))
    assert len(list(explain_all(model, name))) >= 3
    return model


def patch_mlp(around: Callable[[Callable[[Tensor], Tensor], Tensor], Tensor]) -> Change:
    """Change what the MLP of the second block computes."""

    def change(network: Any) -> AbstractContextManager[None]:
        mlp = network.model.layers[1].mlp
        own = mlp.forward
        mlp.forward = lambda stream: around(own, stream)
        return nullcontext()

    return change


def add_dropout(network: Any) -> AbstractContextManager[None]:
    """Add a module that was not there when the network was loaded, in training."""
    mlp = network.model.layers[1].mlp
    mlp.dropout, own = nn.Dropout(0.5), mlp.forward
    mlp.forward = lambda stream: mlp.dropout(own(stream))
    return nullcontext()


def see_what_follows(network: Any) -> AbstractContextManager[None]:
    network.config.is_causal = False
    for block in network.model.layers:
        block.self_attn.is_causal = False
    return nullcontext()


@contextmanager
def register_mask(_network: Any) -> Iterator[None]:
    def see_all(batch_size: int, kv_length: int, **_: Any) -> Tensor:
        return torch.ones(batch_size, 1, kv_length, kv_length).bool()

    AttentionMaskInterface.register("sdpa", see_all)
    try:
        yield
    finally:
        AttentionMaskInterface.register("sdpa", sdpa_mask)


def run_after_a_cache(network: Any, again: bool = False) -> AbstractContextManager[None]:
    """Let three tokens stand before every prompt, in a cache that is filled once, or again in every run."""
    own = network.forward

    @torch.no_grad()
    def fill(examples: int) -> DynamicCache:
        cache = DynamicCache()
        own(torch.tensor([[5, 6, 7]]).repeat(examples, 1), past_key_values=cache, use_cache=True)
        return cache

    filled = fill(1)

    def forward(input_ids: Tensor, **options: Any) -> Any:
        cache = fill(len(input_ids)) if again else copy.deepcopy(filled)
        return own(input_ids, **{**options, "past_key_values": cache, "use_cache": True})

    network.forward = forward
    return nullcontext()


def prepend_vectors(network: Any) -> AbstractContextManager[None]:
    """Put two vectors before every prompt, as prompt tuning does, and leave their logits out."""
    own = network.forward

    def forward(input_ids: Tensor, **options: Any) -> Any:
        embedded = network.get_input_embeddings()(input_ids)
        soft = torch.ones(len(input_ids), 2, embedded.shape[-1], dtype=embedded.dtype)
        output = own(inputs_embeds=torch.cat([soft, embedded], 1), use_cache=options["use_cache"])
        output.logits = output.logits[:, 2:]
        return output

    network.forward = forward
    return nullcontext()


def scale_embeddings(embedding: Any) -> None:
    own = embedding.forward
    embedding.forward = lambda ids: own(ids) * torch.linspace(1, 2, ids.shape[1])[:, None]


def wrap_unembedding(network: Any) -> AbstractContextManager[None]:
    class Wrapped(nn.Module):
        def __init__(self, own: nn.Module) -> None:
            super().__init__()
            self.own = own

        def forward(self, stream: Tensor) -> Tensor:
            wrapped: Tensor = self.own(stream)
            return wrapped

    network.lm_head = Wrapped(network.lm_head)
    return nullcontext()


def swap_blocks(network: Any) -> AbstractContextManager[None]:
    layers = network.model.layers
    layers[0], layers[1] = layers[1], layers[0]
    return nullcontext()


def add_block(network: Any) -> AbstractContextManager[None]:
    network.model.layers.append(copy.deepcopy(network.model.layers[0]))
    network.model.layers[-1].self_attn.layer_idx = len(network.model.layers) - 1
    network.config.num_hidden_layers += 1
    return nullcontext()


def hook_between(block: Any) -> AbstractContextManager[Any]:
    """Change what a block reads."""
    return nullcontext(
        block.register_forward_pre_hook(lambda _module, inputs: (inputs[0] * 1.001, *inputs[1:]))
    )


@contextmanager
def patch_class(_network: Any) -> Iterator[None]:
    """Let all MLPs depend on the size of the batch, by their class."""
    own = LlamaMLP.forward
    LlamaMLP.forward = lambda mlp, stream: own(mlp, stream) * len(stream)
    try:
        yield
    finally:
        LlamaMLP.forward = own


@contextmanager
def patch_code(_network: Any) -> Iterator[None]:
    """Replace the code of a function in its place."""
    own = LlamaMLP.forward.__code__
    LlamaMLP.forward.__code__ = _depend_on_batch.__code__
    try:
        yield
    finally:
        LlamaMLP.forward.__code__ = own


def _depend_on_batch(self: Any, x: Tensor) -> Any:
    return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x)) * len(x)


REFUSED: dict[str, tuple[Change, str]] = {
    "noise": (patch_mlp(lambda own, x: own(x) + torch.randn_like(x) / 10), "is not causal"),
    "the future in an MLP": (patch_mlp(lambda own, x: own(x) + own(x.flip(1))), "is not causal"),
    "a norm over the prompt": (patch_mlp(lambda own, x: own(x) / own(x).std()), "not causal|recorded run"),
    "a mean over the batch": (patch_mlp(lambda own, x: own(x) - own(x).mean(0)), "not causal|recorded run"),
    "the size of the batch": (patch_mlp(lambda own, x: own(x) * len(x)), "recorded run"),
    "whether gradients are noted": (
        patch_mlp(lambda own, x: own(x) * (1 + torch.is_grad_enabled())),
        "logits of the recorded run",
    ),
    "attention that is not causal": (see_what_follows, "is not causal"),
    "a mask that is not causal": (register_mask, "is not causal"),
    "embeddings that depend on the length": (
        lambda network: nullcontext(scale_embeddings(network.get_input_embeddings())),
        "logits of the recorded run",
    ),
    "a cache of one's own": (run_after_a_cache, "attention reads 15 positions of a prompt of 12"),
    "vectors before every prompt": (prepend_vectors, "unembeds 1 positions and gives logits of 0"),
    "a wrapped unembedding": (wrap_unembedding, "has no weight that updates could be computed from"),
    "blocks in another order": (swap_blocks, "not what they were when it was loaded: 1, 2"),
    "one more block": (add_block, "not what they were when it was loaded: 4"),
    "another type": (
        lambda network: nullcontext(network.to(torch.float32)),
        "was float64 when it was loaded; its weights are float32 now",
    ),
    "a block of another type": (
        lambda network: nullcontext(network.model.layers[1].to(torch.bfloat16)),
        "its weights are bfloat16 and float64 now",
    ),
    "a hook between two blocks": (
        lambda network: hook_between(network.model.layers[1]),
        "block 2: stream into a block = .*\n.*between two blocks: a hook",
    ),
    "a patched class": (patch_class, "recorded run"),
    "the code of a function": (patch_code, "recorded run"),
    "results that are tuples": (
        lambda network: nullcontext(setattr(network.config, "return_dict", False)),
        "cannot be run: AttributeError: 'tuple' object has no attribute",
    ),
}
"""Changes that can be seen in no number of one recorded run, and what is said of them."""


@pytest.mark.parametrize("name", REFUSED)
def test_a_change_that_is_refused(name: str) -> None:
    change, wrong = REFUSED[name]
    model = load(name)
    with change(model.network), pytest.raises(whyword.WhywordError, match=wrong) as caught:
        list(explain_all(model, name))
    assert len(str(caught.value).splitlines()) == 2


def move_embeddings(network: Any) -> AbstractContextManager[Any]:
    hook = network.get_input_embeddings().register_forward_hook(lambda _module, _args, output: output * 1.3)
    return _removed(hook)


def hook_all_modules(network: Any) -> AbstractContextManager[Any]:
    mlp = network.model.layers[0].mlp
    hook = register_module_forward_hook(lambda module, _args, output: output * 1.3 if module is mlp else None)
    return _removed(hook)


@contextmanager
def _removed(hook: Any) -> Iterator[None]:
    try:
        yield
    finally:
        hook.remove()


@contextmanager
def default_type(_network: Any) -> Iterator[None]:
    torch.set_default_dtype(torch.bfloat16)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


def double_weights(network: Any) -> AbstractContextManager[None]:
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.data.mul_(1.1)  # unseen by torch's count of changes
    return nullcontext()


def normalise_weights(network: Any) -> AbstractContextManager[None]:
    parametrizations.weight_norm(network.model.layers[0].self_attn.o_proj)
    parametrizations.spectral_norm(network.model.layers[1].mlp.down_proj)
    return nullcontext()


EXPLAINED: dict[str, Change] = {
    "dropout that is added": add_dropout,
    "training": lambda network: nullcontext(network.train()),
    "checkpoints of gradients": lambda network: nullcontext(
        (network.train(), network.gradient_checkpointing_enable())
    ),
    "other weights": double_weights,
    "weights that are computed": normalise_weights,
    "other embeddings": move_embeddings,
    "a hook on all modules": hook_all_modules,
    "another default type": default_type,
    "inference mode": lambda _: torch.inference_mode(),
    "no gradients": lambda network: nullcontext(network.requires_grad_(False)),
    "weights that are returned": lambda network: nullcontext(
        (network.set_attn_implementation("eager"), setattr(network.config, "output_attentions", True))
    ),
}
"""Changes after which the network is another one, which is explained."""


@pytest.mark.parametrize("name", EXPLAINED)
def test_a_change_that_is_explained(name: str) -> None:
    model = load(name)
    with EXPLAINED[name](model.network):
        for total, prompt in explain_all(model, name):
            assert total == pytest.approx(own_difference(model.network, prompt), abs=1e-6)


class Settings:
    """What a patched module could read."""

    times = 0.0


@pytest.mark.parametrize("kind", ["list", "closure", "partial", "object"])
def test_a_change_inside_an_attribute(kind: str) -> None:
    """The attribute is the same object; what it holds decides whether the MLP depends on the batch."""
    network = build("llama", torch.float64)
    mlp, held, settings = network.model.layers[1].mlp, [0.0], Settings()
    own = mlp.forward
    if kind == "closure":
        mlp.forward = lambda stream: own(stream) * (1 + held[0] * (len(stream) - 1))
    elif kind == "partial":  # made a method: it has no code of its own
        mlp.forward = MethodType(partial(_read_held, held), mlp)
    else:
        mlp.held, mlp.settings = held, settings
        mlp.forward = MethodType(_read_attributes, mlp)
    model = whyword.load(network)
    assert len(list(explain_all(model, ""))) >= 3
    if kind == "object":
        settings.times = 1.0
    else:
        held[0] = 1.0
    with pytest.raises(whyword.ProofError, match="recorded run"):
        list(explain_all(model, ""))


def _read_held(held: list[float], mlp: Any, stream: Tensor) -> Tensor:
    return LlamaMLP.forward(mlp, stream) * (1 + held[0] * (len(stream) - 1))


def _read_attributes(mlp: Any, stream: Tensor) -> Tensor:
    return LlamaMLP.forward(mlp, stream) * (1 + (mlp.held[0] + mlp.settings.times) * (len(stream) - 1))


def steer(network: Any, acts: Callable[[Tensor], bool]) -> None:
    """Add a small vector to what an MLP gives, where the hook acts."""

    def hook(_module: Any, _args: Any, output: Tensor) -> Tensor | None:
        return output + torch.linspace(-0.1, 0.1, output.shape[-1]).to(output) if acts(output) else None

    network.model.layers[1].mlp.register_forward_hook(hook)


def test_shared_modules_that_change_places_are_noticed() -> None:
    """No module is new, none is gone: only where they are is another."""
    network: Any = build("llama", torch.float64)
    first, second = (block.input_layernorm for block in network.model.layers[:2])
    network.model.layers[2].input_layernorm = first
    model = whyword.load(network)
    before = read_state(model)
    assert look_again(model, before) is None
    network.model.layers[2].input_layernorm = second
    assert look_again(model, before) is not None


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("acts", ["generated", "prompt"])
def test_a_hook_that_acts_on_generated_tokens_only_or_on_the_prompt_only(
    acts: str, dtype: torch.dtype
) -> None:
    """As libraries that steer do: with a cache, generated tokens are read one by one. The same are chosen."""
    network = build("llama", dtype)
    model = whyword.load(network)
    before = [each.target.id for each in whyword.explain_continuation(model, LONG[:8], new_tokens=3)]
    steer(network, lambda output: (output.shape[1] == 1) == (acts == "generated"))
    ids = network.generate(torch.tensor([LONG[:8]]), do_sample=False, max_new_tokens=3)[0, 8:].tolist()
    assert ids == before
    for method in ("logit", "flow"):
        with pytest.raises(
            whyword.ProofError, match="token 2 of the continuation: logit by which a"
        ) as caught:
            whyword.explain_continuation(model, LONG[:8], new_tokens=3, method=method)
        assert len(str(caught.value).splitlines()) == 2
    network.generation_config.use_cache = False
    found = whyword.explain_continuation(model, LONG[:8], new_tokens=3, foil=None, method="logit")
    for place, explanation in enumerate(found):
        with torch.no_grad():
            own = network(torch.tensor([[*LONG[:8], *before[:place]]]), use_cache=False).logits[0, -1]
        assert explanation.ledger.total == pytest.approx(float(own[explanation.target.id]), abs=1e-4)


def test_a_cache_and_several_prompts() -> None:
    model = load("")
    run_after_a_cache(model.network, again=True)
    with pytest.raises(whyword.ModelError, match="read 3 positions of a prompt of 12 or more"):
        list(whyword.explain_batch(model, [LONG, SHORT], targets=5))


def test_what_was_compared_of_one_position_is_not_taken_for_several() -> None:
    """Whether positions depend on what follows is seen only where several are explained."""
    network = build("llama", torch.float64)
    model = whyword.load(network)
    scale_embeddings(network.get_input_embeddings())
    whyword.explain(model, LONG, target=5)
    with pytest.raises(whyword.ProofError, match="position 10 of 12: logits of the recorded run"):
        whyword.explain_continuation(model, LONG[:10], [*LONG[10:], 5], method="logit")


def test_autocast_is_refused() -> None:
    network = build("llama", torch.float32)
    model = whyword.load(network)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for call in (lambda: whyword.explain(model, LONG, target=5), lambda: whyword.load(network)):
            with pytest.raises(whyword.ModelError) as caught:
                call()
            assert "torch.autocast is on: LlamaForCausalLM (torch.float32) would be" in caught.value.wrong
            assert "outside it" in caught.value.remedy
    whyword.explain(model, LONG, target=5)


def test_what_was_compared_stays_compared_for_every_family(family: whyword.Model) -> None:
    """A network that changes its own attributes while it runs is not another one on every call."""
    whyword.explain(family, LONG, target=5, method="logit")
    state = family.lengths.state
    whyword.explain(family, LONG, target=5, method="logit")
    assert family.lengths.state is state


def test_modules_are_listed_anew_only_where_they_changed() -> None:
    network: Any = build("llama", torch.float64)
    model = whyword.load(network)
    before = model.modules
    assert before == tuple(network.modules())
    assert model.modules is before
    for change in (
        lambda: network.model.layers[1].add_module("extra", torch.nn.Identity()),  # in one that has some
        lambda: network.model.norm.add_module("extra", torch.nn.Identity()),  # in one that had none
        lambda: setattr(network.model.layers[1], "extra", torch.nn.Identity()),
        lambda: delattr(network.model.norm, "extra"),
        lambda: setattr(network.model.layers[1], "__dict__", dict(network.model.layers[0].__dict__)),
    ):
        change()
        assert model.modules is not before
        before = model.modules
        assert before == tuple(network.modules())


@pytest.mark.parametrize(
    "change",
    [
        lambda layer: setattr(layer, "added", 1),
        lambda layer: setattr(layer, "forward", layer.forward),
        lambda layer: layer.train(),
        lambda layer: layer.held.append(1),
        lambda layer: layer.named.update(a=1),
        lambda layer: layer.register_buffer("extra", torch.zeros(1)),
        lambda layer: layer.counted.add_(1),
        lambda layer: layer.register_forward_hook(lambda *_: None),
        lambda layer: layer.half(),
        lambda layer: setattr(layer, "_forward_hooks", OrderedDict({1: print})),
        lambda layer: setattr(layer, "another", layer.__dict__.pop("held")),
        lambda layer: setattr(
            layer, "__dict__", dict(layer.__dict__, _modules=dict(layer._modules, more=layer.up_proj))
        ),
        lambda layer: setattr(layer, "__dict__", dict(layer.__dict__, added=1)),
    ],
    ids=[
        "attribute",
        "forward",
        "train",
        "list",
        "dict",
        "buffer",
        "value",
        "hook",
        "type",
        "hooks",
        "name",
        "modules",
        "all",
    ],
)
def test_what_is_looked_at_again_is_all_that_was_found(change: Callable[[Any], Any]) -> None:
    network: Any = build("llama", torch.float64)
    layer = network.model.layers[1].mlp
    layer.held, layer.named = [], {}
    layer.register_buffer("counted", torch.zeros(1))
    model = whyword.load(network)
    known = read_state(model)
    assert look_again(model, known) is None
    change(layer)
    found = look_again(model, known)
    assert found is not None
    assert look_again(model, found) is None
