"""What it costs to align words, as a ratio to teacher-forced passes; and what changes the error rate.

Bar: logit for all decoder blocks at most 2 × the teacher-forced forward passes over the same batches, in CPU
seconds of one thread. The error rates are those of `logit` summed over all blocks, with other directions,
words made of tokens in other ways, and links chosen in other ways; none of it was tuned.

    python benchmarks/alignment.py [--folder ../shared/models/opus-mt-zh-en]
                                   [--data ../shared/data/alignment/zh-en]
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
import transformers
from torch import Tensor

import whyword
from whyword.alignment.aer import Score, score_links
from whyword.alignment.aligner import Settings, cut, measure_words, prepare_all
from whyword.alignment.alignment import align_words
from whyword.alignment.links import Link, read_links
from whyword.alignment.parallel_files import read_words
from whyword.alignment.preparing import Prepared
from whyword.alignment.symmetry import SYMMETRISATIONS, symmetrise
from whyword.alignment.token_scores import MEASURES, Recorded, record_prepared
from whyword.ledger.entries import enter_stack
from whyword.ledger.parts import AttentionPart, replay
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
    torch.set_num_threads(1)
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
        time.process_time,
    )
    ratio = check("logit, all blocks ÷ forward passes", seconds["logit"] / seconds["forward"], BAR)
    measured = {name: round(each, 2) for name, each in seconds.items()}
    report = {"model": model.name, "seconds": measured, "checks": [ratio]}
    publish({**report, "AER by way": vary(model, prepared, options.data)}, options.output)


def vary(model: whyword.Model, prepared: list[Prepared], data: Path) -> dict[str, list[float]]:
    """Give AER, precision and recall of other ways to the links, in percent."""
    gold, updates = read_links(data / "alignment.talp").sentences, read_updates(model, prepared)

    def rate(
        share: Callable[[Tensor], Tensor] = lambda shares: shares,
        reduce: Callable[[Tensor], Tensor] = lambda tokens: tokens.sum(1),
        link: Callable[[Tensor, Prepared], Iterable[Link]] = link_best,
        minus: str | None = None,
    ) -> list[float]:
        pairs = []
        for own, pair, links in zip(updates, prepared, gold, strict=True):
            tokens = own["target"] if minus is None else own["target"] - own[minus]
            shared = replace(pair, source_shares=share(pair.source_shares))
            scores = pair.target_shares @ reduce(tokens) @ shared.source_shares.T
            pairs.append((frozenset(link(scores, shared)), links))
        return _percent(score_links(pairs))

    def cut_negative(tokens: Tensor) -> Tensor:
        return tokens.sum(1).clamp(min=0)

    words = {
        "tokens shared by characters (what align does)": rate(),
        "a token counts whole for every word it touches": rate(share=lambda shares: (shares > 0).to(shares)),
        "a token counts for the word with most of it": rate(
            share=lambda shares: ((shares == shares.amax(0)) & (shares > 0)).to(shares)
        ),
        "mean over the tokens of a source word, not sum": rate(share=_normalise),
        "tokens of the translation weighed alike": rate(reduce=lambda tokens: _normalise(tokens.sum(1))),
        "negative updates of tokens cut to 0": rate(reduce=cut_negative),
        "negative updates cut to 0 in every block": rate(reduce=lambda tokens: tokens.clamp(min=0).sum(1)),
        "the upper half of the blocks only": rate(
            reduce=lambda tokens: tokens[:, tokens.shape[1] // 2 :].sum(1)
        ),
    }
    directions = {
        "direction U_w − mean row of U": rate(minus="mean"),
        "the same, negative updates of tokens cut to 0": rate(minus="mean", reduce=cut_negative),
        "direction U_w − expected row of U (log-probability)": rate(minus="expected"),
        "the same, negative updates of tokens cut to 0 ": rate(minus="expected", reduce=cut_negative),
    }
    links = {
        "best source word and best target word: " + way: rate(link=partial(link_both, way=way))
        for way in SYMMETRISATIONS
    }
    links["the same with U_w − mean row of U: intersection"] = rate(
        link=partial(link_both, way="intersection"), minus="mean"
    )
    links["shares of rows × shares of columns"] = rate(
        link=lambda scores, pair: link_best(_normalise(scores) * _normalise(scores.T).T, pair)
    )
    links["no link where no score is above 0"] = rate(
        link=lambda scores, pair: [each for each in link_best(scores, pair) if scores[each[1], each[0]] > 0]
    )
    return {**words, **directions, **links}


def read_updates(model: whyword.Model, prepared: list[Prepared]) -> list[dict[str, Tensor]]:
    """Give the updates of every pair by direction: of the word, of the mean row of U, of the expected one."""
    found: dict[int, dict[str, Tensor]] = {}
    rows = model.unembedding_rows.to(model.compute_dtype)
    for batch in cut(prepared):
        recorded = record_prepared(model, [prepared[index] for index in batch], ["logit"])
        by_direction = {
            "target": MEASURES["logit"].measure(recorded),
            "mean": pull_back(recorded, rows.mean(0).expand(len(recorded.targets), -1)),
            "expected": pull_back(recorded, recorded.trace.logits.softmax(-1) @ rows),
        }
        each = recorded.trace.places.each
        for place, index in enumerate(batch):
            steps, source = prepared[index].target_shares.shape[1], len(prepared[index].pair.source)
            found[index] = {
                name: updates[place * each : place * each + steps, :, :source].clone()
                for name, updates in by_direction.items()
            }
    return [found[index] for index in range(len(prepared))]


def pull_back(recorded: Recorded, direction: Tensor) -> Tensor:
    """Give the updates of cross-attention along any direction, by position, block and source."""
    model, trace = recorded.model, recorded.trace
    parts = replay(model, model.decoder_stack, trace.decoder)
    direction, _ = enter_stack(model, trace, direction)
    updates: list[Tensor] = []
    for block in reversed(range(len(model.blocks))):
        for part in reversed(parts):
            direction, written, _ = part.pull_back(block, direction)
            if isinstance(part, AttentionPart) and part.trace.cross:
                updates.insert(0, part.update(block, written).sum(1))
    return torch.stack(updates, dim=1)


def link_best(scores: Tensor, pair: Prepared) -> tuple[Link, ...]:
    """Link as align does."""
    return align_words(scores, (pair.target_shares, pair.source_shares))


def link_both(scores: Tensor, pair: Prepared, way: str) -> frozenset[Link]:
    """Link every word of either side to its best, and make both one."""
    backward = align_words(scores.T, (pair.source_shares, pair.target_shares))
    return symmetrise(link_best(scores, pair), [(source, target) for target, source in backward], way)


def _normalise(scores: Tensor) -> Tensor:
    """Let the positive part of every row sum to 1, where there is one."""
    kept = scores.clamp(min=0)
    return kept / kept.sum(1, keepdim=True).clamp(min=torch.finfo(kept.dtype).tiny)


def _percent(score: Score) -> list[float]:
    return [round(100 * each, 2) for each in (score.aer, score.precision, score.recall)]


if __name__ == "__main__":
    main()
