"""Which choices make a better word aligner: the error rate of every one that was tried, on human alignments.

Choices were made on the even lines (2, 4, …) of 450 Chinese–English pairs; what is reported are the odd ones,
with 95 % bootstrap intervals. Nothing is trained. docs/alignment.md has the table.

    python benchmarks/alignment_choices.py [--folder ../shared/models/opus-mt-zh-en]
                                           [--data ../shared/data/alignment/zh-en]
                                           [--figure docs/alignment-recall.svg]
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor

import whyword
from alignment_signals import Signals, read_signals
from whyword.alignment.aer import Score, find_interval, score_links
from whyword.alignment.agreeing_heads import combine
from whyword.alignment.linking import LINKING, Linking, link_words, share_both_sides
from whyword.alignment.links import Link, Links, read_links
from whyword.alignment.parallel_files import read_words
from whyword.alignment.word_scores import prepare_all

from measure import parse, publish

MUTUAL, BEST = Linking("mutual", recall=0.0, null=0.0), Linking("best")


ScoreWords = Callable[[Signals], Tensor]


def list_signals() -> Iterator[tuple[str, ScoreWords, Linking]]:
    """Name every way to score words that was tried, and how it was linked."""
    share = share_both_sides

    def both(one: ScoreWords, other: ScoreWords) -> ScoreWords:
        return lambda signals: (share(one(signals)) + share(other(signals))) / 2

    def updates(signals: Signals) -> Tensor:
        return signals.to_words(signals.updates.sum((1, 2)))

    def centred(signals: Signals) -> Tensor:
        return signals.to_words((signals.updates.sum(2) - signals.mean).sum(1))

    def cut_centred(signals: Signals) -> Tensor:
        return signals.to_words((signals.updates.sum(2) - signals.mean).sum(1).clamp(min=0))

    def log_probability(signals: Signals) -> Tensor:
        return signals.to_words((signals.updates.sum(2) - signals.expected).sum(1))

    def produced(signals: Signals) -> Tensor:
        return signals.produced

    def count_whole(signals: Signals) -> Tensor:
        return replace(signals, sources=(signals.sources > 0).double()).to_words(signals.updates.sum((1, 2)))

    def count_most(signals: Signals) -> Tensor:
        most = (signals.sources == signals.sources.amax(0)) & (signals.sources > 0)
        return replace(signals, sources=most.double()).to_words(signals.updates.sum((1, 2)))

    def average(signals: Signals) -> Tensor:
        mean = signals.sources / signals.sources.sum(1, keepdim=True).clamp(min=1e-30)
        return replace(signals, sources=mean).to_words(signals.updates.sum((1, 2)))

    def by_head(signals: Signals) -> Tensor:
        return signals.to_words(signals.updates.clamp(min=0).sum((1, 2)))

    def consumed(signals: Signals, first: int = 0, last: int | None = None) -> Tensor:
        return signals.to_words(signals.attention[1:, first:last].mean((1, 2)))

    def produced_attention(signals: Signals) -> Tensor:
        return signals.to_words(signals.attention[:-1].mean((1, 2)))

    yield "updates, every word linked", updates, BEST
    yield "a token counts fully for every word that it touches, every word linked", count_whole, BEST
    yield "a token counts only for the word that has most of it, every word linked", count_most, BEST
    yield "mean over the tokens of a source word, every word linked", average, BEST
    yield "negative updates of tokens cut to 0, every word linked", produced, BEST
    yield "updates − those of the mean row of U, every word linked", centred, BEST
    yield "updates of the log-probability, every word linked", log_probability, BEST
    yield "updates, mutual", updates, MUTUAL
    yield "updates, shares of rows × columns, mutual", lambda signals: share(updates(signals)), MUTUAL
    yield (
        "negative updates of tokens cut to 0, shares, mutual",
        lambda signals: share(produced(signals)),
        MUTUAL,
    )
    yield "the same by head", lambda signals: share(by_head(signals)), MUTUAL
    yield (
        "updates − those of the mean row of U, shares, mutual",
        lambda signals: share(centred(signals)),
        MUTUAL,
    )
    yield "the same, negative ones cut to 0", lambda signals: share(cut_centred(signals)), MUTUAL
    yield "attention where consumed, all heads", lambda signals: share(consumed(signals)), MUTUAL
    for block in range(6):
        one = partial(consumed, first=block, last=block + 1)
        yield (
            f"attention where consumed, block {block + 1}",
            lambda signals, one=one: share(one(signals)),
            MUTUAL,
        )
    yield "updates + attention where produced", both(produced, produced_attention), MUTUAL
    yield "updates + attention where consumed, all heads", both(produced, consumed), MUTUAL
    yield "updates + the same, lower half of the blocks", both(produced, partial(consumed, last=3)), MUTUAL
    yield "updates + the same, block 3", both(produced, partial(consumed, first=2, last=3)), MUTUAL
    yield "updates × the same, block 3", lambda signals: produced(signals) * consumed(signals, 2, 3), MUTUAL
    weights: dict[str, Callable[[Tensor], Tensor]] = {
        "by agreement": lambda own: own,
        "by agreement³": lambda own: own**3,
        "the one that agrees most": lambda own: (own == own.max()).to(own),
        "the four that agree most": lambda own: (own >= own.topk(4).values[-1]).to(own),
        "agreement above the mean": lambda own: (own - own.mean()).clamp(min=0),
        "agreement above half of the largest": lambda own: own * (own > own.max() / 2),
    }
    for name, weight in weights.items():
        chosen = partial(Signals.weigh, weight=weight)
        yield f"heads {name}, alone", lambda signals, chosen=chosen: share(chosen(signals)), MUTUAL
        yield f"updates + heads {name}", both(produced, chosen), MUTUAL
    yield (
        "updates × heads, shares of the product",
        lambda signals: share(
            produced(signals) * signals.weigh(weights["agreement above half of the largest"])
        ),
        MUTUAL,
    )


def list_links() -> Iterator[tuple[str, Callable[[Tensor], Sequence[Link]]]]:
    """Name every way to choose links that was tried, from the scores of `combined`."""
    for recall in (0.0, 0.3, 0.4, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 1.0):
        yield f"recall {recall:g}", partial(_link, linking=Linking("mutual", recall, 0.0))
    for null in (0.1, 0.2, 0.25, 0.3):
        yield f"recall 0.6, null {null:g}", partial(_link, linking=Linking("mutual", 0.6, null))
    for least in (0.4, 0.5, 0.6, 0.7, 0.8):
        yield (
            f"unlinked words by the largest share of their row or column > {least:g}",
            partial(_by_share, least=least),
        )
    for least in (0.3, 0.4, 0.5):
        yield f"neighbours of links with e ≥ {least:g} of the link's", partial(_by_neighbours, least=least)
    for least in (0.3, 0.35, 0.4):
        yield f"every pair with e > {least:g}", partial(_by_threshold, least=least)
    yield "every word", partial(_link, linking=BEST)


def _link(scores: Tensor, linking: Linking) -> Sequence[Link]:
    scores = scores / scores.max().clamp(min=1)  # what is not a share has no threshold
    every = torch.ones(scores.shape[0], dtype=torch.bool), torch.ones(scores.shape[1], dtype=torch.bool)
    return link_words(scores, scores, every, linking)


def _by_threshold(scores: Tensor, least: float) -> Sequence[Link]:
    return [(int(source), int(target)) for target, source in (scores > least).nonzero()]


def _by_share(scores: Tensor, least: float) -> Sequence[Link]:
    links = {*_link(scores, MUTUAL)}
    linked = {source for source, _ in links}, {target for _, target in links}
    rows, columns = scores / scores.sum(1, keepdim=True), scores / scores.sum(0, keepdim=True)
    for target, source in (rows > least).nonzero().tolist():
        if target not in linked[1]:
            links.add((source, target))
    for target, source in (columns > least).nonzero().tolist():
        if source not in linked[0]:
            links.add((source, target))
    return sorted(links)


def _by_neighbours(scores: Tensor, least: float) -> Sequence[Link]:
    links = [*_link(scores, MUTUAL)]
    for source, target in links:  # grows while it is read
        for down, right in ((-1, 0), (1, 0), (0, -1), (0, 1)):
            own, other = source + down, target + right
            inside = 0 <= own < scores.shape[1] and 0 <= other < scores.shape[0]
            free = all(own != one for one, _ in links) or all(other != two for _, two in links)
            if inside and free and scores[other, own] >= least * scores[target, source]:
                links.append((own, other))
    return links


def rate(links: Sequence[Sequence[Link]], gold: Sequence[Links]) -> dict[str, object]:
    """Give the error rate on even lines, and that on odd lines with its interval, in percent."""
    scores = [score_links([pair]) for pair in zip(links, gold, strict=True)]
    even, odd = (sum(scores[start::2], Score(0, 0, 0, 0)) for start in (1, 0))
    percent = [round(100 * each, 1) for each in (*find_interval(scores[::2]), odd.precision, odd.recall)]
    return {
        "even": round(100 * even.aer, 1),
        "odd": round(100 * odd.aer, 1),
        "95 %": percent[:2],
        "precision": percent[2],
        "recall": percent[3],
    }


def calibrate(scores: Sequence[Tensor], gold: Sequence[Links]) -> dict[str, list[float]]:
    """Give how many links of the odd lines have a confidence, by tenths, and the share that is right."""
    from whyword.alignment.confidence import estimate_confidence

    said: dict[int, list[bool]] = {}
    for own, known in zip(scores[::2], gold[::2], strict=True):
        links = _link(own, LINKING)
        for link, likely in zip(links, estimate_confidence(own, links), strict=True):
            said.setdefault(min(9, int(10 * likely)), []).append(link in known.allowed)
    return {
        f"{tenth / 10:.1f}": [len(right), round(sum(right) / len(right), 3)]
        for tenth, right in sorted(said.items())
    }


def main() -> None:
    """Measure and publish."""
    options = parse(
        __doc__,
        rounds=1,
        folder=Path("../shared/models/opus-mt-zh-en"),
        data=Path("../shared/data/alignment/zh-en"),
        figure=None,
    )
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    model = whyword.load(options.folder, dtype="float32")
    words = read_words(options.data / "test.zh", options.data / "test.en")
    gold = read_links(options.data / "alignment.talp").sentences
    prepared = [each for each in prepare_all(model, words, (None, None), 0) if each is not None]
    measured = measure(read_signals(model, prepared), gold)
    if options.figure is not None:
        draw_curve(measured["links of combined"], options.figure)
    publish({"model": model.name, **measured}, options.output)


def draw_curve(by_link: dict[str, dict[str, Any]], path: Path) -> None:
    """Draw precision over recall of the odd lines, by the knob."""
    import matplotlib.pyplot as plt

    knob = {name.split()[1]: own for name, own in by_link.items() if re.fullmatch(r"recall [\d.]+", name)}
    knob = {name: own for name, own in knob.items() if name != "1"}
    figure, axes = plt.subplots(figsize=(5, 3.6), layout="constrained")
    recall, precision = ([own[side] for own in knob.values()] for side in ("recall", "precision"))
    axes.plot(recall, precision, marker="o", color="#173cc8")
    for name, across, up in zip(knob, recall, precision, strict=True):
        if name not in ("0.3", "0.4"):
            axes.annotate(name, (across, up), xytext=(5, 4), textcoords="offset points", fontsize=8)
    axes.set_xlabel("recall, %")
    axes.set_ylabel("precision, %")
    axes.set_title("Links of combined, by --recall (odd lines)", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path)


def measure(signals: Sequence[Signals], gold: Sequence[Links]) -> dict[str, Any]:
    """Give the error rates of all choices."""
    by_signal = {
        name: rate([_link(score(each), linking) for each in signals], gold)
        for name, score, linking in list_signals()
    }
    combined = [
        combine(each.updates.sum((1, 2)), [*each.attention[1:].unbind(1)], (each.targets, each.sources))
        for each in signals
    ]
    by_link = {name: rate([*map(link, combined)], gold) for name, link in list_links()}
    return {"signals": by_signal, "links of combined": by_link, "confidence": calibrate(combined, gold)}


if __name__ == "__main__":
    main()
