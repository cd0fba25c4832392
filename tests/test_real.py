"""Behaviour on real weights: SmolLM2-135M-Instruct, against figures measured with a plain script."""

from pathlib import Path

import gguf
import pytest
import torch
import transformers

import whyword
from whyword.ask.start_of_text import find_start

from weights import fetch_folder, fetch_gguf

pytestmark = pytest.mark.real
PROMPT = "A report about the Impressionists"


@pytest.fixture
def prompt(smollm: whyword.Model) -> whyword.Tokens:
    return whyword.tokenize(smollm, PROMPT, start="none")


@pytest.mark.parametrize(
    ("method", "scores"),
    [
        ("logit", [0.79, 0.82, -0.39, -0.19, -0.35, -0.10]),
        ("alti-logit", [1.10, 0.15, -0.18, -0.13, -0.34, -0.01]),
    ],
)
def test_the_example(smollm: whyword.Model, prompt: whyword.Tokens, method: str, scores: list[float]) -> None:
    e = whyword.explain(smollm, prompt, target="has", foil="have", method=method)
    assert [token.text for token in e.tokens] == ["A", " report", " about", " the", " Impression", "ists"]
    assert e.ledger.logit == pytest.approx(2.111, abs=5e-4)
    assert float(e.ledger.mlp.sum()) == pytest.approx(1.517, abs=5e-4)
    assert e.ledger.embedding == pytest.approx(0.007, abs=5e-4)
    assert e.ledger.error <= 1e-4
    torch.testing.assert_close(e.scores, torch.tensor(scores), rtol=0, atol=0.006)
    assert [word for word, _ in e.words()] == PROMPT.split()


def test_the_example_with_the_start_that_the_model_expects(smollm: whyword.Model) -> None:
    found = find_start(smollm)
    assert (found.text, found.chosen) == ("<|endoftext|>", "found")
    assert found.likelihoods["<|endoftext|>"] > found.likelihoods["none"] + 0.5
    e = whyword.explain(smollm, PROMPT, target="has", foil="have")
    assert (e.method, e.ledger.logit) == ("flow", pytest.approx(5.101, abs=5e-4))
    scores = dict(e.words())
    assert [*scores] == ["start", *PROMPT.split()]
    assert max(PROMPT.split(), key=lambda word: scores[word]) == "report"
    assert sum(scores.values()) + float(e.bias[3]) == pytest.approx(e.ledger.logit, abs=1e-4)
    for depth, expected in (
        (0, [3.52, 0.95, 0.88, -0.03, -0.07, -0.02, -0.13]),
        (15, [1.29, 0.57, 2.95, 0.09, 0.04, 0.03, 0.12]),
        (24, [0.44, 0.17, 3.65, 0.11, 0.05, -0.01, 0.69]),
    ):
        assert e.flow[depth].tolist() == pytest.approx(expected, abs=0.006)


def test_a_name_is_moved_by_a_name(smollm: whyword.Model) -> None:
    """Indirect object: the evidence for the name is where the name stands."""
    prompt = "After the lunch, Mary and John went to the school. John gave a book to"
    e = whyword.explain(smollm, prompt, target="Mary", foil="John", method="logit")
    assert e.ledger.logit > 0
    assert e.tokens[int(e.scores.argmax())].text == " Mary"


def test_a_chat(smollm: whyword.Model) -> None:
    e = whyword.explain(smollm, [{"role": "user", "content": "What is the capital of France?"}])
    assert e.target.text == "The"
    assert e.tokens.text.endswith("<|im_start|>assistant\n")
    assert e.ledger.error <= 1e-4


def test_a_long_continuation_from_one_pass(smollm: whyword.Model) -> None:
    c = whyword.explain_continuation(smollm, "The capital of France is", new_tokens=12)
    assert c.text.startswith(" Paris")
    assert max(e.ledger.error for e in c) <= 1e-4
    alone = whyword.explain(smollm, c[5].tokens)
    torch.testing.assert_close(alone.scores, c[5].scores, rtol=1e-3, atol=1e-4)


def test_half_precision(smollm: whyword.Model, prompt: whyword.Tokens) -> None:
    """In bfloat16; float16, which is slow on a CPU, is tested on small models."""
    exact = whyword.explain(smollm, prompt, target="has", foil="have", method="alti-logit")
    network = type(smollm.network)(smollm.network.config).to(torch.bfloat16)
    network.load_state_dict(smollm.network.state_dict())
    half = whyword.load(network, tokenizer=smollm.tokenizer)
    e = whyword.explain(half, prompt, target="has", foil="have", method="alti-logit")
    assert e.ledger.error <= 2e-2
    assert float((e.scores - exact.scores).abs().max()) <= 0.2


GGUF_NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "blk.0.ffn_down.weight": "model.layers.0.mlp.down_proj.weight",
    "blk.29.attn_v.weight": "model.layers.29.self_attn.v_proj.weight",
    "output_norm.weight": "model.norm.weight",
}
"""Tensors that both formats hold in the same order, the first and the last block among them."""


def test_the_default_is_what_the_gguf_file_holds(smollm: whyword.Model) -> None:
    """What a whole conversion gives is tested on a small file, in test_fetch.py."""
    path = fetch_gguf()
    tensors = {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}
    assert len(tensors) == 2 + 9 * len(smollm.blocks)
    for name, own in GGUF_NAMES.items():
        expected = gguf.quants.dequantize(tensors[name].data, tensors[name].tensor_type)
        assert torch.equal(smollm.network.state_dict()[own], torch.from_numpy(expected.copy()))
    tokenizer = transformers.AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    for text in (
        PROMPT,
        "def f(x):\n    return x + 10  # ß 日本 😀\n\n\tdon't",
        "<|im_start|>user\nHi<|im_end|>\n",
    ):
        ids = smollm.tokenizer(text).input_ids
        assert ids == tokenizer(text, add_special_tokens=False).input_ids  # transformers 4 adds BOS
    assert smollm.tokenizer.chat_template == tokenizer.chat_template
    assert (smollm.tokenizer.bos_token_id, smollm.tokenizer.eos_token_id) == (1, 2)


def test_the_default_is_loaded_when_nothing_is_named(smollm: whyword.Model) -> None:
    assert whyword.load().name == smollm.name == "smollm2-135m-instruct"


def test_gemma_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fetch_folder("gemma-3-270m")
    monkeypatch.chdir(tmp_path)
    gemma = whyword.load("gemma-3-270m")
    e = whyword.explain(gemma, "The capital of France is", target="Paris", foil="London")
    assert [token.text for token in e.tokens] == ["<bos>", "The", " capital", " of", " France", " is"]
    assert (e.tokens.start, e.tokens.chosen) == (1, "tokenizer")
    assert e.ledger.logit > 2
    assert e.ledger.error <= 1e-4
