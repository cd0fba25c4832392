"""What is held at once: nothing large, within what was allowed, and known before."""

import ctypes
import os
import resource
import subprocess
import sys
import weakref
from collections import Counter
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import whyword
from whyword.pipeline import many_prompts
from whyword.pipeline.one_prompt import ask
from whyword.runs.memory_size import read_size
from whyword.runs.progress import listen
from whyword.trace import Plan, network_state
from whyword.trace.memory_plan import Request, estimate, free_memory, make_plan
from whyword.trace.running import run

from families import FAMILIES, build, prompt_of

LONG = 600


@pytest.fixture(scope="module", params=["gpt2", "llama", "gemma3"])
def long_model(request: pytest.FixtureRequest) -> whyword.Model:
    size = "n_positions" if request.param == "gpt2" else "max_position_embeddings"
    return whyword.load(build(request.param, torch.float64, **{size: LONG}))


@pytest.fixture(autouse=True)
def measured_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take what measures for no part of the network: it would be compared with untouched runs again."""
    monkeypatch.setattr(network_state, "_list_modes", list)


class Largest(TorchDispatchMode):
    """Sees the largest tensor that any operation makes."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = function(*args, **(kwargs or {}))
        for each in made if isinstance(made, tuple | list) else (made,):
            if isinstance(each, Tensor):
                self.numbers = max(self.numbers, each.untyped_storage().nbytes() // each.element_size())
        return made


class Held(TorchDispatchMode):
    """Counts the bytes of tensors that live at once, those of the model itself left out."""

    def __init__(self, model: whyword.Model) -> None:
        super().__init__()
        self.weights = {0, *(each.untyped_storage().data_ptr() for each in model.network.parameters())}
        self.users: Counter[tuple[int, int]] = Counter()
        self.now = self.peak = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = function(*args, **(kwargs or {}))
        for each in made if isinstance(made, tuple | list) else (made,):
            if isinstance(each, Tensor) and each.untyped_storage().data_ptr() not in self.weights:
                self.hold(each)
        return made

    def hold(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        memory = storage.data_ptr(), storage.nbytes()
        self.users[memory] += 1
        if self.users[memory] == 1:
            self.now += memory[1]
            self.peak = max(self.peak, self.now)
        weakref.finalize(tensor, self.drop, memory)

    def drop(self, memory: tuple[int, int]) -> None:
        self.users[memory] -= 1
        if self.users[memory] == 0:
            self.now -= memory[1]


def test_no_tensor_is_quadratic_in_positions_but_c(long_model: whyword.Model) -> None:
    """Neither heads × positions² nor positions² × width is ever there: only a triangle for each block."""
    long_model.workspace._buffers.clear()
    with Largest() as largest:
        whyword.explain(long_model, prompt_of(LONG), target=5, foil=9, method="alti-logit")
    heads, blocks = 4, len(long_model.blocks)
    chunk_of_c = blocks * 128 * LONG
    assert largest.numbers <= max(chunk_of_c, LONG * LONG)  # the model's own mask is positions²
    assert largest.numbers < heads * LONG * LONG / 2


def test_smaller_chunks_change_no_number_and_half_precision_few(long_model: whyword.Model) -> None:
    request, blocks = Request(1, LONG), len(long_model.blocks) - 1
    whole = whyword.explain(long_model, prompt_of(LONG), target=5, foil=9, method="alti-logit")
    size = whole.by_block.abs().sum()
    small = estimate(long_model, request, Plan(blocks, chunk=16))
    assert make_plan(long_model, request, Plan(blocks), small) == Plan(blocks, chunk=16)
    chunked = whyword.explain(
        long_model, prompt_of(LONG), target=5, foil=9, method="alti-logit", max_memory=small
    )
    assert float((chunked.by_block - whole.by_block).abs().max()) <= 1e-7 * float(size)
    half = estimate(long_model, request, Plan(blocks, chunk=8, half=True))
    assert make_plan(long_model, request, Plan(blocks), half).half
    halved = whyword.explain(
        long_model, prompt_of(LONG), target=5, foil=9, method="alti-logit", max_memory=half
    )
    difference = float((halved.by_block - whole.by_block).abs().max())
    assert 0 < difference <= 1e-3 * float(size)
    torch.testing.assert_close(halved.by_head, whole.by_head)


def test_what_cannot_fit_says_what_would(long_model: whyword.Model) -> None:
    with pytest.raises(whyword.InputError) as error:
        whyword.explain(long_model, prompt_of(LONG), target=5, max_memory="18MB")
    wrong, remedy = str(error.value).splitlines()
    assert wrong.startswith("Explaining 600 tokens takes about ")
    assert wrong.endswith(" beyond the forward pass, 18MB is allowed by max_memory.")
    ways = remedy.removeprefix("What would fit: ").removesuffix(".").split(", ")
    needed = ways[0].removeprefix("max_memory='").removesuffix("'")
    assert whyword.explain(long_model, prompt_of(LONG), target=5, max_memory=str(int(needed[:-2]) + 1) + "MB")
    longest = int(ways[-1].removeprefix("a prompt of at most ").removesuffix(" tokens"))
    assert 0 < longest < LONG
    whyword.explain(long_model, prompt_of(longest), target=5, max_memory="18MB")
    with pytest.raises(whyword.InputError):
        whyword.explain(long_model, prompt_of(longest + 1), target=5, max_memory="18MB")


def test_a_continuation_is_bounded_too(long_model: whyword.Model) -> None:
    with pytest.raises(whyword.InputError, match="allowed by max_memory"):
        whyword.explain_continuation(long_model, prompt_of(300), prompt_of(300), max_memory="17MB")


@pytest.mark.parametrize(
    ("name", "dtype", "sizes"),
    [
        ("llama", torch.bfloat16, {"intermediate_size": 6000}),
        ("mixtral", torch.float32, {"intermediate_size": 900}),
        ("qwen2-moe", torch.float32, {"moe_intermediate_size": 700}),
        ("gpt-oss", torch.float32, {"intermediate_size": 700}),
        ("gpt2", torch.float32, {"vocab_size": 20000}),
    ],
)
def test_neurons_take_what_was_estimated(name: str, dtype: torch.dtype, sizes: dict[str, int]) -> None:
    model, peaks = whyword.load(build(name, dtype, **sizes)), []
    options: Any = {"target": 5, "foil": 9}
    for ask_once in (
        lambda: whyword.explain(model, prompt_of(9), **options, method="logit"),
        lambda: whyword.neurons(model, prompt_of(9), **options),
    ):
        ask_once()  # what is kept for later runs is not counted
        with Held(model) as held:
            ask_once()
        peaks.append(held.peak)
    without, with_ = (estimate(model, Request(1, 9), plan) for plan in (Plan(), Plan(neurons=True)))
    measured, estimated = peaks[1] - peaks[0], with_ - without
    assert measured <= estimated <= 3 * measured


@pytest.mark.parametrize("name", ["marian", "t5"])
def test_translations_take_what_was_estimated(name: str) -> None:
    sizes = {} if name == "t5" else {"max_position_embeddings": 256}
    model = whyword.load(build(name, torch.float32, **sizes))
    source, translation = prompt_of(200), prompt_of(48, 1)
    request, explain = Request(1, 48, 48, 200), partial(whyword.explain_translation, model, source)
    with Held(model) as forward:
        run(model, [translation], [source])
    for method, plan in [("logit", Plan()), ("alti-logit", Plan(3)), ("flow", Plan(3, frozen=True))]:
        whole = explain(translation, method=method)  # what is kept for later runs is not counted
        with Held(model) as held:
            explain(translation, method=method)
        estimated = estimate(model, request, plan)
        assert held.peak - forward.peak <= estimated <= 3 * held.peak + 16 * 10**6
        with pytest.raises(whyword.InputError, match="48 tokens of a translation of 200 takes") as error:
            explain(translation, method=method, max_memory="16.1MB")
        smallest = error.value.remedy.removeprefix("What would fit: max_memory='").split("'")[0]
        assert read_size(smallest) <= estimated + 10**6
        least = explain(translation, method=method, max_memory=read_size(smallest) + 10**6)
        torch.testing.assert_close(least.scores, whole.scores, rtol=1e-2, atol=1e-2)


def test_neurons_that_do_not_fit_are_refused() -> None:
    model = whyword.load(build("llama", torch.float32, intermediate_size=200_000))
    with pytest.raises(whyword.InputError, match=r"allowed by max_memory\.\nWhat would fit: ") as error:
        whyword.neurons(model, prompt_of(9), max_memory="17MB")
    assert "method=" not in error.value.remedy  # neurons have no other method
    needed = estimate(model, Request(1, 9), Plan(neurons=True))
    assert f"max_memory='{needed / 1e6:.0f}MB'" in error.value.remedy
    assert whyword.neurons(model, prompt_of(9), max_memory=needed).named


def test_batches_leave_room_for_neurons(monkeypatch: pytest.MonkeyPatch) -> None:
    model = whyword.load(build("llama", torch.float32, intermediate_size=20_000))
    asked = [many_prompts.Asked(n, *ask(model, prompt_of(9, n), 5, 9)) for n in range(20)]
    room = 2 * estimate(model, Request(20, 9), Plan()) + 4 * 10**6
    monkeypatch.setattr(many_prompts, "free_memory", lambda _device: room)
    plain, neurons = (
        many_prompts.cut_prompts(model, asked, Plan(neurons=neurons), None) for neurons in (False, True)
    )
    assert [len(batch) for batch in plain] == [20]
    largest = max(map(len, neurons))
    assert 1 <= largest < 20
    assert estimate(model, Request(largest, 9), Plan(neurons=True)) <= room / 2


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_every_family_is_estimated(name: str) -> None:
    model = whyword.load(build(name, torch.float32))
    sizes = [estimate(model, Request(1, tokens), Plan(2)) for tokens in (10, 100, 1000)]
    assert sizes == sorted(set(sizes))
    assert estimate(model, Request(1, 100), Plan(0)) < sizes[1] < estimate(model, Request(2, 100), Plan(2))
    neurons = [estimate(model, Request(count, 100), Plan(neurons=True)) for count in (1, 2)]
    assert estimate(model, Request(1, 100), Plan()) < neurons[0] < neurons[1]


@pytest.mark.parametrize(
    ("size", "bytes_"),
    [(5, 5), ("7", 7), ("2GB", 2 * 10**9), ("500 mb", 5 * 10**8), ("1.5GiB", 3 * 2**29), ("64k", 64_000)],
)
def test_sizes_are_read(size: int | str, bytes_: int) -> None:
    assert read_size(size) == bytes_


@pytest.mark.parametrize("size", [0, -3, "much", "2 TB?", "", "GB"])
def test_what_is_no_size_is_refused(size: int | str) -> None:
    with pytest.raises(whyword.InputError, match="max_memory is"):
        read_size(size)


def test_free_memory_is_some() -> None:
    assert 10**6 < free_memory(torch.device("cpu")) < 10**14


def test_progress_is_told_block_by_block(gpt2: whyword.Model) -> None:
    told: list[tuple[str, int, int | None]] = []
    with listen(lambda *event: told.append(event)):
        whyword.explain(gpt2, [3, 4], target=5)
        list(whyword.explain_batch(gpt2, [[3], [4]], targets=5))
        list(whyword.explain_batch(gpt2, iter([[3]]), targets=5))
    blocks = [("blocks", done, 3) for done in (1, 2, 3)]
    assert told == [*blocks, *blocks, ("prompts", 1, 2), ("prompts", 2, 2), *blocks, ("prompts", 1, None)]
    whyword.explain(gpt2, [3, 4], target=5)
    assert len(told) == 12


def test_progress_is_shown_on_a_terminal_only(
    gpt2: whyword.Model, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with whyword.show_progress():
        whyword.explain(gpt2, [3, 4], target=5)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setenv("FORCE_COLOR", "1")
    with whyword.show_progress("Explaining"):
        whyword.explain(gpt2, [3, 4], target=5)
    assert "Explaining · blocks" in capsys.readouterr().err


_COUNT_NEW_PAGES = """
import ctypes
import resource
from whyword.trace.heap_holes import keep_end
malloc, free = ctypes.CDLL(None).malloc, ctypes.CDLL(None).free
malloc.restype, free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
keep_end()
def use():
    pieces = [malloc(2**21) for _ in range(16)]
    for piece in pieces:
        ctypes.memset(ctypes.c_void_p(piece), 1, 2**21)
    for piece in pieces:
        free(piece)
use()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
use()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="needs glibc")
def test_the_heap_keeps_what_is_free_at_its_end_unless_told_otherwise() -> None:
    def count_new_pages(**settings: str) -> int:
        every = {**os.environ, **settings}
        done = subprocess.run(
            [sys.executable, "-c", _COUNT_NEW_PAGES], env=every, capture_output=True, check=True
        )
        return int(done.stdout)

    pages = 16 * 2**21 // resource.getpagesize()
    assert count_new_pages() < pages / 100
    assert count_new_pages(MALLOC_TRIM_THRESHOLD_="1048576") > pages / 2
