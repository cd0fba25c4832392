"""Convert a GGUF file to a folder of safetensors and tokenizer files that every supported transformers reads.

Weights come from transformers' own GGUF reader. The tokenizer is built here from the facts in the file,
since versions of transformers interpret them differently (whether a BOS token is added, which one is EOS).
"""

import json
import shutil
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any

import torch
from gguf import GGUFReader
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import AutoModelForCausalLM
from transformers.utils import logging

__all__ = ["convert"]

_CONTROL, _USER_DEFINED = 3, 4  # token types of the GGUF format
_SPACE = "▁"
_OLDEST = "4.57.0"


def convert(gguf: Path, folder: Path) -> None:
    """Write weights (float32), configuration and tokenizer of a GGUF file into a folder."""
    with _silence():
        _write_network(gguf, folder)
    _write_tokenizer(gguf, folder)


def _write_network(gguf: Path, folder: Path) -> None:
    network = AutoModelForCausalLM.from_pretrained(
        gguf.parent, gguf_file=gguf.name, dtype=torch.float32, local_files_only=True
    )
    config = network.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    with torch.device("meta"):
        fresh = type(network)(config)  # a copy that does not count as quantised: saving that is refused
    fresh.load_state_dict(network.state_dict(), assign=True)
    fresh.tie_weights()
    fresh.generation_config = network.generation_config
    fresh.save_pretrained(folder)
    _settle_config(folder / "config.json")
    for path in folder.glob("*.safetensors"):  # they are written readable by their owner only
        shutil.copymode(folder / "config.json", path)


def _settle_config(path: Path) -> None:
    """Write the configuration so that transformers 4 and 5 read the same from it.

    The base of rotary positions is also written under its name in transformers 4, which knows no other. The
    version is that of the oldest release that reads it: 4.57.6 takes its own number for a sign of a wrong
    tokenizer.
    """
    config = json.loads(path.read_text(encoding="utf-8")) | {"transformers_version": _OLDEST}
    rope = config.get("rope_parameters", {})
    if "full_attention" in rope:
        config["rope_theta"] = rope["full_attention"]["rope_theta"]
        config["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"]
    elif rope:
        config["rope_theta"] = rope["rope_theta"]
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def _write_tokenizer(gguf: Path, folder: Path) -> None:
    facts = _read_facts(gguf)
    texts = facts["tokens"]
    tokenizer = _BUILDERS[facts["model"]](facts)
    vocabulary = tokenizer.get_vocab()
    types = list(zip(texts, facts["token_type"], strict=True))
    tokenizer.add_special_tokens(
        [AddedToken(text, normalized=False, special=True) for text, type_ in types if type_ == _CONTROL]
    )
    tokenizer.add_tokens(
        [
            AddedToken(text, normalized=False, special=False)
            for text, type_ in types
            if type_ == _USER_DEFINED and text in vocabulary
        ]
    )
    if facts.get("add_bos_token", False):
        bos = facts["bos_token_id"]
        tokenizer.post_processor = processors.TemplateProcessing(
            single=[texts[bos], "$A"],
            pair=[texts[bos], "$A", f"{texts[bos]}:1", "$B:1"],
            special_tokens=[(texts[bos], bos)],
        )
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    for kind, key in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding")):
        if f"{key}_token_id" in facts:
            settings[f"{kind}_token"] = texts[facts[f"{key}_token_id"]]
    if "chat_template" in facts:
        settings["chat_template"] = facts["chat_template"]
    text = json.dumps(settings, indent=2, ensure_ascii=False) + "\n"
    (folder / "tokenizer_config.json").write_text(text, encoding="utf-8")


def _read_facts(gguf: Path) -> dict[str, Any]:
    """Read what a GGUF file states about its tokenizer, by the last part of the name."""
    return {
        key.split(".")[-1]: field.contents()
        for key, field in GGUFReader(gguf).fields.items()
        if key.startswith("tokenizer.")
    }


def _build_byte_level(facts: Mapping[str, Any]) -> Tokenizer:
    """Build a byte-level BPE tokenizer with merges from the file."""
    vocabulary = {text: id_ for id_, text in enumerate(facts["tokens"])}
    left_right = [merge.split(" ") for merge in facts["merges"]]
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[(left, right) for left, right in left_right]))
    bytes_ = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    digits = pre_tokenizers.Digits(individual_digits=True)
    splits = {"smollm": pre_tokenizers.Sequence([digits, bytes_]), "gpt-2": bytes_, "default": bytes_}
    tokenizer.pre_tokenizer = splits[facts["pre"]]
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _build_sentence_piece(facts: Mapping[str, Any]) -> Tokenizer:
    """Build Gemma's tokenizer: pieces in the order of their merges, with byte fallback."""
    texts = [_SPACE * len(text) if text and not text.strip(" ") else text for text in facts["tokens"]]
    vocabulary = {text: id_ for id_, text in enumerate(texts)}
    tokenizer = Tokenizer(
        models.BPE(
            vocab=vocabulary,
            merges=_merges_of(vocabulary),
            unk_token=texts[facts["unknown_token_id"]],
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    tokenizer.normalizer = normalizers.Replace(" ", _SPACE)
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", behavior="merged_with_previous")
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    return tokenizer


def _merges_of(vocabulary: Mapping[str, int]) -> list[tuple[str, str]]:
    """Return the merges implied by a vocabulary in merge order: every way to make each piece."""
    merges = []
    for text in sorted(vocabulary, key=lambda text: vocabulary[text]):
        splits = [(text[:place], text[place:]) for place in range(1, len(text))]
        ways = [(left, right) for left, right in splits if left in vocabulary and right in vocabulary]
        merges.extend(sorted(ways, key=lambda way: (-len(way[0]), vocabulary[way[0]], vocabulary[way[1]])))
    return merges


_BUILDERS: dict[str, Callable[[Mapping[str, Any]], Tokenizer]] = {
    "gpt2": _build_byte_level,
    "llama": _build_sentence_piece,
}


def _silence() -> AbstractContextManager[Any]:
    """Suppress transformers' warnings and progress bars about reading the file."""
    stack = ExitStack()
    stack.callback(logging.set_verbosity, logging.get_verbosity())
    logging.set_verbosity_error()
    stack.enter_context(redirect_stderr(StringIO()))
    return stack
