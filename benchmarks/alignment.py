"""What it costs to align words, as a ratio to teacher-forced passes over the same batches.

Bars, in CPU seconds of one thread: the default of `align` at most 1.3 × the passes; a corpus, files to links,
at most 1.15 × that, so that reading, tokenizing, choosing links and writing cost little. Fewer than 10,000
pairs are aligned twice: the first run also compares recorded with untouched runs, once for every class of
lengths. What 10,000 take is then estimated from both: that once, and the second run as often as it fits.

    python benchmarks/alignment.py [--folder ../shared/models/opus-mt-zh-en]
                                   [--data ../shared/data/alignment/zh-en] [--pairs 10000] [--words 1000]

The pairs of the data are repeated to as many as are asked for; of these, only those of at most so many words.

benchmarks/alignment_choices.py has the error rates.
"""

import time
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
import transformers

import whyword
from whyword.alignment.file_runs import align_files
from whyword.alignment.method_choice import choose_settings
from whyword.alignment.parallel_files import read_lines
from whyword.alignment.preparing import Prepared
from whyword.alignment.word_scores import cut, look_ahead, measure_words, prepare_all
from whyword.trace.running import run

from measure import check, interleave, parse, publish

BAR, CORPUS_BAR = 1.3, 1.15
LARGE = 10_000
"""The corpus whose cost is estimated."""
PAIRS = 48
"""Of the first so many pairs the cost of one batch is measured."""


def main() -> None:
    """Measure and publish."""
    options = parse(
        __doc__,
        rounds=5,
        folder=Path("../shared/models/opus-mt-zh-en"),
        data=Path("../shared/data/alignment/zh-en"),
        pairs=[1000],
        words=[1000],
    )
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    model = whyword.load(options.folder, dtype="float32")
    sides = [read_lines(options.data / name) for name in ("test.zh", "test.en")]
    (words,), (pairs,) = options.words, options.pairs
    lines = [each for each in zip(*sides, strict=True) if len(each[1].split()) <= words]
    batches = make_batches(model, lines[:PAIRS])
    settings = choose_settings(model, "combined", None, "output")
    seconds = interleave(
        {
            "forward": lambda: [pass_plainly(model, batch) for batch in batches],
            "combined": lambda: [measure_words(model, batch, [settings]) for batch in batches],
        },
        options.rounds,
        time.process_time,
    )
    factor = seconds["combined"] / seconds["forward"]
    corpus = measure_corpus(model, [*islice(cycle(lines), pairs)])
    allowed = corpus["corpus, forward"] * factor
    first, again = corpus["corpus, aligned"], corpus.get("corpus, aligned again")
    checks = [
        check("combined ÷ forward passes", factor, BAR),
        check(f"{pairs:,} pairs ÷ (forward passes × that)", first / allowed, CORPUS_BAR),
    ]
    if again is not None:
        large = (max(0.0, first - again) * pairs / LARGE + again) / allowed
        checks.append(check(f"{pairs:,} pairs again ÷ the same", again / allowed, CORPUS_BAR))
        checks.append(check(f"{LARGE:,} pairs ÷ the same, estimated", large, CORPUS_BAR))
    measured = {name: round(each, 2) for name, each in (seconds | corpus).items()}
    publish({"model": model.name, "seconds": measured, "checks": checks}, options.output)


def make_batches(model: whyword.Model, lines: list[tuple[str, str]]) -> list[list[Prepared]]:
    """Cut pairs as `align` does."""
    pairs = [(source.split(), target.split()) for source, target in lines]
    prepared = [each for each in prepare_all(model, pairs, (None, None), 0) if each is not None]
    return [[prepared[index] for index in batch] for batch in cut(prepared)]


def pass_plainly(model: whyword.Model, batch: list[Prepared]) -> None:
    """Run the network alone."""
    run(model, [list(pair.read) for pair in batch], [pair.pair.source.ids for pair in batch])


def measure_corpus(model: whyword.Model, lines: list[tuple[str, str]]) -> dict[str, float]:
    """Give CPU seconds of a run over files, and of the plain passes of all its batches."""
    forward, ahead = 0.0, look_ahead(["combined"])
    for start in range(0, len(lines), ahead):
        batches = make_batches(model, lines[start : start + ahead])
        began = time.process_time()
        for batch in batches:
            pass_plainly(model, batch)
        forward += time.process_time() - began
    with TemporaryDirectory() as folder:
        sides = Path(folder) / "source", Path(folder) / "target"
        for side, texts in zip(sides, zip(*lines, strict=True), strict=True):
            side.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
        settings = choose_settings(model, "combined", None, "output")
        seconds = {"corpus, forward": forward}
        for name in ("aligned", "aligned again")[: 1 if len(lines) >= LARGE else 2]:
            began = time.process_time()
            done = align_files([model], sides, Path(folder) / name, settings)
            seconds[f"corpus, {name}"] = time.process_time() - began
            print(done.speed)
    return seconds


if __name__ == "__main__":
    main()
