"""Small real tokenizers of the kinds that matter, trained on the spot."""

from collections.abc import Sequence
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

CORPUS = [
    "A report about the Impressionists has been written by the painters.",
    "The reports about the Impressionist have been read, and the painter has gone home.",
    "She said that he has seen what they have not. They have; she has. He hasted.",
    "don't can't naïve été 日本語 text (with) brackets \"quoted\" 12 34",
] * 4
SPECIAL = ["<pad>", "<s>", "</s>", "<unk>", "<|turn|>", "<|end|>"]
CHAT = (
    "{% for m in messages %}<|turn|>{{ m['role'] }}\n{{ m['content'] }}"
    "{% if not loop.last or add_generation_prompt %}<|end|>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|turn|>assistant\n{% endif %}"
)
KINDS = ("byte-level", "byte-level-prefix-space", "sentencepiece", "sentencepiece-bos")


def make(kind: str, corpus: Sequence[str] = CORPUS, vocabulary: int = 420) -> Any:
    """Train a tokenizer: byte-level BPE (GPT-2; with and without prefix space) or SentencePiece (Llama)."""
    tokenizer = _byte_level(kind.endswith("prefix-space")) if kind.startswith("byte") else _sentencepiece()
    alphabet = pre_tokenizers.ByteLevel.alphabet() if kind.startswith("byte") else []
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(corpus, trainer)
    if kind.endswith("bos"):
        bos = [("<s>", tokenizer.token_to_id("<s>"))]
        tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=bos)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
        additional_special_tokens=["<|turn|>", "<|end|>"],
        chat_template=CHAT,
    )


def _byte_level(prefix_space: bool) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix_space)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=prefix_space)
    return tokenizer


def _sentencepiece() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="first")
    tokenizer.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="first")
    return tokenizer
