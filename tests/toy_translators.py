"""Small real tokenizers of translation models, trained on the spot, and tiny models that read with them."""

import json
from pathlib import Path
from typing import Any

import sentencepiece
import torch
import transformers

import whyword
from whyword.models.testing.tiny_families import build

CORPUS = [
    "Ich habe gestern in der Bibliothek ein Buch über Geschichte gelesen.",
    "I read a book about history in the library yesterday.",
    "我昨天在图书馆读了一本关于历史的书。",
    "Die Bank am Fluss ist alt. The bank of the river is old, and the shore is long.",
] * 8
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]


def train(folder: Path, name: str, vocabulary: int = 80) -> Path:
    """Train a SentencePiece model."""
    path = folder / name
    if not path.exists():
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(CORPUS),
            model_prefix=str(path.with_suffix("")),
            vocab_size=vocabulary,
            character_coverage=1.0,
            hard_vocab_limit=False,  # versions differ in how many pieces the corpus has
            minloglevel=2,
        )
        path.with_suffix(".vocab").unlink()
    return path


def pieces_of(path: Path) -> list[str]:
    """List the pieces of a SentencePiece model, special ones left out."""
    model = sentencepiece.SentencePieceProcessor(model_file=str(path))
    return [model.id_to_piece(index) for index in range(3, model.get_piece_size())]


def make_m2m_100(folder: Path) -> Any:
    """A slow tokenizer with language codes that stand first, on both sides."""
    spm = train(folder, "m2m.model")
    vocabulary = {piece: index for index, piece in enumerate([*SPECIAL, *pieces_of(spm)])}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    return transformers.M2M100Tokenizer(str(folder / "vocab.json"), str(spm), src_lang="de")


def make_mbart(folder: Path) -> Any:
    """A tokenizer that puts the language code last: slow with transformers 4, fast with 5."""
    spm = train(folder, "mbart.model")
    codes = {"src_lang": "de_DE", "tgt_lang": "en_XX"}
    if int(transformers.__version__.split(".")[0]) < 5:
        return transformers.MBartTokenizer(str(spm), **codes)
    model = sentencepiece.SentencePieceProcessor(model_file=str(spm))
    pieces = [(piece, model.get_score(model.piece_to_id(piece))) for piece in pieces_of(spm)]
    special = [(name, 0.0) for name in SPECIAL]
    return transformers.MBartTokenizer(vocab=[*special, *pieces], **codes)


def make_nllb(_folder: Path) -> Any:
    """A fast tokenizer with language codes, as NLLB has them."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    codes = ["deu_Latn", "eng_Latn", "zho_Hans"]
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=[*SPECIAL, *codes], show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="deu_Latn $A </s>",
        special_tokens=[(name, tokenizer.token_to_id(name)) for name in ("deu_Latn", "</s>")],
    )
    return _Switching(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
        additional_special_tokens=codes,
    )


class _Switching(transformers.PreTrainedTokenizerFast):
    """Changes its template with its languages, as NLLB's and mBART's tokenizers do."""

    tgt_lang: str | None = None
    _language = "deu_Latn"

    @property
    def src_lang(self) -> str:
        return self._language

    @src_lang.setter
    def src_lang(self, code: str) -> None:
        self._language = code
        self._switch_to_input_mode()

    def _switch_to_input_mode(self) -> None:
        self._put(self._language)

    def _switch_to_target_mode(self) -> None:
        assert self.tgt_lang is not None
        self._put(self.tgt_lang)

    def _put(self, code: str) -> None:
        from tokenizers import processors

        self._tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{code} $A </s>",
            special_tokens=[(name, self.convert_tokens_to_ids(name)) for name in (code, "</s>")],
        )


def load_tiny(tokenizer: Any, family: str = "m2m-100") -> whyword.Model:
    """Load a tiny model with random weights that reads with a tokenizer."""
    codes = getattr(tokenizer, "lang_code_to_id", {}).values()
    vocabulary = max(len(tokenizer), *tokenizer.added_tokens_decoder, *codes) + 1
    network = build(family, torch.float32, vocab_size=vocabulary, max_position_embeddings=256)
    network.generation_config.max_length = 40
    return whyword.load(network, tokenizer=tokenizer)
