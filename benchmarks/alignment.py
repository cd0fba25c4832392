"""What it costs to align words, as a ratio to teacher-forced passes; and what changes the error rate.

Bar: logit for all decoder blocks at most 2 × the teacher-forced forward passes over the same batches. The
error rates are those of `logit` summed over all blocks, with words made of tokens in several ways.

    python benchmarks/alignment.py [--folder ../shared/models/opus-mt-zh-en]
                                   [--data ../shared/data/alignment/zh-en]
"""

from collections.abc import Callable
from pathlib import Path

import torch
import transformers
from torch import Tensor

import whyword
from whyword.alignment.aer import score_links
from whyword.alignment.aligner import Settings, cut, measure_words, prepare_all
from whyword.alignment.files import read_words
from whyword.alignment.links import read_links
from whyword.alignment.measures import MEASURES, record_prepared
from whyword.alignment.preparing import Prepared
from whyword.alignment.result import align_words
from whyword.trace.running import run

from measure import check, interleave, parse, publish

BAR = 2.0
PAIRS = 24
"""Of the first so many pairs the cost is measured."""


def main() -> None:
    """Measure and publish."""
    options = parse(
        __doc__,
        rounds=5,
        folder=Path("../shared/models/opus-mt-zh-en"),
        data=Path("../shared/data/alignment/zh-en"),
    )
    transformers.logging.set_verbosity_error()
    model = whyword.load(options.folder, dtype="float32")
    words = read_words(options.data / "test.zh", options.data / "test.en")
    prepared = [each for each in prepare_all(model, words, (None, None), 0) if each is not None]
    batches = [[prepared[index] for index in batch] for batch in cut(prepared[:PAIRS])]
    wanted = [Settings("logit", "output", block) for block in (None, *range(1, len(model.blocks) + 1))]
    seconds = interleave(
        {
            "forward": lambda: [
                run(model, [list(pair.read) for pair in batch], [pair.pair.source.ids for pair in batch])
                for batch in batches
            ],
            "logit": lambda: [measure_words(model, batch, wanted) for batch in batches],
        },
        options.rounds,
    )
    ratio = check("logit, all blocks ÷ forward passes", seconds["logit"] / seconds["forward"], BAR)
    measured = {name: round(each, 2) for name, each in seconds.items()}
    report = {"model": model.name, "seconds": measured, "checks": [ratio]}
    publish({**report, "AER by way": _vary(model, prepared, options.data)}, options.output)


def _vary(model: whyword.Model, prepared: list[Prepared], data: Path) -> dict[str, float]:
    """Give the error rate of ways to make words of tokens, in percent."""
    gold, tokens = read_links(data / "alignment.talp").sentences, dict[int, Tensor]()
    for batch in cut(prepared):
        recorded = record_prepared(model, [prepared[index] for index in batch], ["logit"])
        updates, each = MEASURES["logit"].measure(recorded), recorded.trace.places.each
        for place, index in enumerate(batch):
            steps, source = prepared[index].target_shares.shape[1], len(prepared[index].pair.source)
            tokens[index] = updates[place * each : place * each + steps, :, :source].clone()

    def rate(
        share: Callable[[Tensor], Tensor] = lambda shares: shares,
        reduce: Callable[[Tensor], Tensor] = lambda updates: updates.sum(1),
    ) -> float:
        pairs = []
        for index, pair in enumerate(prepared):
            sources = share(pair.source_shares)
            scores = pair.target_shares @ reduce(tokens[index]) @ sources.T
            pairs.append((align_words(scores, (pair.target_shares, sources)), gold[index]))
        return round(100 * score_links(pairs).aer, 2)

    return {
        "tokens shared by characters (what align does)": rate(),
        "a token counts whole for every word it touches": rate(share=lambda shares: (shares > 0).to(shares)),
        "a token counts for the word with most of it": rate(
            share=lambda shares: ((shares == shares.amax(0)) & (shares > 0)).to(shares)
        ),
        "mean over the tokens of a source word, not sum": rate(
            share=lambda shares: (
                shares / shares.sum(1, keepdim=True).clamp(min=torch.finfo(shares.dtype).tiny)
            )
        ),
        "negative updates of tokens cut to 0": rate(reduce=lambda updates: updates.sum(1).clamp(min=0)),
        "negative updates cut to 0 in every block": rate(reduce=lambda updates: updates.clamp(min=0).sum(1)),
        "the upper half of the blocks only": rate(
            reduce=lambda updates: updates[:, updates.shape[1] // 2 :].sum(1)
        ),
    }


if __name__ == "__main__":
    main()
