"""The script of a saved report: the modules of page/, joined into one.

Modules import from each other by name, `import { a, b } from "./module.js";`, and export where they declare.
Without these words, in the order of their imports, they are one script: no two of them declare the same name.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files

__all__ = ["ENTRY", "IMPORT", "join_modules", "read_modules", "strip_comments"]

ENTRY = "saved_report.js"
"""The module that starts a saved report."""
IMPORT = re.compile(r'^import \{ ([\w, ]+) \} from "\./(\w+\.js)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:const|function|class) )", re.MULTILINE)
_COMMENT = re.compile(r"^[ \t]*/\*.*?\*/\n", re.MULTILINE | re.DOTALL)
"""A comment that has lines of its own."""
_INDENT = re.compile(r"^[ \t]+", re.MULTILINE)


@cache
def read_modules() -> Mapping[str, str]:
    """Read the modules of the page, by file name."""
    folder = files(__package__) / "page"
    return {
        path.name: path.read_text(encoding="utf-8")
        for path in sorted(folder.iterdir(), key=lambda path: path.name)
        if path.name.endswith(".js")
    }


@cache
def join_modules() -> str:
    """Return the script of a saved report: every module, without comments, after those it imports from."""
    modules = read_modules()
    order = dict.fromkeys(_list_needed(modules, ENTRY))
    return "".join(_EXPORT.sub("", strip_comments(IMPORT.sub("", modules[name]))) for name in order)


def strip_comments(script: str) -> str:
    """Leave out comments with lines of their own, and spaces before lines: no string spans lines."""
    return _INDENT.sub("", _COMMENT.sub("", script))


def _list_needed(modules: Mapping[str, str], name: str, above: tuple[str, ...] = ()) -> Iterator[str]:
    """Name the modules that one needs, those that it imports from before itself."""
    if name in above:
        raise ValueError(f"{' imports '.join([*above, name])}: modules import in one direction.")
    for _, other in IMPORT.findall(modules[name]):
        yield from _list_needed(modules, other, (*above, name))
    yield name
