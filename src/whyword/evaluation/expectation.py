"""Compare published figures with measured ones."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..attribute.methods import METHODS
from ..errors import InputError
from .report import CHANCE, Report

__all__ = ["TOLERANCE", "Difference", "compare_with"]

TOLERANCE = 0.02


@dataclass(frozen=True)
class Difference:
    """A number that is not what was expected."""

    dataset: str
    method: str
    expected: float
    measured: float

    def __str__(self) -> str:
        return (
            f"{self.dataset}, {self.method}: {self.measured:.3f} measured, {self.expected:.3f} expected "
            f"({self.measured - self.expected:+.3f})"
        )


def compare_with(path: str | Path, report: Report) -> tuple[int, list[Difference]]:
    """Compare MRR with a CSV file of expected figures: a column `dataset`, and one for each method.

    Methods may have their names in the paper's table; empty cells, and datasets and methods that were not
    measured, are ignored. Returns how many were compared, and those that differ by more than 0.02.
    """
    compared, differences = 0, []
    for number, line in enumerate(_read(Path(path)), start=2):
        row = next(
            (row for row in (*report.rows, *report.groups) if row.name == line["dataset"].strip()), None
        )
        for heading, text in line.items():
            method = _method_of(heading)
            if row is None or method not in row.cells["MRR"] or not (text or "").strip():
                continue
            try:
                expected = float(text)
            except ValueError:
                raise InputError(
                    f"Line {number} of {path} has {text!r} under {heading!r}.", "Write numbers, or nothing."
                ) from None
            compared += 1
            measured = row.cells["MRR"][method].mean
            if abs(measured - expected) > TOLERANCE:
                differences.append(Difference(row.name, method, expected, measured))
    if compared == 0:
        raise InputError(
            f"{path} has no figure for what was measured.",
            f"Datasets here: {', '.join(row.name for row in report.rows)}; "
            f"methods: {', '.join((*report.methods, CHANCE))}.",
        )
    return compared, differences


def _read(path: Path) -> Sequence[dict[str, str]]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            lines = list(reader)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}.", "Pass a CSV file.") from None
    if "dataset" not in (reader.fieldnames or []):
        raise InputError(
            f"{path} has the columns {', '.join(reader.fieldnames or ['none'])}.",
            "It needs a column dataset, and one for each method.",
        )
    return lines


def _method_of(heading: str | None) -> str:
    names = {method.title.casefold(): name for name, method in METHODS.items()}
    return names.get((heading or "").strip().casefold(), heading or "")
