"""The journal of a run: a line for every finished shard; settings that must agree when it is resumed."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..runs.journal import append_lines, read_lines, read_settings, repair, require_same
from ..runs.whole_files import write_file

__all__ = [
    "CORPUS_SCHEMA",
    "ShardJournal",
    "ShardLine",
    "begin_run",
    "is_begun",
    "is_corpus_run",
    "name_journal",
    "open_shards",
    "read_corpus_settings",
    "read_part",
    "read_shard_lines",
]

CORPUS_SCHEMA = "whyword.corpus-run/1"
_SETTINGS = "settings.json"
_REMEDY = "Name a folder that `whyword run --out` wrote."


@dataclass(frozen=True)
class ShardLine:
    """A finished shard."""

    shard: int
    file: str
    rows: int
    failed: int
    """Rows that could not be explained."""
    bytes: int
    seconds: float
    """What it took a worker; this is in no shard, so that shards are the same bytes whoever made them."""


@dataclass(frozen=True)
class ShardJournal:
    """The journal that this process writes, and the shards that are finished, by whoever."""

    folder: Path
    path: Path
    done: frozenset[int]

    def append(self, line: ShardLine) -> None:
        """Add a finished shard."""
        append_lines(self.path, [json.dumps(asdict(line))])


def read_part(text: str | None) -> tuple[int, int]:
    """Read which share of the work is done, from 0, and of how many: "2/8"; None: all of it."""
    if text is None:
        return 0, 1
    own, _, all_ = text.partition("/")
    if not own.isdecimal() or not all_.isdecimal() or not 1 <= int(own) <= int(all_):
        raise InputError(f"shard is {text!r}.", "Give the share and how many there are: 1/8 to 8/8.")
    return int(own) - 1, int(all_)


def name_journal(part: tuple[int, int]) -> str:
    """Name the journal of a share."""
    share, shares = part
    return "shards.jsonl" if shares == 1 else f"shards-{share + 1}-of-{shares}.jsonl"


def is_begun(folder: Path) -> bool:
    """Tell whether a run has written its settings into a folder."""
    return (folder / _SETTINGS).exists()


def begin_run(folder: Path, settings: Mapping[str, Any]) -> None:
    """Write the settings of a new run; refuse to resume one with others."""
    if is_begun(folder):
        require_same(folder, read_corpus_settings(folder), settings)
    else:
        written = json.dumps({"schema": CORPUS_SCHEMA, **settings}, indent=1, ensure_ascii=False)
        write_file(folder / _SETTINGS, written + "\n")


def read_corpus_settings(folder: Path) -> dict[str, Any]:
    """Read the settings of a run."""
    try:
        return read_settings(folder, CORPUS_SCHEMA)
    except InputError as error:
        raise InputError(error.wrong, _REMEDY) from None


def is_corpus_run(folder: Path) -> bool:
    """Tell whether a folder holds a run over a file of prompts."""
    try:
        found = json.loads((folder / _SETTINGS).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(found, dict) and found.get("schema") == CORPUS_SCHEMA


def open_shards(folder: Path, journal: Path, shards: int) -> ShardJournal:
    """Open the journal of this process; a shard counts where its file is there, too."""
    repair(journal)
    lines = read_shard_lines(folder)
    return ShardJournal(folder, journal, frozenset(number for number in lines if number < shards))


def read_shard_lines(folder: Path) -> dict[int, ShardLine]:
    """Read all journals of a run: finished shards by number, in order."""
    found: dict[int, ShardLine] = {}
    for path in sorted(folder.glob("shards*.jsonl")):
        for line in read_lines(path, lambda read: ShardLine(**read)):
            if (folder / line.file).is_file():
                found[line.shard] = line
    return dict(sorted(found.items()))
