"""What people pass by mistake: half a character, a translator for a prompt, a network changed after load."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import whyword
from whyword.data import read_datasets
from whyword.evaluation import evaluate
from whyword.inside.ablation import ablate
from whyword.inside.survey import survey
from whyword.inside.top_examples import find_answers
from whyword.tokens.encoding import encode
from whyword.trace.running import generate

import toy_tokenizers
from families import build, prompt_of

HALF = "a \ud800 b"
REMEDY = "Give text that can be written in UTF-8."


@pytest.fixture(scope="module")
def model() -> whyword.Model:
    tokenizer = toy_tokenizers.make("byte-level")
    return whyword.load(build("gpt2", torch.float32, vocab_size=len(tokenizer)), tokenizer)


@pytest.mark.parametrize(
    "ask",
    [
        lambda model: whyword.explain(model, HALF),
        lambda model: whyword.explain(model, "A report", target=HALF),
        lambda model: whyword.explain(model, "A report", foil=["has", HALF]),
        lambda model: whyword.explain(model, [{"role": "user", "content": HALF}]),
        lambda model: whyword.explain_continuation(model, "A report", HALF),
        lambda model: list(whyword.explain_batch(model, ["A report", HALF])),
        lambda model: whyword.compare(model, HALF),
        lambda model: whyword.predict(model, HALF),
        lambda model: whyword.mixing(model, HALF),
        lambda model: whyword.neurons(model, HALF),
        lambda model: whyword.tokenize(model, HALF),
    ],
)
def test_half_a_character(ask: Callable[[whyword.Model], Any], model: whyword.Model) -> None:
    with pytest.raises(
        whyword.InputError, match=r"is not valid Unicode: character \d+ is half a ch"
    ) as caught:
        ask(model)
    assert caught.value.remedy == REMEDY


def test_an_error_that_names_half_a_character_can_be_printed(tmp_path: Path) -> None:
    for read in (whyword.read, whyword.open_run):
        with pytest.raises(whyword.InputError) as caught:
            read(tmp_path / "\udcff")
        assert "\\udcff" in str(caught.value).encode("utf-8").decode("utf-8")


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda model: whyword.tokenize(model, [3, 4]), "A text cannot be [3, 4]."),
        (lambda model: whyword.tokenize(model, b"A report"), "A text cannot be b'A report'."),
        (lambda model: whyword.tokenize(model, torch.tensor([3, 4])), "A text cannot be tensor([3, 4])."),
        (lambda model: whyword.explain_batch(model, 5), "The prompts are 5."),
        (lambda model: whyword.explain_batch(model, None), "The prompts are None."),
    ],
)
def test_what_is_no_text_or_list(
    ask: Callable[[whyword.Model], Any], said: str, model: whyword.Model
) -> None:
    with pytest.raises(whyword.InputError) as caught:
        ask(model)
    assert caught.value.wrong == said


def test_half_a_character_in_a_translation(opus: whyword.Model) -> None:
    for pair in ((HALF, None), ("Haus", HALF)):
        with pytest.raises(whyword.InputError, match="is not valid Unicode"):
            whyword.explain_translation(opus, *pair)
    with pytest.raises(whyword.InputError, match="is not valid Unicode"):
        whyword.align(opus, "ein Haus", HALF)


@pytest.mark.parametrize(
    ("arguments", "typed", "said"),
    [
        (
            [b"explain", b"\xff"],
            b"",
            "The text '\\udcff' is not valid Unicode: character 1 is the byte 0xff.",
        ),
        ([b"predict", b"a\xc3("], b"", "is not valid Unicode: character 2 is the byte 0xc3."),
        ([b"explain", b"A report", b"--target", b"\xed\xa0\x80"], b"", "character 1 is the byte 0xed."),
        ([b"explain", b"A report", b"--foil", b"\x80"], b"", "character 1 is the byte 0x80."),
        ([b"translate", b"\xfe", b"-m", b"none"], b"", "character 1 is the byte 0xfe."),
        ([b"explain", b"-"], b"ab\xff\n", "0xff."),
        ([b"explain", b"9" * 5000, b"--ids"], b"", f"'{'9' * 40}' is not a token id."),
    ],
)
def test_bytes_on_the_command_line(arguments: list[bytes], typed: bytes, said: str) -> None:
    """Refused before anything is imported that takes long."""
    command = [sys.executable.encode(), b"-X", b"importtime", b"-m", b"whyword", *arguments]
    done = subprocess.run(command, input=typed, capture_output=True)
    lines = done.stderr.decode().splitlines()
    assert not any(line.endswith(" torch") for line in lines)
    wrong, remedy = [line for line in lines if not line.startswith("import time:")]
    assert wrong.startswith("error: ")
    assert wrong.endswith(said)
    assert remedy
    assert done.returncode == 2


def test_a_tokenizer_that_fails() -> None:
    def panic(text: str) -> None:
        raise type("PanicException", (BaseException,), {})("index out of range\nat src/lib.rs")

    with pytest.raises(
        whyword.InputError, match=r"cannot read the text 'abc': index out of range\.\nUse a tok"
    ):
        encode(panic, "abc")

    def stop(text: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        encode(stop, "abc")


@pytest.mark.parametrize(
    "ask",
    [
        lambda model, _: whyword.neurons(model, [5, 6]),
        lambda model, data: survey(model, data, limit=2),
        lambda model, data: survey(model, data, part="heads", limit=2),
        lambda model, data: ablate(model, data, "1.1", limit=2),
        lambda model, data: find_answers(model, data, "1.1", limit=2),
        lambda model, data: evaluate(model, ["builtin-aga"], "nowhere", data="builtin", limit=2),
    ],
)
def test_a_translator_has_no_prompt(ask: Callable[[whyword.Model, Any], Any]) -> None:
    model = whyword.load(build("marian", torch.float32))
    with pytest.raises(
        whyword.InputError, match=r"^MarianMTModel is an encoder–decoder model: it needs a source"
    ):
        ask(model, read_datasets(["builtin-aga"], "builtin"))


@pytest.mark.parametrize("family", ["gpt2", "llama", "bloom"])
@pytest.mark.parametrize("size", [50, 200])
def test_embeddings_that_are_resized_after_load(family: str, size: int) -> None:
    network = build(family, torch.float32)
    model = whyword.load(network)
    network.resize_token_embeddings(size)
    e = whyword.explain(model, [5, 6, 7], target=3, foil=4)
    with torch.no_grad():
        logits = network(torch.tensor([[5, 6, 7]])).logits[0, -1]
    assert e.ledger.logit == pytest.approx(float(logits[3] - logits[4]), abs=1e-4)
    assert len(whyword.predict(model, [5, 6, 7], top=size)) == size
    with pytest.raises(
        whyword.InputError, match=rf"There is no token 200 .*\nToken ids go from 0 to {size - 1}\."
    ):
        whyword.explain(model, [5, 200])


def test_embeddings_of_a_translator_and_of_the_input_alone() -> None:
    network = build("marian", torch.float32)
    model = whyword.load(network)
    network.resize_token_embeddings(200)
    assert whyword.explain_translation(model, [5, 6], [7, 8]).ledgers[0].error < 1e-5
    network = build("gpt2", torch.float32)
    model = whyword.load(network)
    network.set_input_embeddings(torch.nn.Embedding(50, network.config.n_embd))
    with pytest.raises(whyword.InputError, match=r"There is no token 70 .*\nToken ids go from 0 to 49\."):
        whyword.explain(model, [5, 70])


def test_a_continuation_is_greedy_whatever_the_model_is_set_to() -> None:
    network = build("llama", torch.float32)
    network.generation_config.eos_token_id = 5
    model, prompt = whyword.load(network), prompt_of(6)
    greedy: list[int] = []
    with torch.no_grad():
        while len(greedy) < 6:
            greedy.append(int(network(torch.tensor([[*prompt, *greedy]])).logits[0, -1].argmax()))
    first, second = greedy[:2]
    settings = {
        "suppress_tokens": [first],
        "begin_suppress_tokens": [first],
        "bad_words_ids": [[first], [second]],
        "sequence_bias": [[[first], -100.0]],
        "min_new_tokens": 9,
        "min_length": 20,
        "forced_eos_token_id": 4,
        "exponential_decay_length_penalty": (1, 2.0),
        "no_repeat_ngram_size": 1,
        "repetition_penalty": 5.0,
        "encoder_repetition_penalty": 3.0,
        "max_time": 1e-9,
        "max_length": 7,
        "do_sample": True,
        "num_beams": 3,
        "num_return_sequences": 3,
        "return_dict_in_generate": True,
        "output_scores": True,
        "guidance_scale": 2.0,
        "cache_implementation": "static",
        "use_cache": False,
        "stop_strings": ["a"],
        "prompt_lookup_num_tokens": 2,
        "penalty_alpha": 0.5,
    }
    for name, value in settings.items():
        kept = getattr(network.generation_config, name)
        setattr(network.generation_config, name, value)
        assert generate(model, prompt, 6)[0] == greedy, name
        assert getattr(network.generation_config, name) == value
        setattr(network.generation_config, name, kept)
    for name, value in settings.items():  # all at once
        setattr(network.generation_config, name, value)
    assert generate(model, prompt, 6)[0] == greedy
    network.generation_config.eos_token_id = second  # the end is the model's own
    assert generate(model, prompt, 6)[0] == greedy[:2]


def test_a_network_that_goes_on_otherwise_with_its_cache() -> None:
    """What is generated one token at a time must be what the whole prompt predicts."""
    network = build("llama", torch.float64)
    mlp = network.model.layers[1].mlp
    own = mlp.forward
    mlp.forward = lambda stream: own(stream).cumsum(1)  # an MLP that keeps no cache
    model = whyword.load(network)
    with pytest.raises(whyword.ProofError, match="logit of the token that was generated = ") as caught:
        whyword.explain_continuation(model, prompt_of(9), new_tokens=6, method="logit")
    assert "use_cache" in caught.value.remedy
    network.generation_config.use_cache = False
    assert len(list(whyword.explain_continuation(model, prompt_of(9), new_tokens=6, method="logit"))) == 6


@pytest.mark.parametrize(
    "asked", [{"depth": True}, {"depth": False}, {"target": True}, {"foil": False}, {"prompt": [True, 3]}]
)
def test_truth_values_are_no_numbers(asked: dict[str, Any]) -> None:
    model, prompt = whyword.load(build("llama", torch.float32)), asked.pop("prompt", prompt_of(5))
    with pytest.raises(whyword.InputError):
        whyword.explain(model, prompt, **asked)


def test_foils_may_be_an_array() -> None:
    model, prompt = whyword.load(build("llama", torch.float32)), prompt_of(5)
    expected = whyword.explain(model, prompt, target=5, foil=[9, 11]).ledger.logit
    for foils in (np.array([9, 11]), torch.tensor([9, 11])):
        assert whyword.explain(model, prompt, target=5, foil=foils).ledger.logit == expected
