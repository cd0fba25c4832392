"""The cells of a page: fenced blocks that are run when the site is built, and what is shown of them.

    ```python            run, shown, with what it prints and displays below
    ```sh                commands of whyword: run, shown, with what they print below
    ```{.sh .quiet}      run and shown, without what it prints; so ```{.python .quiet}
    <!-- run … -->       Python that is run and not shown; what it displays is shown
    ```bash, ```text …   shown, not run

A page is run if its front matter says `run: true`.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Cell", "find_cells", "replace_cells"]

_FENCE = re.compile(
    r"^(?P<indent> *)```(?:(?P<plain>python|sh)|\{\.(?P<language>python|sh) \.quiet\})\n"
    r"(?P<body>.*?)^(?P=indent)```$"
    r"|^(?P<margin> *)<!-- run\n(?P<hidden>.*?)^(?P=margin)-->$",
    flags=re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Cell:
    """A block of a page that is run."""

    source: str
    language: str
    indent: str
    shown: bool
    """Whether the page shows the source."""
    quiet: bool
    """Whether the page leaves out what it prints."""

    @property
    def code(self) -> str:
        """The Python that a kernel runs."""
        return self.source if self.language == "python" else f"run_commands({self.source!r})"


def find_cells(page: str) -> list[Cell]:
    """Return the cells of a page from top to bottom."""
    return [_make_cell(found) for found in _FENCE.finditer(page)]


def replace_cells(page: str, render: Callable[[int, Cell, str], str]) -> str:
    """Return the page with every cell replaced by what `render` makes of its number, itself and its text."""
    numbers = iter(range(len(find_cells(page))))
    return _FENCE.sub(lambda found: render(next(numbers), _make_cell(found), found[0]), page)


def _make_cell(found: re.Match[str]) -> Cell:
    hidden = found["hidden"] is not None
    indent = found["margin"] if hidden else found["indent"]
    body = found["hidden"] if hidden else found["body"]
    return Cell(
        source="\n".join(line.removeprefix(indent) for line in body.rstrip("\n").split("\n")),
        language="python" if hidden else found["plain"] or found["language"],
        indent=indent,
        shown=not hidden,
        quiet=found["language"] is not None,
    )
