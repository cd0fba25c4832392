"""Many prompts at once give the numbers of one by one, whatever the order, the padding and the batches."""

import logging
import subprocess
import sys
from collections.abc import Iterator
from functools import lru_cache
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import whyword
from whyword.pipeline.many_prompts import explain_batch

import toy_tokenizers
from families import DISTINCT, build, prompt_of

LENGTHS = (5, 1, 9, 9, 2, 30, 12)
PROMPTS = [prompt_of(length, seed=length) for length in LENGTHS]
TARGETS = [5, 7, None, 11, 13, 17, 19]
FOILS: list[Any] = [9, None, "auto", [8, 12], 10, 9, 9]


def require_same(found: whyword.Explanation, alone: whyword.Explanation, tolerance: float) -> None:
    """Compare every number, relative to the size of the ledger's entries."""
    ledger = alone.ledger
    size = float(alone.by_head.abs().sum() + ledger.mlp.abs().sum()) + abs(ledger.embedding)
    assert (found.tokens, found.forced, found.position) == (alone.tokens, alone.forced, alone.position)
    assert [choice.id for choice in (found.target, *found.foils)] == [
        choice.id for choice in (alone.target, *alone.foils)
    ]
    for name in ("by_block", "by_head", "scores"):
        difference = getattr(found, name) - getattr(alone, name)
        assert float(difference.abs().max()) <= tolerance * size, name
    for name in ("attention", "attention_bias", "mlp"):
        assert float((getattr(found.ledger, name) - getattr(ledger, name)).abs().max()) <= tolerance * size
    for name in ("embedding", "norm_bias", "unembedding_bias", "total", "logit"):
        assert abs(getattr(found.ledger, name) - getattr(ledger, name)) <= tolerance * size, name
    assert found.target.probability == pytest.approx(alone.target.probability, rel=1e-3)


def one_by_one(model: whyword.Model, method: str = "alti-logit") -> list[whyword.Explanation]:
    return [
        whyword.explain(model, prompt, target=target, foil=foil, method=method)
        for prompt, target, foil in zip(PROMPTS, TARGETS, FOILS, strict=True)
    ]


@pytest.mark.parametrize("method", ["logit", "alti-logit"])
def test_a_batch_gives_the_numbers_of_one_by_one(distinct: whyword.Model, method: str) -> None:
    found = whyword.explain_batch(
        distinct, PROMPTS, targets=TARGETS, foils=FOILS, method=method, batch_size=3
    )
    for explanation, alone in zip(found, one_by_one(distinct, method), strict=True):
        require_same(explanation, alone, 1e-7)  # documents are float32
        assert explanation.ledger.error <= 1e-9


@pytest.mark.parametrize("name", DISTINCT)
def test_a_batch_in_float32(name: str) -> None:
    model = whyword.load(build(name, torch.float32))
    found = whyword.explain_batch(model, PROMPTS, targets=TARGETS, foils=FOILS, method="alti-logit")
    for explanation, alone in zip(found, one_by_one(model), strict=True):
        require_same(explanation, alone, 1e-5)


@pytest.fixture(scope="module")
def alone(llama: whyword.Model) -> list[whyword.Explanation]:
    return one_by_one(llama)


@given(st.permutations(range(len(PROMPTS))), st.integers(1, 8))
def test_order_and_batch_size_change_no_number(
    llama: whyword.Model, alone: list[whyword.Explanation], order: list[int], size: int
) -> None:
    found = whyword.explain_batch(
        llama,
        [PROMPTS[place] for place in order],
        targets=[TARGETS[place] for place in order],
        foils=[FOILS[place] for place in order],
        method="alti-logit",
        batch_size=size,
    )
    for place, explanation in zip(order, found, strict=True):
        require_same(explanation, alone[place], 1e-7)


TEXTS = [
    "The keys to the cabinet",
    "A report",
    "A report about the Impressionists and the keys to the cabinet",
    "The",
    "A report about the cabinet",
]


@pytest.fixture(scope="module")
def readers() -> dict[str, whyword.Model]:
    """One network with tokenizers that pad on the left, on the right, and not at all."""
    network, models = None, {}
    for kind in ("left", "right", "none"):
        tokenizer = toy_tokenizers.make(toy_tokenizers.KINDS[0])
        network = network or build("llama", torch.float64, vocab_size=len(tokenizer))
        tokenizer.pad_token = None if kind == "none" else tokenizer.eos_token
        tokenizer.padding_side = "right" if kind == "none" else kind
        models[kind] = whyword.load(network, tokenizer=tokenizer, start="tokenizer")
    return models


@lru_cache(maxsize=64)
def explain_alone(model: whyword.Model, text: str) -> whyword.Explanation:
    return whyword.explain(model, text, foil="auto")


@given(
    st.sampled_from(["left", "right", "none"]),
    st.lists(st.sampled_from(TEXTS), min_size=1, max_size=7),
    st.integers(1, 4),
)
def test_padding_changes_no_number(
    readers: dict[str, whyword.Model], side: str, texts: list[str], size: int
) -> None:
    model = readers[side]
    alone = {text: explain_alone(model, text) for text in texts}
    found = list(whyword.explain_batch(model, texts, foils="auto", batch_size=size))
    assert len(found) == len(texts)
    for explanation, text in zip(found, texts, strict=True):
        require_same(explanation, alone[text], 1e-7)


@pytest.mark.usefixtures("as_in_a_library")
def test_one_run_of_the_network_per_batch(gpt2: whyword.Model) -> None:
    runs: list[torch.Size] = []

    def count(_module: Any, _args: Any, kwargs: dict[str, Any]) -> None:
        runs.append(kwargs["input_ids"].shape)

    batches = [[prompt_of(4)] * 6 + [prompt_of(5)] * 2, [prompt_of(4)] * 100, [prompt_of(60), prompt_of(2)]]
    handle = gpt2.network.register_forward_pre_hook(count, with_kwargs=True)
    try:
        for batch in batches:  # the first run of a length, and of so many, is compared with untouched ones
            list(whyword.explain_batch(gpt2, batch, foils="auto"))
        list(whyword.explain_batch(gpt2, batches[0], foils="auto", batch_size=4))
        runs.clear()
        list(whyword.explain_batch(gpt2, batches[0], foils="auto", batch_size=4))
        assert runs == [(4, 4), (4, 5)]
        runs.clear()
        list(whyword.explain_batch(gpt2, [prompt_of(4)] * 100, foils="auto"))
        assert runs == [(100, 4)]
        runs.clear()
        list(whyword.explain_batch(gpt2, [prompt_of(60), prompt_of(2)], foils="auto"))
        assert sorted(runs) == [(1, 2), (1, 60)]  # a short prompt is not padded to a long one
    finally:
        handle.remove()


def test_from_an_endless_iterable(gpt2: whyword.Model) -> None:
    read = 0

    def prompts() -> Iterator[list[int]]:
        nonlocal read
        for prompt in cycle(PROMPTS):
            read += 1
            yield prompt

    found = list(
        islice(whyword.explain_batch(gpt2, prompts(), targets=5, foils=cycle([9]), batch_size=2), 40)
    )
    assert [len(explanation.tokens) for explanation in found] == list(islice(cycle(LENGTHS), 40))
    assert read <= 64
    assert list(whyword.explain_batch(gpt2, [])) == []


def test_an_error_comes_where_its_prompt_would(gpt2: whyword.Model) -> None:
    def prompts_until_error(prompts: Any, **options: Any) -> tuple[int, str]:
        done = -1
        try:
            for done, _ in enumerate(explain_batch(gpt2, prompts, **options)):  # noqa: B007
                pass
        except whyword.InputError as error:
            return done + 1, str(error)
        pytest.fail("no error")

    done, message = prompts_until_error([[3], [4, 5], [999], [6]], targets=5)
    assert (done, message.splitlines()[0]) == (2, "Prompt 3: There is no token 999 in GPT2LMHeadModel.")
    best = whyword.predict(gpt2, [4, 5])[0].id
    done, message = prompts_until_error([[3], [4, 5], [6]], foils=[None, best, None])
    assert (done, message.splitlines()[0]) == (
        1,
        f"Prompt 2: The model's first choice is the foil itself (token {best}).",
    )
    done, message = prompts_until_error([[3], [4, 5]], targets=[5])
    assert (done, message.splitlines()[0]) == (1, "There are 1 targets, and more prompts.")
    done, message = prompts_until_error([[3], [4, 5]], foils=[5, 6, 7])
    assert (done, message.splitlines()[0]) == (2, "There are more foils than prompts.")


def test_what_is_wrong_with_the_call_is_said_at_once(gpt2: whyword.Model) -> None:
    with pytest.raises(whyword.InputError, match="batch_size is 0"):
        whyword.explain_batch(gpt2, [[3]], batch_size=0)
    with pytest.raises(whyword.InputError, match="The prompts are one text"):
        whyword.explain_batch(gpt2, "The keys")
    with pytest.raises(whyword.InputError, match="There is no method 'guess'"):
        whyword.explain_batch(gpt2, [[3]], method="guess")


OUT_OF_MEMORY = """
import logging, resource, sys
sys.path.insert(0, {tests!r})
import torch, whyword
from families import build, prompt_of
logging.basicConfig(format="%(message)s")
torch.set_num_threads(1)
model = whyword.load(build("gpt2", torch.float32, vocab_size=20000))
prompts = [prompt_of(50, seed) for seed in range(128)]
alone = list(whyword.explain_batch(model, prompts[:3], targets=5, batch_size=1))
held = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (held + {room}, -1))
found = list(whyword.explain_batch(model, prompts, targets=5, batch_size=128))
for one, other in zip(alone, found):
    torch.testing.assert_close(one.by_block, other.by_block, rtol=1e-4, atol=1e-5)
print(len(found))
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="limits memory as Linux does")
def test_a_batch_that_runs_out_of_memory_is_halved() -> None:
    """For real: the process may not take more memory than half of the batch needs."""
    code = OUT_OF_MEMORY.format(tests=str(Path(__file__).parent), room=30_000_000)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "128"
    assert "Out of memory with 128 prompts of up to 50 tokens: taking 64 at a time." in done.stderr


@pytest.mark.usefixtures("as_in_a_library")
def test_one_prompt_that_runs_out_of_memory_is_said(
    gpt2: whyword.Model, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes.")

    monkeypatch.setattr(gpt2.blocks[1], "forward", fail)
    with caplog.at_level(logging.WARNING), pytest.raises(whyword.InputError) as error:
        list(whyword.explain_batch(gpt2, [[3], [4], [5]], targets=5))
    assert str(error.value).splitlines()[0] == "Prompt 1 (1 tokens) ran out of memory."
    assert [record.getMessage() for record in caplog.records] == [
        "Out of memory with 3 prompts of up to 1 tokens: taking 1 at a time."
    ]


def test_another_error_is_not_taken_for_memory(gpt2: whyword.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("in the middle of a run")

    monkeypatch.setattr(gpt2.blocks[1], "forward", fail)
    with pytest.raises(whyword.ModelError, match="RuntimeError: in the middle"):
        list(whyword.explain_batch(gpt2, [[3], [4]], targets=5))
