"""Evidence columns of a file: written by a rule, and compared with existing ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .dataset_names import PUBLISHED, Published
from .evidence_rules import PHENOMENA, require_phenomenon
from .examples import Example, Skipped, Spans
from .file_layouts import Table
from .parses import find_evidence
from .rows import is_missing, read_row

__all__ = ["Agreement", "Comparison", "Disagreement", "annotate", "guess_phenomenon"]

_COLUMNS = ("target", "target_phrase")


@dataclass(frozen=True)
class Disagreement:
    """A row in which column and rule differ."""

    row: int
    prefix: str
    published: str
    found: str | None


@dataclass(frozen=True)
class Comparison:
    """How one evidence column compares with what the rule found."""

    column: str
    rows: int
    """Rows in which the column is not empty."""
    disagreements: tuple[Disagreement, ...]

    @property
    def share(self) -> float:
        """The share of its rows that agree."""
        return 1 - len(self.disagreements) / self.rows


@dataclass(frozen=True)
class Agreement:
    """What a rule found in a file."""

    phenomenon: str
    rows: int
    skipped: tuple[Skipped, ...]
    """Rows without a usable pair, and rows in which nothing was found."""
    comparisons: tuple[Comparison, ...]
    """One for each existing evidence column."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "schema": "whyword.evidence/1",
            "phenomenon": self.phenomenon,
            "rows": self.rows,
            "skipped": [{"row": each.row, "reason": each.reason} for each in self.skipped],
            "columns": [
                {
                    "column": each.column,
                    "rows": each.rows,
                    "agree": each.rows - len(each.disagreements),
                    "disagreements": [vars(other) for other in each.disagreements],
                }
                for each in self.comparisons
            ],
        }


def guess_phenomenon(path: Path) -> str | None:
    """Guess the phenomenon from the name of a file."""
    stem = path.stem.lower()
    return next((known.phenomenon for known in PUBLISHED.values() if stem in known.files), None)


def annotate(table: Table, phenomenon: str, pipeline: str | None = None) -> tuple[Table, Agreement]:
    """Write the evidence columns of a table by a rule, and compare them with existing ones."""
    phenomenon = require_phenomenon(phenomenon)
    has_phrase = PHENOMENA[phenomenon].has_phrase
    known = Published(Path(table.source).stem, "", "", phenomenon, ())
    read = [read_row(known, row, _without_evidence(columns)) for row, columns in enumerate(table.rows)]
    found, missed = find_evidence([each for each in read if isinstance(each, Example)], phenomenon, pipeline)
    by_row = {example.row: example for example in found}
    written = ["target", "target_span", *(["target_phrase", "target_phrase_span"] if has_phrase else [])]
    rows = tuple({**columns, **_cells(by_row.get(row), written)} for row, columns in enumerate(table.rows))
    unread = [each for each in read if isinstance(each, Skipped)]
    skipped = sorted((*unread, *missed), key=lambda each: each.row)
    there = [name for name in _COLUMNS[: 1 + has_phrase] if name in table.columns]
    comparisons = [_compare(table.rows, by_row, known, column) for column in there]
    return (
        replace(table, rows=rows, columns=tuple(dict.fromkeys((*table.columns, *written)))),
        Agreement(phenomenon, len(rows), tuple(skipped), tuple(each for each in comparisons if each.rows)),
    )


def _without_evidence(columns: Mapping[str, str]) -> dict[str, str]:
    """Remove the evidence columns before a rule is applied."""
    return {name: value for name, value in columns.items() if not name.startswith("target")}


def _cells(example: Example | None, written: Sequence[str]) -> dict[str, str]:
    """Return the evidence cells of a row; NA where nothing was found."""
    if example is None:
        return dict.fromkeys(written, "NA")
    cells: dict[str, str] = {}
    for column, spans in zip(_COLUMNS, (example.word, example.phrase), strict=True):
        cells[column] = _text(example.prefix, spans) or "NA"
        cells[f"{column}_span"] = ", ".join(f"{start}:{end}" for start, end in spans) or "NA"
    return {name: cells[name] for name in written}


def _compare(
    rows: Sequence[Mapping[str, str]], found: Mapping[int, Example], known: Published, column: str
) -> Comparison:
    """List the rows in which a column differs: another word, or the same one elsewhere."""
    disagreements = []
    count = 0
    for row, columns in enumerate(rows):
        if is_missing(columns.get(column)):
            continue
        count += 1
        published = read_row(known, row, columns)
        example = found.get(row)
        at = _spans(published, column) if isinstance(published, Example) else ()
        ours = _spans(example, column) if example is not None else ()
        if not at or at != ours:
            prefix = columns.get("one_prefix_prefix", columns.get("sentence_good", ""))
            text = None if example is None else _text(example.prefix, ours)
            disagreements.append(Disagreement(row, prefix, columns[column], text))
    return Comparison(column, count, tuple(disagreements))


def _spans(example: Example, column: str) -> Spans:
    return example.word if column == "target" else example.phrase


def _text(prefix: str, spans: Spans) -> str:
    return " … ".join(prefix[start:end] for start, end in spans)
