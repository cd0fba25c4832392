"""What it costs to explain a translation, all its tokens, as ratios to the teacher-forced forward pass.

Bars: logit at most 1.3 × the forward pass with the model's own attention, alti-logit at most 2 ×; the updates
of a batch of lines (what an alignment needs) at most 2 ×. Where --folder has no model, one of the shape of
OPUS-MT (6 + 6 blocks, width 512) with random weights.

    python benchmarks/translation.py [--folder ../shared/models/opus-mt-zh-en]
"""

from pathlib import Path
from typing import Any

import torch
import transformers

import whyword
from whyword.ask.sentence_pair import Pair, pair_up
from whyword.ledger import Target, close, compute_entries
from whyword.pipeline.one_translation import record_pairs
from whyword.trace import Plan
from whyword.trace.running import run

from measure import check, interleave, parse, publish

BARS = {"logit": 1.3, "alti-logit": 2.0, "updates of a batch": 2.0}
SENTENCES = (
    ("他们明天去北京。", "They will go to Beijing tomorrow."),
    ("我昨天在图书馆读了一本关于历史的书。", "I read a book about history in the library yesterday."),
    (
        "中国政府星期二宣布，今年将进一步扩大对外开放，并采取措施吸引更多的外国投资，以促进经济的稳定增长和就业。",
        "The Chinese government announced on Tuesday that it would open up further to the outside world this "
        "year and take measures to attract more foreign investment, so as to promote stable economic growth "
        "and employment.",
    ),
)


def main() -> None:
    """Measure and publish."""
    options = parse(__doc__, rounds=15, folder=Path("../shared/models/opus-mt-zh-en"))
    transformers.logging.set_verbosity_error()
    model = whyword.load(options.folder, dtype="float32") if options.folder.is_dir() else _make_random()
    measured, checks = [], []
    pairs = _pairs(model)
    for batch in ([pairs[0]], [pairs[1]], [pairs[2]], [pairs[1]] * 16):
        name = f"{len(batch)} × ({len(batch[0].source)} + {len(batch[0].prompt)} tokens)"
        seconds = interleave(_runs(model, batch), options.rounds)
        measured.append({"sentences": name, "ms": {job: round(1000 * s, 2) for job, s in seconds.items()}})
        for job in BARS.keys() & seconds.keys():
            checks.append(check(f"{job} ÷ forward, {name}", seconds[job] / seconds["forward"], BARS[job]))
    publish({"model": model.name, "measured": measured, "checks": checks}, options.output)


def _runs(model: whyword.Model, batch: list[Pair]) -> dict[str, Any]:
    prompts, sources = [pair.prompt for pair in batch], [pair.source.ids for pair in batch]
    forward = {"forward": lambda: run(model, prompts, sources)}
    if len(batch) > 1:
        return {**forward, "updates of a batch": lambda: _update(model, batch)}
    source, target = (batch[0].source.text, batch[0].target.text)
    if model.tokenizer is None:
        source, target = batch[0].source.ids, batch[0].explained
    return {
        **forward,
        "logit": lambda: whyword.explain_translation(model, source, target, method="logit"),
        "alti-logit": lambda: whyword.explain_translation(model, source, target, method="alti-logit"),
    }


def _update(model: whyword.Model, pairs: list[Pair]) -> None:
    """Read off all updates of a batch, proven, without an explanation for each."""
    trace = record_pairs(model, pairs, Plan())
    targets = [Target(id_) for pair in pairs for id_ in pair.explained]
    close(model, compute_entries(model, trace, targets), list(trace.places))


def _pairs(model: whyword.Model) -> list[Pair]:
    if model.tokenizer is not None:
        return [pair_up(model, source, target) for source, target in SENTENCES]
    return [pair_up(model, list(range(3, 3 + n)), list(range(50, 50 + n))) for n in (8, 13, 40)]


def _make_random() -> whyword.Model:
    config = transformers.MarianConfig(
        vocab_size=65001,
        d_model=512,
        encoder_layers=6,
        decoder_layers=6,
        encoder_attention_heads=8,
        decoder_attention_heads=8,
        encoder_ffn_dim=2048,
        decoder_ffn_dim=2048,
        max_position_embeddings=512,
        pad_token_id=65000,
        eos_token_id=0,
        decoder_start_token_id=65000,
        scale_embedding=True,
    )
    torch.manual_seed(0)
    return whyword.load(transformers.MarianMTModel(config).eval())


if __name__ == "__main__":
    main()
