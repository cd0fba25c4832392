"""What to do about an error, as the user of the command would type it.

The library speaks Python: `whyword.load(..., allow='pickle')`, `max_memory='2GB'`. On the command line the
same is an option: `--allow pickle`, `--max-memory 2GB`. What only Python can do is said to be Python.
"""

import re
from collections.abc import Callable, Collection
from typing import Any, get_type_hints

__all__ = ["PHRASES", "list_options", "word_for_command"]

_CALL_WITH_OPTION = re.compile(r"""(?:whyword\.)?\w+\(\.\.\., (\w+)=(['"])([\w.-]+)\2\)""")
_KEYWORD = re.compile(r"""\b(\w+)=(['"])([\w.-]+)\2""")
_SUBJECT = re.compile(r"^(\w+)(?= (?:is|names) )|(?<=allowed by )(\w+)")
_OTHER_CALL = re.compile(r"(?:pass |with )?whyword\.\w+\(")
PHRASES = (
    ("explain(..., max_memory=...)", "whyword explain --max-memory SIZE"),
    ("whyword.explain_translation(model, source), or `whyword translate`", "`whyword translate`"),
    ("use whyword.explain.", "use `whyword explain`."),
    (
        "Pass chat messages: explain(model, [{'role': 'user', 'content': '…'}]).",
        "Give a file of turns: --chat turns.json.",
    ),
    (
        'Make it with whyword.fill("… {question} …", question="…"), or pass spans={name: (start, end)}.',
        "Give --documents FILE … --question TEXT, or divide it --by sentence.",
    ),
    ("load a model of your own: whyword.load(folder)", "name a model of your own: -m FOLDER"),
)
"""What the library says, and what the command says instead."""
_TOKENIZER = "Pass token ids, or load it with whyword.load(..., tokenizer=...)."


def word_for_command(text: str, options: Collection[str]) -> str:
    """Word a line of an error for the user of a command that has some options."""
    for python, command in PHRASES:
        text = text.replace(python, command)
    folder = "a folder that holds a tokenizer too."
    text = text.replace(
        _TOKENIZER, f"Give token ids (--ids), or {folder}" if "--ids" in options else f"Give {folder}"
    )

    def write(found: re.Match[str]) -> str:
        option = _spell(found[1])
        return f"{option} {found[3]}" if option in options else found[0]

    def name(found: re.Match[str]) -> str:
        option = _spell(found[0])
        return option if option in options else found[0]

    text = _CALL_WITH_OPTION.sub(write, text)
    text = _SUBJECT.sub(name, _KEYWORD.sub(write, text))
    return _OTHER_CALL.sub(lambda found: f"in Python {found[0]}", text)


def list_options(command: Callable[..., Any]) -> set[str]:
    """List the options of a command, from its annotations."""
    return {
        option
        for hint in get_type_hints(command, include_extras=True).values()
        for about in getattr(hint, "__metadata__", ())
        # typer keeps the first name where a default would be
        for declared in (getattr(about, "default", None), *(getattr(about, "param_decls", None) or ()))
        if isinstance(declared, str)
        for option in declared.split("/")
        if option.startswith("--")
    }


def _spell(name: str) -> str:
    return f"--{name.replace('_', '-')}"
