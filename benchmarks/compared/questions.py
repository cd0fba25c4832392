"""The same questions for every tool: networks, prompts of some lengths, rows of datasets, documents."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers

import whyword
from compared.answers import NETWORKS
from compared.documents import DOCUMENTS
from compared.protocol import NEW_TOKENS, read_question
from whyword.data import add_evidence, read_datasets
from whyword.evaluation.conventions import find_conventions, prepare
from whyword.models.bundled.cache import find_cache
from whyword.models.bundled.fetch import fetch

__all__ = ["Row", "find_network", "make_documents", "make_prompts", "make_rows"]

_WORDS = (" the", " of", " to", " and", " a", " in", " that", " it", " not", " is")
_TEXT = Path(__file__).parents[2] / "LICENSE"
_GROUPS = {"BLiMP": "blimp", "SVA": "sva", "IOI": "ioi"}


@dataclass(frozen=True)
class Row:
    """A row of a dataset, as a tool is asked about it and as its scores are ranked."""

    group: str
    question: dict[str, Any]
    """Token ids (with the start of text), target and foil; `few`: whether slow methods are asked, too."""
    evidence: tuple[int, ...]
    left_out: tuple[int, ...]
    """Special tokens, which are not ranked."""


def find_network(name: str) -> Path:
    """Return the folder of a network; the random one is made once, and reads with the other's tokenizer."""
    if name == NETWORKS[0]:
        return Path(fetch())
    folder = find_cache().parent / "peers" / "gpt2-random"
    if not (folder / "model.safetensors").is_file():
        torch.manual_seed(0)
        tokenizer = transformers.AutoTokenizer.from_pretrained(fetch())
        tokenizer.save_pretrained(folder)
        config = transformers.GPT2Config(
            bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id
        )
        transformers.GPT2LMHeadModel(config).save_pretrained(folder)
    return folder


def make_prompts(folder: Path, lengths: list[int], rounds: int) -> list[dict[str, Any]]:
    """Make prompts of English text; of ten words, the target is the likeliest, the foil the least likely."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    network = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    text = " ".join(_TEXT.read_text().split())
    every = [tokenizer.convert_tokens_to_ids("<|endoftext|>"), *tokenizer(text).input_ids]
    words = [tokenizer(word).input_ids[0] for word in _WORDS]
    prompts = []
    for length in lengths:
        if length > getattr(network.config, "n_positions", length):
            continue
        ids = every[:length]
        while tokenizer(tokenizer.decode(ids)).input_ids != ids:  # tools that take text must read the same
            every = [every[0], *every[2:]]
            ids = every[:length]
        with torch.no_grad():
            logits = network(input_ids=torch.tensor([ids]), logits_to_keep=1).logits[0, -1, words]
        target, foil = words[int(logits.argmax())], words[int(logits.argmin())]
        prompts.append({"ids": ids, "target": target, "foil": foil, "rounds": rounds})
    return prompts


def make_rows(data: Path, count: int, few: int) -> list[Row]:
    """Read the first rows of every dataset as our own evaluation reads them, by our conventions.

    About `count` of each group, as many of every dataset; `few` of these for slow methods, too.
    """
    model, conventions, rows = whyword.load(fetch()), find_conventions("ours"), []
    for group, name in _GROUPS.items():
        datasets = read_datasets([name], str(data))
        most = max(1, round(count / len(datasets)))
        for number, dataset in enumerate(datasets):
            least = few // len(datasets) + (number < few % len(datasets))
            first = dataset.first(4 * most)
            if not first.has_evidence:  # SVA: the subject is found in a parse
                first = add_evidence(first)
            prepared, _ = prepare(model, first, conventions)
            for place, row in enumerate(prepared[:most]):
                asked = {"ids": list(row.context.ids), "target": row.target, "foil": row.foil}
                left_out = tuple(conventions.leave_out(row.context))
                rows.append(Row(group, {**asked, "few": place < least}, row.evidence, left_out))
    return rows


@torch.no_grad()
def make_documents(folder: Path, count: int) -> list[dict[str, Any]]:
    """Give questions about three documents that the network answers right, equally many of each place."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    network = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    by_place: list[list[dict[str, Any]]] = [[], [], []]
    for group in DOCUMENTS:
        for right, (_, question, answer) in enumerate(group):
            asked = {
                "documents": [document for document, _, _ in group],
                "question": question,
                "right": right,
                "answer": answer,
            }
            ids = read_question(tokenizer, asked)
            written = network.generate(ids, max_new_tokens=NEW_TOKENS, do_sample=False)[0, ids.shape[1] :]
            if answer in tokenizer.decode(written):
                by_place[right].append(asked)
    same = min(count // 3, *map(len, by_place))
    return [asked for found in by_place for asked in found[:same]]
