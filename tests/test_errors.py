"""Bad input: one line what is wrong with its values, one line what to do."""

import json
import pickle
import re
import shutil
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

import whyword
from whyword.models.catalogue import CATALOGUE
from whyword.models.translators import TRANSLATORS
from whyword.tokens import Token

import toy_tokenizers
from families import build, prompt_of


@pytest.fixture(scope="module")
def model() -> whyword.Model:
    tokenizer = toy_tokenizers.make("byte-level")
    return whyword.load(
        build("gpt2", torch.float32, vocab_size=len(tokenizer)), tokenizer=tokenizer, start="tokenizer"
    )


@pytest.fixture(scope="module")
def bare() -> whyword.Model:
    return whyword.load(build("gpt2", torch.float32))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    build("gpt2", torch.float32).save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def token(id_: int) -> Token:
    return Token(id_, "x", 0, 1, 0, False)


def refuses(kind: type[whyword.WhywordError], wrong: str, remedy: str) -> Any:
    """Expect an error of exactly two lines that match."""
    return pytest.raises(kind, match=rf"^{wrong}\n{remedy}$")


def test_an_empty_prompt(model: whyword.Model, bare: whyword.Model) -> None:
    with refuses(whyword.InputError, r"The prompt is empty\.", r"Pass a text of at least one token\."):
        whyword.explain(model, "")
    with refuses(whyword.InputError, r"The prompt is empty\.", r"Pass at least one token\."):
        whyword.explain(bare, [])


def test_a_prompt_that_is_too_long(bare: whyword.Model) -> None:
    with refuses(
        whyword.InputError,
        r"The prompt has 70 tokens, GPT2LMHeadModel has positions for 64\.",
        r"Shorten it by 6 tokens\.",
    ):
        whyword.explain(bare, prompt_of(70), target=5)
    with pytest.raises(whyword.InputError, match="has 65 tokens, GPT2LMHeadModel has positions for 64"):
        whyword.explain_continuation(bare, prompt_of(60), prompt_of(6))
    assert len(whyword.explain_continuation(bare, prompt_of(60), prompt_of(5))) == 5
    assert len(whyword.explain_continuation(bare, prompt_of(62))) == 3  # as many as there is room for
    with refuses(whyword.InputError, r"new_tokens is 0\.", r"Let the model generate at least one token\."):
        whyword.explain_continuation(bare, prompt_of(3), new_tokens=0)


def test_a_target_that_is_its_foil(model: whyword.Model) -> None:
    wrong = r"Target ' has' and foil 'has' are the same tokens \[\d+\]\."
    with refuses(whyword.InputError, wrong, r"Name two that differ\."):
        whyword.explain(model, "A report", target=" has", foil="has")
    with pytest.raises(whyword.InputError, match="Target 7 and foil 7 are the same tokens"):
        whyword.explain(model, "A report", target=7, foil=7)


def test_a_word_that_begins_the_other(model: whyword.Model) -> None:
    with refuses(
        whyword.InputError,
        r"'12' \(tokens \[.*\]\) begins '1234' \(tokens \[.*\]\): they never differ\.",
        r"Name two words of which neither begins the other\.",
    ):
        whyword.explain(model, "A report", target="1234", foil="12")


def test_foils_that_leave_the_target_at_different_tokens(model: whyword.Model) -> None:
    with refuses(
        whyword.InputError,
        r"The foils 'toto34', 'have' diverge from 'toto12' at different tokens\.",
        r"Explain them one at a time\.",
    ):
        whyword.explain(model, "A report", target="toto12", foil=["toto34", "have"])


def test_a_foil_that_is_the_first_choice(model: whyword.Model) -> None:
    first = whyword.explain(model, "A report").target
    with pytest.raises(whyword.InputError, match="The model's first choice is the foil itself"):
        whyword.explain(model, "A report", foil=first.id)


def test_a_word_without_tokens(model: whyword.Model) -> None:
    for word in ("", "   "):
        with refuses(whyword.InputError, rf"'{word}' has no tokens\.", r"Pass a word or a token id\."):
            whyword.explain(model, "A report", target=word)


def test_text_without_a_tokenizer(bare: whyword.Model) -> None:
    remedy = r"Pass token ids, or load it with whyword\.load\(\.\.\., tokenizer=\.\.\.\)\."
    name = "GPT2LMHeadModel was loaded without a tokenizer, so"
    with refuses(whyword.InputError, rf"{name} the text 'A report' cannot be read\.", remedy):
        whyword.explain(bare, "A report")
    with refuses(whyword.InputError, rf"{name} the word 'has' cannot be read\.", remedy):
        whyword.explain(bare, [1, 2], target="has")
    with refuses(whyword.InputError, rf"{name} chat messages cannot be read\.", remedy):
        whyword.explain(bare, [{"role": "user", "content": "A report"}])


def test_ids_that_are_not_tokens(bare: whyword.Model) -> None:
    remedy = r"Token ids go from 0 to 96\."
    with refuses(whyword.InputError, r"There is no token 97 in GPT2LMHeadModel\.", remedy):
        whyword.explain(bare, [3, 97])
    with refuses(whyword.InputError, r"There is no token -1 in GPT2LMHeadModel\.", remedy):
        whyword.explain(bare, [3], target=-1)
    with pytest.raises(whyword.InputError, match=r"shape \(1, 2\)"):
        whyword.explain(bare, torch.tensor([[3, 4]]))
    with pytest.raises(whyword.InputError, match=r"type torch\.float32"):
        whyword.explain(bare, torch.tensor([3.0, 4.0]))
    for outside in (97, -1):
        with pytest.raises(whyword.InputError, match=f"There is no token {outside} in"):
            whyword.explain_continuation(bare, [3], [4, outside])
        with pytest.raises(whyword.InputError, match=f"There is no token {outside} in"):
            whyword.explain(bare, replace(whyword.explain(bare, [3]).tokens, records=(token(outside),)))


@pytest.mark.parametrize("continuation", [3, 2.5, [2.5], ["has"], b"has", [[3, 4]]])
def test_continuation_that_is_not_one(continuation: Any, llama: whyword.Model) -> None:
    with pytest.raises(whyword.InputError, match=r"^A continuation cannot be "):
        whyword.explain_continuation(llama, [3, 4], continuation)


def test_methods_in_the_place_of_one(llama: whyword.Model) -> None:
    with pytest.raises(whyword.InputError, match=r"^There is no method \['flow'\]\."):
        whyword.explain(llama, [3, 4], method=["flow"])


def test_options_that_do_not_exist(model: whyword.Model) -> None:
    with refuses(
        whyword.InputError,
        r"There is no method 'saliency'\.",
        r"Methods: .*alti-logit, .*erasure, .*, random\.",
    ):
        whyword.explain(model, "A report", method="saliency")
    with pytest.raises(whyword.InputError, match=r"^foil is 'have'\."):
        whyword.explain_continuation(model, "A report", "has", foil="have")
    with pytest.raises(whyword.InputError, match=r"^Message 1 has no role: {'text': 'A report'}\."):
        whyword.explain(model, [{"text": "A report"}])
    with pytest.raises(whyword.InputError, match=r"^The continuation is empty\."):
        whyword.explain_continuation(model, "A report", [])


def test_a_tokenizer_without_bos_or_template(model: whyword.Model) -> None:
    tokenizer = toy_tokenizers.make("byte-level")
    tokenizer.chat_template = None
    tokenizer.bos_token = None
    other = whyword.load(model.network, tokenizer=tokenizer, start="tokenizer")
    with pytest.raises(whyword.InputError, match="has no BOS token"):
        whyword.tokenize(other, "A report", start="bos")
    with pytest.raises(whyword.InputError, match="has no chat template"):
        whyword.explain(other, [{"role": "user", "content": "A report"}])


def test_an_unknown_name_without_network() -> None:
    with refuses(
        whyword.ModelError,
        r"'no-such/model' is not in the local cache, and the hub cannot be reached\.",
        r"Go online \(and unset HF_HUB_OFFLINE\) to fetch it once, or pass a local folder\.",
    ):
        whyword.load("no-such/model")


def test_a_path_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(
        whyword.ModelError, match=rf"^There is no folder {re.escape(str(tmp_path))}/nothing\."
    ):
        whyword.load(tmp_path / "nothing")
    with pytest.raises(whyword.ModelError, match=r"^There is no file .*missing\.gguf\."):
        whyword.load(tmp_path / "missing.gguf")
    (tmp_path / "notes.txt").write_text("notes")
    with pytest.raises(whyword.ModelError, match=r"notes\.txt is neither a folder nor a \.gguf file"):
        whyword.load(tmp_path / "notes.txt")
    with pytest.raises(whyword.ModelError, match=r"^A model cannot be loaded from a int\."):
        whyword.load(3)


def test_a_folder_without_weights(folder: Path) -> None:
    assert whyword.load(folder).tokenizer is None
    (folder / "model.safetensors").unlink()
    with pytest.raises(whyword.ModelError, match=r"has no weights \(\*\.safetensors\)\.\nPass a folder that"):
        whyword.load(folder)
    (folder / "config.json").unlink()
    with pytest.raises(whyword.ModelError, match=r"has no config\.json\.\nPass a folder that"):
        whyword.load(folder)


def test_a_checkpoint_with_weights_missing(folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    del weights["transformer.h.1.mlp.c_fc.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(
        whyword.ModelError, match=r"lacks 1 weights of GPT2LMHeadModel, among them .*h\.1\.mlp\.c_fc"
    ):
        whyword.load(folder)


def test_a_pickle_is_refused_unless_it_is_named(folder: Path) -> None:
    network = build("gpt2", torch.float32)
    (folder / "model.safetensors").unlink()
    torch.save(network.state_dict(), folder / "pytorch_model.bin")
    with refuses(
        whyword.ModelError,
        r".* has its weights in a pickle \(pytorch_model\.bin\), which can run any code when it is loaded\.",
        r"If you trust it, pass whyword\.load\(\.\.\., allow='pickle'\); better, save it as safetensors\.",
    ):
        whyword.load(folder)
    model = whyword.load(folder, allow="pickle")
    torch.testing.assert_close(model.network.transformer.wte.weight, network.transformer.wte.weight)
    with pytest.raises(
        whyword.ModelError, match=r"^allow names 'all'\.\nWhat can be allowed: pickle, remote-code\.$"
    ):
        whyword.load(folder, allow="all")


def test_remote_code_is_refused_unless_it_is_named(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    config["model_type"] = "made_up"
    config["auto_map"] = {"AutoConfig": "own.OwnConfig", "AutoModelForCausalLM": "own.OwnModel"}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "own.py").write_text(
        "from transformers import GPT2Config, GPT2LMHeadModel\n"
        "class OwnConfig(GPT2Config): model_type = 'made_up'\n"
        "class OwnModel(GPT2LMHeadModel): config_class = OwnConfig\n"
    )
    with refuses(
        whyword.ModelError,
        r".* needs remote code\.",
        r"If you trust it, pass whyword\.load\(\.\.\., allow='remote-code'\)\.",
    ):
        whyword.load(folder)
    with pytest.raises(
        whyword.ModelError, match=r"GPT2Model has no module 'layers'.*\nCatalogued: apertus, arcee, "
    ):
        whyword.load(folder, allow="remote-code")


def test_a_model_that_is_no_decoder(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "no_such_type"}))
    with pytest.raises(whyword.ModelError, match="Catalogued model types: apertus, arcee, "):
        whyword.load(folder)
    (folder / "config.json").write_text(json.dumps({"model_type": "vit"}))
    with pytest.raises(
        whyword.ModelError, match="is not a language model that this version of transformers knows"
    ):
        whyword.load(folder)


def test_a_type_of_weights_that_does_not_exist(folder: Path) -> None:
    with pytest.raises(
        whyword.ModelError, match=r"^dtype is 'int8'\.\nTypes: float64, float32, float16, bfloat16\.$"
    ):
        whyword.load(folder, dtype="int8")
    assert whyword.load(folder, dtype="float64").dtype == torch.float64
    with pytest.raises(
        whyword.ModelError, match=r"^dtype is float64 and device None, but the model in memory is"
    ):
        whyword.load(build("gpt2", torch.float32), dtype="float64")


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("method", ["logit", "alti-logit"])
def test_weights_that_are_not_finite(bad: float, method: str) -> None:
    network = build("gpt2", torch.float32)
    model = whyword.load(network)
    with torch.no_grad():
        network.transformer.h[1].mlp.c_fc.weight[3, 4] = bad
    parameter = r"transformer\.h\.1\.mlp\.c_fc\.weight"
    wrong = rf"The weights of GPT2LMHeadModel are not finite: {parameter} holds NaN or inf\."
    remedy = r"Load a checkpoint without NaN or inf; nothing can be explained with this one\."
    with refuses(whyword.ModelError, wrong, remedy):
        whyword.explain(model, prompt_of(9), target=5, method=method)
    with refuses(whyword.ModelError, wrong, remedy):
        whyword.load(network)


@pytest.mark.parametrize("method", ["logit", "alti-logit"])
def test_activations_that_overflow(method: str) -> None:
    network = build("gpt2", torch.float16)
    model = whyword.load(network)
    with torch.no_grad():
        network.transformer.h[1].mlp.c_proj.bias.fill_(60_000)
        network.transformer.h[2].mlp.c_proj.bias.fill_(60_000)
    with refuses(
        whyword.ModelError,
        r"GPT2LMHeadModel \(torch\.float16\) gave NaN or inf for this prompt, first in block 3\.",
        r"Load it with dtype='float32': activations of some models overflow in half precision\.",
    ):
        whyword.explain(model, prompt_of(9), target=5, method=method)


def test_documents_that_cannot_be_read(model: whyword.Model, tmp_path: Path) -> None:
    e = whyword.explain(model, "A report")
    with refuses(
        whyword.InputError,
        r"'x\.pdf' does not end in a known format\.",
        r"Known endings: \.json, \.html, \.tex, \.png, \.svg, \.csv\.",
    ):
        e.save(tmp_path / "x.pdf")
    with pytest.raises(whyword.InputError, match=r"cannot be read"):
        whyword.read(tmp_path / "nothing.json")
    (tmp_path / "old.json").write_text('{"schema": "whyword.explanation/0"}')
    with pytest.raises(
        whyword.InputError, match=r"has the schema 'whyword.explanation/0'\.\nThis version reads"
    ):
        whyword.read(tmp_path / "old.json")


def test_an_error_has_two_lines_whatever_it_quotes() -> None:
    error = whyword.InputError("'a\nb\u2028c\x1cd' is wrong.", "Give\r\nanother.")
    assert str(error).splitlines() == ["'a b c d' is wrong.", "Give another."]
    assert error.wrong == "'a b c d' is wrong."


def test_errors_survive_a_process_boundary() -> None:
    error = pickle.loads(pickle.dumps(whyword.ProofError("what", "do")))
    assert (error.wrong, error.remedy, str(error)) == ("what", "do", "what\ndo")


def test_a_tokenizer_folder_is_read(folder: Path) -> None:
    tokenizer = toy_tokenizers.make("byte-level")
    shutil.rmtree(folder)
    build("gpt2", torch.float32, vocab_size=len(tokenizer)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    assert whyword.explain(whyword.load(folder), "A report", target="has").target.text == " has"


def test_a_tokenizer_by_position() -> None:
    tokenizer = toy_tokenizers.make("byte-level")
    model = whyword.load(build("gpt2", torch.float32, vocab_size=len(tokenizer)), tokenizer)
    assert model.tokenizer is tokenizer
    assert whyword.explain(model, "A report", target="has").target.text == " has"


def test_things_of_the_wrong_type() -> None:
    """In a process of its own: here the type checker would be first."""
    code = """
        import sys, torch, whyword
        sys.path.insert(0, "tests")
        from families import build
        network = build("gpt2", torch.float32)
        model = whyword.load(network)
        for wrong in ((network, [3]), (model, ["a", "b"]), (model, None), (model, b"ab")):
            try:
                whyword.explain(*wrong)
            except whyword.InputError as error:
                print(error)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert done.stdout.strip().splitlines() == [
        "The model is a GPT2LMHeadModel.",
        "Load it first: model = whyword.load(your_model, tokenizer=...).",
        "A prompt cannot be ['a', 'b'].",
        "Pass text, token ids, chat messages ({'role': ..., 'content': ...}), or whyword.tokenize(...).",
        "A prompt cannot be None.",
        "Pass text, token ids, chat messages ({'role': ..., 'content': ...}), or whyword.tokenize(...).",
        "A prompt cannot be b'ab'.",
        "Pass text, token ids, chat messages ({'role': ..., 'content': ...}), or whyword.tokenize(...).",
    ]


def test_an_encoder_decoder_model_that_is_not_catalogued() -> None:
    config = transformers.UMT5Config(num_layers=1, d_model=8, d_kv=4, d_ff=8, num_heads=2, vocab_size=50)
    with refuses(
        whyword.ModelError,
        r"UMT5ForConditionalGeneration is an encoder–decoder model, but its description .* has no encoder\.",
        r"Catalogued with an encoder: bart, m2m_100, marian, .*",
    ):
        whyword.load(transformers.UMT5ForConditionalGeneration(config))


def test_a_decoder_without_its_encoder() -> None:
    config = transformers.BartConfig(decoder_layers=1, d_model=8, decoder_attention_heads=2, vocab_size=50)
    assert whyword.load(transformers.BartForCausalLM(config)).architecture.encoder is None
    with refuses(
        whyword.ModelError,
        r"BartForCausalLM has no encoder, but its description \(bart\) has one\.",
        r"Load it together with its encoder, or pass whyword\.load\(\.\.\., architecture=\.\.\.\)\.",
    ):
        whyword.load(transformers.BartForCausalLM(config), architecture=TRANSLATORS["bart"][0])


def test_prompts_are_not_for_translators() -> None:
    model = whyword.load(build("marian", torch.float32))
    remedy = r"Use whyword\.explain_translation\(model, source\), or `whyword translate`\."
    wrong = r"MarianMTModel is an encoder–decoder model: it needs a source, not a prompt\."
    with refuses(whyword.InputError, wrong, remedy):
        whyword.explain(model, [5, 6])
    with refuses(whyword.InputError, wrong, remedy):
        next(whyword.explain_batch(model, [[5, 6]]))


TINY = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 4, "num_attention_heads": 2}
REMEDY = r"Load a decoder-only language model with attention in every block\."


def test_a_norm_that_the_general_description_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(CATALOGUE, "starcoder2")
    config = transformers.Starcoder2Config(**TINY, num_key_value_heads=2, vocab_size=50)
    with pytest.raises(whyword.WhywordError, match=r"'starcoder2' is not catalogued.*\nCatalogued: apertus"):
        whyword.load(transformers.Starcoder2ForCausalLM(config))


def test_an_encoder() -> None:
    network = transformers.BertForMaskedLM(transformers.BertConfig(**TINY, vocab_size=50))
    wrong = r"BertForMaskedLM \(bert\) is an encoder: it sees the tokens that follow\."
    with refuses(whyword.ModelError, wrong, REMEDY):
        whyword.load(network)


def test_a_model_without_attention() -> None:
    config = transformers.MambaConfig(hidden_size=16, state_size=4, num_hidden_layers=1, vocab_size=50)
    wrong = r"MambaForCausalLM \(mamba\) has no attention: its blocks keep a state instead\."
    with refuses(whyword.ModelError, wrong, REMEDY):
        whyword.load(transformers.MambaForCausalLM(config))


def test_a_diffusion_model() -> None:
    network = build("llama", torch.float32)
    network.config.model_type = "llada"
    wrong = r"LlamaForCausalLM \(llada\) is a diffusion model: it fills in many tokens at once\."
    with refuses(whyword.ModelError, wrong, REMEDY):
        whyword.load(network)


def test_a_hybrid_model() -> None:
    config = transformers.JambaConfig(
        **TINY,
        vocab_size=50,
        attn_layer_period=2,
        attn_layer_offset=1,
        num_experts=2,
        use_mamba_kernels=False,
    )
    with refuses(
        whyword.ModelError,
        r"Of 4 blocks of JambaForCausalLM, these have no attention: 1, 3\.",
        r"Load a model with attention in every block\.",
    ):
        whyword.load(transformers.JambaForCausalLM(config))


def test_a_file_that_holds_no_weights(folder: Path) -> None:
    (folder / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1")
    with pytest.raises(whyword.ModelError, match=r"cannot be loaded: .*\n"):
        whyword.load(folder)


def test_a_chat_template_that_refuses(model: whyword.Model) -> None:
    tokenizer = toy_tokenizers.make("byte-level")
    tokenizer.chat_template = "{{ raise_exception('roles must alternate') }}"
    other = whyword.load(model.network, tokenizer=tokenizer, start="tokenizer")
    with pytest.raises(
        whyword.InputError, match=r"refuses these messages: roles must alternate\.\nUse the roles"
    ):
        whyword.explain(other, [{"role": "user", "content": "A report"}])


def test_a_damaged_document(model: whyword.Model, tmp_path: Path) -> None:
    document = whyword.explain(model, "A report").to_dict()
    del document["position"]
    (tmp_path / "e.json").write_text(json.dumps(document))
    with pytest.raises(whyword.InputError, match=r"e\.json is damaged: position: Field required\.\nGive"):
        whyword.read(tmp_path / "e.json")
