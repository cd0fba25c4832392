"""Evaluation: do explanations point at the words that grammar says matter?"""

from .evaluating import evaluate
from .expectation import Difference, compare_with
from .figures import open_run, save_figures
from .report import Report, read_report
from .tables import save_tables, to_csv, to_latex, to_markdown

__all__ = [
    "Difference",
    "Report",
    "compare_with",
    "evaluate",
    "open_run",
    "read_report",
    "save_figures",
    "save_tables",
    "to_csv",
    "to_latex",
    "to_markdown",
]
