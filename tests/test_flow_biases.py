"""Nothing that depends on the prompt is counted as a bias, however a network hides that it does.

Every sum of flow would hold. What is refused by a mark, in the operations of torch, is also in test_flow.py;
most of these lose the mark.
"""

from collections.abc import Callable
from threading import Thread
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import whyword
from whyword.models.open import open_model
from whyword.models.testing.tiny_families import build

Branch = Callable[[Tensor], Tensor]
IDS = [5, 17, 33, 8, 60, 71, 12, 9, 44, 23]
DEPENDS = "adds something that depends on the prompt"


def explain(network: Any) -> whyword.Explanation:
    return whyword.explain(open_model(network), IDS, target=3, foil=4, method="flow")


@torch.no_grad()
def run_without_gradients(branch: Branch, stream: Tensor) -> Tensor:
    return branch(stream)


def copy_by_numpy(branch: Branch, stream: Tensor) -> Tensor:
    return torch.from_numpy(branch(stream).detach().float().numpy()).to(stream.dtype)


def copy_by_list(branch: Branch, stream: Tensor) -> Tensor:
    return torch.tensor(branch(stream).tolist(), dtype=stream.dtype)


def write_into_data(branch: Branch, stream: Tensor) -> Tensor:
    written = torch.zeros(stream.shape, dtype=stream.dtype)
    written.data.copy_(branch(stream).data)
    return written


def write_into_view(branch: Branch, stream: Tensor) -> Tensor:
    written = torch.zeros(stream.shape, dtype=stream.dtype)
    view, other = written.view(-1), written.view(stream.shape)
    with torch.no_grad():
        view.copy_(branch(stream).flatten())
    return other


def share_storage(branch: Branch, stream: Tensor) -> Tensor:
    return torch.empty(0, dtype=stream.dtype).set_(branch(stream).detach())


def quantise(branch: Branch, stream: Tensor) -> Tensor:
    return (branch(stream) * 1e6).long().to(stream.dtype) / 1e6


def wrap_in_parameter(branch: Branch, stream: Tensor) -> Tensor:
    return nn.Parameter(branch(stream).detach())


def run_in_thread(branch: Branch, stream: Tensor) -> Tensor:
    found: list[Tensor] = []
    thread = Thread(target=lambda: found.append(branch(stream).detach()))
    thread.start()
    thread.join()
    return found[0]


class Unnoted(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, given: Tensor) -> Tensor:
        copied = given.clone()
        context.mark_non_differentiable(copied)
        return copied

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> None:
        return None


def say_it_has_no_gradient(branch: Branch, stream: Tensor) -> Tensor:
    result: Tensor = Unnoted.apply(branch(stream))  # type: ignore[no-untyped-call]
    return result


def add_as_bias_of_norm(branch: Branch, stream: Tensor) -> Tensor:
    bias = branch(stream)[0, 0].detach()
    return nn.functional.layer_norm(stream * 0, stream.shape[-1:], None, bias)


HIDDEN = (
    run_without_gradients,
    copy_by_numpy,
    copy_by_list,
    write_into_data,
    write_into_view,
    share_storage,
    quantise,
    wrap_in_parameter,
    run_in_thread,
    say_it_has_no_gradient,
    add_as_bias_of_norm,
)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("hide", HIDDEN)
def test_a_branch_that_hides_what_it_depends_on_is_no_bias(
    hide: Callable[[Branch, Tensor], Tensor], dtype: torch.dtype
) -> None:
    network = build("llama", dtype)
    mlp = network.model.layers[1].mlp
    own = mlp.forward
    mlp.forward = lambda stream: hide(own, stream)
    model = open_model(network)
    for _ in range(2):  # a refused run is not taken for one that was compared
        with pytest.raises(whyword.ModelError, match=f"block 2: the operation .* {DEPENDS}") as caught:
            whyword.explain(model, IDS, target=3, foil=4, method="flow")
        assert len(str(caught.value).splitlines()) == 2


@pytest.mark.parametrize("family", ["gpt2", "mixtral", "gpt-oss"])
def test_a_hook_that_copies_an_output_is_no_bias(family: str) -> None:
    network = build(family, torch.float64)
    block = network.transformer.h[1] if family == "gpt2" else network.model.layers[1]
    block.mlp.register_forward_hook(lambda _module, _args, output: _copy(output))
    with pytest.raises(whyword.ModelError, match=f"block 2: the operation .* {DEPENDS}"):
        explain(network)


def _copy(output: Any) -> Any:
    if isinstance(output, tuple):
        return (_copy(output[0]), *output[1:])
    return torch.tensor(output.tolist(), dtype=output.dtype)


def test_embeddings_that_a_later_block_adds_are_no_bias() -> None:
    """They never were in the stream that enters the block, so torch sees no dependence at all."""
    network = build("llama", torch.float64)
    kept: list[Tensor] = []
    network.get_input_embeddings().register_forward_hook(lambda _module, _args, output: kept.append(output))
    mlp = network.model.layers[1].mlp
    own = mlp.forward
    mlp.forward = lambda stream: own(stream) + kept[-1]
    with pytest.raises(whyword.ModelError, match=f"block 2: the operation add {DEPENDS}"):
        explain(network)


def test_an_encoder_that_hides_what_it_depends_on_is_refused() -> None:
    network = build("marian", torch.float64)
    network.model.encoder.layers[1].fc2.register_forward_hook(lambda _module, _args, output: _copy(output))
    with pytest.raises(whyword.ModelError, match=f"encoder block 2: the operation add {DEPENDS}"):
        whyword.explain_translation(open_model(network), [*IDS[:6], 2], [17, 33, 2], method="flow")


class Highway(nn.Module):
    """A gate between two branches, with weights of its own on each and a step that chooses a bias."""

    def __init__(self, inside: nn.Module, dtype: torch.dtype) -> None:
        super().__init__()
        self.inside = inside
        width = inside.down_proj.weight.shape[0]
        self.gate = nn.Linear(width, width, dtype=dtype)
        self.choices = nn.Parameter(torch.randn(2, width, dtype=dtype))

    def forward(self, stream: Tensor) -> Tensor:
        gate = torch.sigmoid(self.gate(stream))
        chosen = self.choices[(stream[..., 0] > 0).long()]
        return gate * self.inside(stream) + (1 - gate) * (stream + chosen)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_what_is_gated_or_chosen_is_explained(dtype: torch.dtype) -> None:
    network = build("llama", dtype)
    for block in network.model.layers:
        block.mlp = Highway(block.mlp, dtype)
    found = explain(network)
    assert torch.allclose(
        found.flow.sum(1) + found.bias, torch.tensor(found.ledger.logit).double(), atol=1e-4
    )


def test_an_activation_that_is_rounded_otherwise_alone_is_one() -> None:
    """Torch computes one sigmoid in another way than many at once, and they differ in the last bit."""
    model = open_model(build("gpt2", torch.float64, activation_function="sigmoid"))
    for start in range(40):
        prompt = [3 + (start * 7 + each * 11) % 90 for each in range(9)]
        whyword.explain(model, prompt, target=3, foil=4, method="flow")


def test_a_branch_that_torch_does_not_show_is_refused_in_two_lines() -> None:
    network = build("llama", torch.float64)
    mlp = network.model.layers[1].mlp
    own = mlp.forward

    def forward(stream: Tensor) -> Tensor:
        with torch._C.DisableTorchFunction():
            return own(stream)

    mlp.forward = forward
    with pytest.raises(whyword.ModelError, match=r"block 2: .* which torch does not show") as caught:
        explain(network)
    assert len(str(caught.value).splitlines()) == 2
