"""Runs of several inputs at once: what they give is what each gives alone, or nothing is shown.

Recorded runs are compared for every number of prompts, in powers of two. Runs that only logits are read of
(erasure, swapped words, gradients) are compared too.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import whyword
from test_inside import make_dataset, make_model
from whyword.data import Dataset, Example, read_datasets
from whyword.evaluation import evaluate
from whyword.inside.ablation import ablate
from whyword.inside.survey import survey

import toy_tokenizers
from families import build, prompt_of

pytestmark = pytest.mark.usefixtures("as_in_a_library")
PROMPT = prompt_of(9)
Change = Callable[[Tensor], Tensor | float]


def hook_mlp(network: Any, times: Change) -> Any:
    """Let the second MLP give more, or less."""
    block = network.transformer.h[1] if hasattr(network, "transformer") else network.model.layers[1]
    return block.mlp.register_forward_hook(lambda _module, _args, output: output * times(output))


def grow_in_batches(output: Tensor) -> float:
    return 1.3 if len(output) > 4 else 1.0


def grow_with_gradients(_output: Tensor) -> float:
    return 1.3 if torch.is_grad_enabled() else 1.0


def explain(model: whyword.Model, method: str) -> whyword.Explanation:
    return whyword.explain(model, PROMPT, target=5, foil=9, method=method)


def test_more_prompts_than_were_compared() -> None:
    network = build("llama", torch.float64)
    hook_mlp(network, grow_in_batches)
    model = whyword.load(network)
    prompts = [prompt_of(9, seed) for seed in range(8)]
    assert len(list(whyword.explain_batch(model, prompts[:2], targets=5, method="logit"))) == 2
    with pytest.raises(whyword.ProofError, match="logits of the recorded run"):
        list(whyword.explain_batch(model, prompts, targets=5, method="logit"))


def grow_one_row(output: Tensor) -> Tensor:
    return 1 + 0.3 * (torch.arange(len(output)) == 5).to(output)[:, None, None] * (len(output) == 8)


def test_every_prompt_of_a_first_batch_is_compared() -> None:
    """Prompts of one length are run together: one that is wrong only beside others is found all the same."""
    network = build("llama", torch.float64)
    model = whyword.load(network)
    prompts = [prompt_of(9 - seed % 2, seed) for seed in range(8)]
    runs = list[tuple[int, int]]()
    counting = network.register_forward_pre_hook(
        lambda _module, _args, kwargs: runs.append(tuple(kwargs["input_ids"].shape)), with_kwargs=True
    )
    assert len(list(whyword.explain_batch(model, prompts, targets=5, method="logit"))) == 8
    assert sorted(shape for shape in runs if shape[1] in (8, 9))[-6:] == [
        *[(1, 8), (1, 9), (1, 9)],  # the last, the first, the one in the middle
        *[(2, 9), (3, 8)],
        (8, 9),
    ]
    counting.remove()
    hook_mlp(network, grow_one_row)
    with pytest.raises(whyword.ProofError, match="logits of the recorded run"):
        list(whyword.explain_batch(whyword.load(network), prompts, targets=5, method="logit"))


def test_prompts_of_a_network_with_a_users_own_module_run_alone() -> None:
    network = build("llama", torch.float64)
    mlp = network.model.layers[1].mlp
    mlp.act_fn = type("Own", (torch.nn.SiLU,), {"__module__": "own"})()
    runs = list[int]()
    network.register_forward_pre_hook(
        lambda _module, _args, kwargs: runs.append(len(kwargs["input_ids"])), with_kwargs=True
    )
    prompts = [prompt_of(9, seed) for seed in range(8)]
    list(whyword.explain_batch(whyword.load(network), prompts, targets=5, method="logit"))
    assert {*runs} == {1}


CHANGED = {
    **dict.fromkeys(("erasure", "erasure-logits", "erasure-deletion"), grow_in_batches),
    **dict.fromkeys(("gradient-norm", "gradient-x-input", "gim"), grow_with_gradients),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("family", ["gpt2", "llama"])
@pytest.mark.parametrize("method", CHANGED)
def test_what_is_read_of_several_inputs_is_what_each_gives(
    method: str, family: str, dtype: torch.dtype
) -> None:
    """Before it was loaded, and after: the run that is recorded is right, and those of the method are not."""
    network = build(family, dtype)
    model = whyword.load(network)
    explain(model, method)
    hook_mlp(network, CHANGED[method])
    for changed in (model, whyword.load(network)):
        explain(changed, "logit")
        for _ in range(2):  # what was refused is not taken for compared
            with pytest.raises(whyword.ProofError, match=r"input \d of \d: logits of the recorded") as caught:
                explain(changed, method)
            assert len(str(caught.value).splitlines()) == 2


def test_gradients_in_half_precision() -> None:
    network = build("llama", torch.bfloat16)
    model = whyword.load(network)
    explain(model, "gradient-x-input")
    hook_mlp(network, grow_with_gradients)
    with pytest.raises(whyword.ProofError, match="logits of the recorded run"):
        explain(model, "gradient-x-input")


def test_a_mask_that_is_ignored_in_batches() -> None:
    network = build("llama", torch.float64)
    own = network.forward

    def forward(input_ids: Tensor, attention_mask: Tensor | None = None, **options: Any) -> Any:
        mask = attention_mask if len(input_ids) == 1 else None
        return own(input_ids, attention_mask=mask, **options)

    network.forward = forward
    with pytest.raises(whyword.ProofError, match="input 1 of 9: logits of the recorded run"):
        explain(whyword.load(network), "erasure")


def test_what_is_erased_is_what_the_network_gives_alone() -> None:
    """Of a network that was changed after it was loaded, and is another one: by plain runs."""
    network = build("llama", torch.float64)
    model = whyword.load(network)
    explain(model, "erasure-logits")
    hook_mlp(network, lambda _: 1.3)

    def run(hidden: int | None) -> float:
        mask = torch.tensor([[int(place != hidden) for place in range(len(PROMPT))]])
        with torch.no_grad():
            logits = network(torch.tensor([PROMPT]), attention_mask=mask).logits[0, -1]
        return float(logits[5] - logits[9])

    expected = [run(None) - run(hidden) for hidden in range(len(PROMPT))]
    assert explain(model, "erasure-logits").scores.tolist() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    "options",
    [{}, {"faithfulness": None, "swaps": 2}, {"faithfulness": None, "swaps": 2, "swap_depths": (1,)}],
    ids=["faithfulness", "swaps", "swaps at a depth"],
)
def test_what_is_evaluated_is_what_the_network_gives_alone(options: dict[str, Any], tmp_path: Path) -> None:
    (dataset,) = read_datasets(["builtin-aga"], "builtin")
    words = [f"{each.prefix} {each.target} {each.foil}" for each in dataset.examples]
    tokenizer = toy_tokenizers.make("byte-level", words, 700)
    network = build("gpt2", torch.float64, vocab_size=len(tokenizer), n_positions=256)
    model = whyword.load(network, tokenizer=tokenizer, start="tokenizer")
    hook_mlp(network, grow_in_batches)
    with pytest.raises(whyword.ProofError, match="logits of the recorded run"):
        evaluate(model, ["builtin-aga"], tmp_path, data="builtin", methods=["logit"], limit=4, **options)


def test_an_mlp_that_does_not_call_its_projection() -> None:
    model = make_model()
    mlp = model.network.model.layers[1].mlp
    mlp.forward = lambda stream: (
        mlp.act_fn(mlp.gate_proj(stream)) * mlp.up_proj(stream) @ mlp.down_proj.weight.T
    )
    for call in (
        lambda: ablate(model, [make_dataset()], "2.17"),
        lambda: survey(model, [make_dataset()]),
        lambda: whyword.neurons(model, "A report", target=" has", foil=" have"),
    ):
        with pytest.raises(whyword.ModelError, match="what neurons read in 2 of 3 blocks") as caught:
            call()
        assert len(str(caught.value).splitlines()) == 2


def test_an_ablation_whose_held_out_examples_cannot_be_used() -> None:
    same = tuple(Example("toy", row, "A report", "has", "has") for row in (2, 3))
    examples = (*make_dataset().examples[:2], *same)
    dataset = Dataset("toy", "toy", "toy", "subject", examples, (), "0" * 64, "here")
    with pytest.raises(whyword.InputError, match="4 examples are too few"):
        ablate(make_model(), [dataset], "2.17")
