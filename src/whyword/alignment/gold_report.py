"""What is written of an evaluation: the table of best blocks, all blocks, the figure and sentences."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..models.model import Model
from ..runs.whole_files import write_file
from ..view.alignment_grid import add_gold
from ..view.alignment_plots import plot_alignments, plot_blocks
from ..view.html import render_html
from ..view.plots import has_plots
from ..view.sheet import Sheet, write_csv, write_latex, write_markdown
from .aligner import align_all
from .gold_evaluation import FORWARD, KINDS, AlignmentReport, Asked, Measured
from .links import Links
from .method_choice import choose_settings
from .word_scores import COMBINED

__all__ = ["Line", "lay_out", "lay_out_best", "write_report", "write_sentences"]

HEADINGS = ("method", "step", "block", "AER", "95 %", "precision", "recall", "all blocks", "95 %")
_MOST_WORDS = 24
"""Of a sentence that is drawn unless others are named."""


@dataclass(frozen=True)
class Line:
    """One method of the table: its best block, and all blocks together."""

    method: str
    step: str
    direction: str
    block: int | None
    """None: it has no blocks."""
    best: Measured
    total: Measured | None

    def cells(self) -> tuple[str, ...]:
        """Write it in percent."""
        name = self.method if self.direction == FORWARD else f"{self.method}, {self.direction}"
        numbers = [f"{100 * each:.1f}" for each in (self.best.score.precision, self.best.score.recall)]
        total = ("–", "–") if self.total is None else _write_rate(self.total)
        block = "–" if self.block is None else str(self.block)
        return name, self.step, block, *_write_rate(self.best), *numbers, *total


def _write_rate(measured: Measured) -> tuple[str, str]:
    """Write an error rate and its interval in percent."""
    low, high = measured.interval
    return f"{100 * measured.score.aer:.1f}", f"{100 * low:.1f}–{100 * high:.1f}"


def lay_out_best(report: AlignmentReport) -> list[Line]:
    """Find the best block of every method."""
    lines = []
    for (method, step, direction), rows in report.rows().items():
        blocks = [each for each in rows if each.settings.block is not None]
        best = min(blocks or rows, key=lambda each: each.score.aer)
        total = next((each for each in rows if each.settings.block is None), None) if blocks else None
        lines.append(Line(method, step, direction, best.settings.block, best, total))
    return lines


def lay_out(report: AlignmentReport) -> Sheet:
    """Lay out the paper's table."""
    title = f"{report.model}, {report.sentences} sentence pairs; lower AER is better; percent"
    return Sheet(title, HEADINGS, tuple(line.cells() for line in lay_out_best(report)), names=2)


def write_report(report: AlignmentReport, out: Path) -> list[Path]:
    """Write the table (md, csv, tex), all blocks (csv) and, where matplotlib is there, the figure."""
    sheet = lay_out(report)
    blocks = [
        ("method", "step", "direction", "block", "AER", "low", "high", "precision", "recall"),
        *_list_blocks(report),
    ]
    files: dict[str, str | bytes] = {
        "table.md": f"{write_markdown(sheet)}\n{sheet.title}\n",
        "table.csv": write_csv([sheet.headings, *sheet.rows]),
        "table.tex": write_latex(sheet),
        "blocks.csv": write_csv(blocks),
    }
    if has_plots():
        rates, sums = _curves(report)
        for form in ("png", "svg") if rates else ():
            files[f"blocks.{form}"] = plot_blocks(rates, sums, form)
    for name, content in files.items():
        write_file(out / name, content)
    return [out / name for name in files]


def write_sentences(model: Model, asked: Asked, out: Path, numbers: Sequence[int] = ()) -> list[Path]:
    """Show sentences, counted from 1, with the gold links: a report of all, and a picture of each.

    What `align` gives by default is beside attention. Without numbers the first three of few words.
    """
    short = [
        index
        for index, (source, target) in enumerate(asked.words, 1)
        if source and target and max(len(source), len(target)) <= _MOST_WORDS
    ]
    ways = [
        choose_settings(model, "attention", None, "output", KINDS[FORWARD]),
        choose_settings(model, COMBINED, None, "output"),
    ]
    paths, reported = [], []
    for number in numbers or short[:3]:
        pair = asked.words[number - 1]
        documents = [
            next(align_all(model, [pair], way, asked.languages, first=number - 1)).to_dict() for way in ways
        ]
        known = asked.gold.sentences
        gold = known[number - 1] if number <= len(known) else Links()
        links = sorted(gold.sure), sorted(gold.possible - gold.sure)
        reported += [add_gold(document, *links) for document in documents]
        if has_plots():
            paths.append(out / f"sentence-{number}.png")
            write_file(paths[-1], plot_alignments(documents, "png", links))
    if not reported:
        return []
    write_file(out / "sentences.html", render_html(reported))
    return [*paths, out / "sentences.html"]


def _curves(report: AlignmentReport) -> tuple[dict[str, list[float]], dict[str, float]]:
    """Return AER by block, and of all blocks, by what a line of the figure is called."""
    rates: dict[str, list[float]] = {}
    sums: dict[str, float] = {}
    for (method, step, direction), rows in report.rows().items():
        blocks = [each for each in rows if each.settings.block is not None]
        if direction != "forward" or not blocks:
            continue
        name = f"{method}, input" if step == "input" else method
        rates[name] = [100 * each.score.aer for each in blocks]
        for each in rows:
            if each.settings.block is None:
                sums[name] = 100 * each.score.aer
    return rates, sums


def _list_blocks(report: AlignmentReport) -> list[tuple[str, ...]]:
    return [
        (
            each.settings.method,
            each.settings.step,
            each.direction,
            str(each.settings.block or "all"),
            *(
                f"{100 * share:.2f}"
                for share in (each.score.aer, *each.interval, each.score.precision, each.score.recall)
            ),
        )
        for each in report.measured
    ]
